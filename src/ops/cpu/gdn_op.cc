#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/cpu/conv_history.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/scalar_math.h"
#include "ops/det_math.h"

namespace holdfast {
namespace {

constexpr float kL2Eps = 1e-6f;        // spec: qwen4exp, 4.4
constexpr int64_t kStateColumns = 32;  // value columns of one task: its state stays in the L1 cache
constexpr int64_t kConvChannels = 2048;

// x = x / sqrt(sum x^2 + eps) * scale
void L2Normalize(const KernelTable& kernels, float scale, int64_t n, float* x) {
  const float inv = 1.0f / std::sqrt(kernels.dot(x, x, n) + kL2Eps);
  for (int64_t i = 0; i < n; ++i) x[i] = (x[i] * inv) * scale;
}

}  // namespace

Status CpuBackend::Gdn(const GdnArgs& args) {
  scratch_.Reset();
  const int64_t dim = args.head_dim;
  const int64_t n_v = args.n_value_heads, n_k = args.n_key_heads;
  const int64_t channels = (2 * n_k + n_v) * dim;
  const int64_t n_rows = args.rows.n_rows;
  const float* qkv = HostData(args.qkv);
  float* mixed = scratch_.Get<float>(n_rows * channels);
  float* decay = scratch_.Get<float>(n_rows * n_v);
  float* beta = scratch_.Get<float>(n_rows * n_v);

  const int64_t n_parts = (channels + kConvChannels - 1) / kConvChannels;
  const float* conv = HostData(args.conv);
  for (const Segment& segment : args.rows.segments) {
    const ConvHistory history(HostData({segment.running, args.conv_offset}), args.conv_kernel - 1,
                              channels, qkv + segment.row_begin * channels);
    pool_.For(segment.n_rows * n_parts, [&](int64_t task, int) {
      const int64_t row = task / n_parts, begin = task % n_parts * kConvChannels;
      const float* taps[ConvHistory::kMaxTaps];
      for (int t = 0; t < args.conv_kernel; ++t) {
        taps[t] = history.Column(row - (args.conv_kernel - 1) + t) + begin;
      }
      kernels_->conv_silu(taps, conv + begin, channels, args.conv_kernel,
                          std::min(kConvChannels, channels - begin),
                          mixed + (segment.row_begin + row) * channels + begin);
    });
    if (segment.log == nullptr) {
      history.Advance(segment.n_rows);
    } else {
      std::memcpy(HostData({segment.log, args.log.qkv_offset}), qkv + segment.row_begin * channels,
                  segment.n_rows * channels * sizeof(float));
    }
  }

  const float* a = HostData(args.a);
  const float* b = HostData(args.b);
  const float* ssm_a = HostData(args.ssm_a);
  const float* dt_bias = HostData(args.dt_bias);
  const float q_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)));
  pool_.For(n_rows, [&](int64_t row, int) {
    float* q = mixed + row * channels;
    for (int64_t h = 0; h < n_k; ++h) {
      L2Normalize(*kernels_, q_scale, dim, q + h * dim);
      L2Normalize(*kernels_, 1.0f, dim, q + (n_k + h) * dim);
    }
    for (int64_t h = row * n_v; h < (row + 1) * n_v; ++h) {
      const int64_t head = h - row * n_v;
      decay[h] = Exp(ssm_a[head] * DetSoftplus(a[h] + dt_bias[head]));
      beta[h] = Sigmoid(b[h]);
    }
  });

  for (const Segment& segment : args.rows.segments) {
    if (segment.log == nullptr) continue;
    for (int64_t i = 0; i < segment.n_rows; ++i) {
      const int64_t row = segment.row_begin + i;
      std::memcpy(HostData({segment.log, args.log.k_hat_offset}) + i * n_k * dim,
                  mixed + row * channels + n_k * dim, n_k * dim * sizeof(float));
      std::memcpy(HostData({segment.log, args.log.decay_offset}) + i * n_v, decay + row * n_v,
                  n_v * sizeof(float));
    }
  }

  const int64_t columns = std::min(kStateColumns, dim);
  const int64_t n_slices = (dim + columns - 1) / columns;
  const int64_t n_segments = static_cast<int64_t>(args.rows.segments.size());
  float* out = HostData(args.out);
  pool_.For(n_segments * n_v * n_slices, [&](int64_t task, int thread) {
    const Segment& segment = args.rows.segments[task / (n_v * n_slices)];
    const int64_t head = task / n_slices % n_v, begin = task % n_slices * columns;
    const float* rows = mixed + segment.row_begin * channels;
    const int64_t key_head = head % n_k;
    GdnSlice slice{
        .state = HostData({segment.running, args.state_offset}) + head * dim * dim + begin,
        .state_stride = dim,
        .dk = dim,
        .n_v = std::min(columns, dim - begin),
        .n_tokens = segment.n_rows,
        .q_hat = rows + key_head * dim,
        .k_hat = rows + (n_k + key_head) * dim,
        .qk_stride = channels,
        .value = rows + (2 * n_k + head) * dim + begin,
        .value_stride = channels,
        .decay = decay + segment.row_begin * n_v + head,
        .beta = beta + segment.row_begin * n_v + head,
        .gate_stride = n_v,
        .out = out + (segment.row_begin * n_v + head) * dim + begin,
        .out_stride = n_v * dim};
    if (segment.log != nullptr) {
      Scratch& local = thread_scratch_[thread];
      local.Reset();
      slice.keep_state = false;
      slice.scratch = local.Get<float>(dim * slice.n_v);
      slice.delta = HostData({segment.log, args.log.delta_offset}) + head * dim + begin;
      slice.delta_stride = n_v * dim;
    }
    kernels_->gdn(slice);
  });

  const float* z = HostData(args.z);
  const float* gain = HostData(args.norm);
  pool_.For(n_rows, [&](int64_t row, int) {
    for (int64_t h = 0; h < n_v; ++h) {
      float* o = out + (row * n_v + h) * dim;
      kernels_->rms_norm(o, gain, dim, args.eps, o);
      kernels_->sigmoid_mul(o, z + (row * n_v + h) * dim, dim, o);
    }
  });
  return OkStatus();
}

}  // namespace holdfast

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/cpu/conv_history.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/scalar_math.h"
#include "weights/dequantize.h"

namespace holdfast {
namespace {

// Sigmoid(sign(a) * sqrt(max(|a|, 1e-6))), one half at 0 (spec: qwen4exp, 7.2).
float StreamGate(float a) {
  if (a == 0.0f) return 0.5f;
  const float magnitude = std::sqrt(std::fabs(a) > 1e-6f ? std::fabs(a) : 1e-6f);
  if (!(a == a)) return a;
  return Sigmoid(a > 0.0f ? magnitude : -magnitude);
}

}  // namespace

Status CpuBackend::Ple(const PleArgs& args) {
  scratch_.Reset();
  const WeightView& table = args.table->view();
  const int64_t n_rows = args.rows.n_rows, dim = args.dim;
  const int64_t width = args.n_streams * dim, embed = args.n_heads * table.n_cols;
  float* embedding =
      args.embedding.buffer ? HostData(args.embedding) : scratch_.Get<float>(n_rows * embed);
  if (args.tier) HF_RETURN_IF_ERROR(args.tier->Wait());
  pool_.For(n_rows, [&](int64_t row, int) {
    for (int h = 0; h < args.n_heads; ++h) {
      const int64_t i = row * args.n_heads + h;
      DequantizeRow(table.type, args.tier ? args.tier->Row(i) : table.Row(args.table_rows[i]),
                    table.n_cols, embedding + row * embed + h * table.n_cols);
    }
  });

  float* key = scratch_.Get<float>(n_rows * width);
  float* value = scratch_.Get<float>(n_rows * dim);
  const Product products[] = {{&args.key->view(), false, key, width},
                              {&args.value->view(), false, value, dim}};
  RunProducts(Prepare(embedding, n_rows, embed, products), products);

  float* gated = scratch_.Get<float>(n_rows * width);    // v
  float* columns = scratch_.Get<float>(n_rows * width);  // c, the input of the convolution
  float* x = HostData(args.x);
  const float root = std::sqrt(static_cast<float>(dim));
  pool_.For(n_rows * args.n_streams, [&](int64_t task, int thread) {
    const int64_t row = task / args.n_streams, s = task % args.n_streams;
    Scratch& local = thread_scratch_[thread];
    local.Reset();
    float* query = local.Get<float>(dim);
    kernels_->rms_norm(x + task * dim, HostData(args.norm_query) + s * dim, dim, args.eps, query);
    kernels_->rms_norm(key + task * dim, HostData(args.norm_key) + s * dim, dim, args.eps,
                       key + task * dim);
    const float gate = StreamGate(kernels_->dot(key + task * dim, query, dim) / root);
    for (int64_t d = 0; d < dim; ++d) gated[task * dim + d] = gate * value[row * dim + d];
    kernels_->rms_norm(gated + task * dim, HostData(args.norm_conv) + s * dim, dim, args.eps,
                       columns + task * dim);
  });

  const float* conv = HostData(args.conv);
  for (const Segment& segment : args.rows.segments) {
    const int64_t n_kept = int64_t{args.conv_kernel - 1} * args.dilation;
    const ConvHistory history(HostData({segment.running, args.conv_offset}), n_kept, width,
                              columns + segment.row_begin * width);
    pool_.For(segment.n_rows, [&](int64_t i, int thread) {
      const float* taps[ConvHistory::kMaxTaps];
      for (int t = 0; t < args.conv_kernel; ++t) {
        taps[t] = history.Column(i - int64_t{args.dilation} * (args.conv_kernel - 1 - t));
      }
      Scratch& local = thread_scratch_[thread];
      local.Reset();
      float* d = local.Get<float>(width);
      kernels_->conv_silu(taps, conv, width, args.conv_kernel, width, d);
      const int64_t row = segment.row_begin + i;
      const float* v = gated + row * width;
      for (int64_t c = 0; c < width; ++c) {
        x[row * width + c] = (x[row * width + c] + v[c]) + d[c];
      }
      if (args.added.buffer != nullptr) {
        float* added = HostData(args.added) + row * width;
        for (int64_t c = 0; c < width; ++c) added[c] = v[c] + d[c];
      }
    });
    if (segment.log == nullptr) {
      history.Advance(segment.n_rows);
    } else {
      std::memcpy(HostData({segment.log, args.log_offset}), columns + segment.row_begin * width,
                  segment.n_rows * width * sizeof(float));
    }
  }
  return OkStatus();
}

}  // namespace holdfast

#include <algorithm>

#include "ops/cpu/cpu_backend.h"

namespace holdfast {

Status CpuBackend::HcRead(const HcReadArgs& args) {
  scratch_.Reset();
  const int64_t width = args.n_streams * args.dim;
  const int64_t low_rank = args.down->n_rows();
  const float divisor = static_cast<float>(args.n_streams);
  const float* x = HostData(args.x);
  const float* gain = HostData(args.norm);
  float* normed = scratch_.Get<float>(args.n_rows * width);
  float* low = scratch_.Get<float>(args.n_rows * low_rank);
  float* mix = scratch_.Get<float>(args.n_rows * width);

  pool_.For(args.n_rows * args.n_streams, [&](int64_t task, int) {
    kernels_->rms_norm(x + task * args.dim, gain + task % args.n_streams * args.dim, args.dim,
                       args.eps, normed + task * args.dim);
  });

  Product first[2] = {{.weight = &args.down->view(), .y = low, .y_stride = low_rank}, {}};
  size_t n_first = 1;
  if (args.inject != nullptr) {
    first[n_first++] = {.weight = &args.inject->view(),
                        .float_form = true,
                        .y = HostData(args.inject_out),
                        .y_stride = args.n_streams};
  }
  const std::span<const Product> products(first, n_first);
  RunProducts(Prepare(normed, args.n_rows, width, products), products);
  pool_.For(args.n_rows, [&](int64_t row, int) {
    float* l = low + row * low_rank;
    kernels_->silu(l, divisor, low_rank, l);
    if (args.inject == nullptr) return;
    float* inject = HostData(args.inject_out) + row * args.n_streams;
    for (int64_t s = 0; s < args.n_streams; ++s) inject[s] /= divisor;
    kernels_->sigmoid(inject, args.n_streams, inject);
    for (int64_t s = 0; s < args.n_streams; ++s) inject[s] *= 2.0f;
  });

  const Product up[1] = {{.weight = &args.up->view(), .y = mix, .y_stride = width}};
  RunProducts(Prepare(low, args.n_rows, low_rank, up), up);
  float* out = HostData(args.out);
  pool_.For(args.n_rows, [&](int64_t row, int) {
    kernels_->hc_mix(mix + row * width, normed + row * width, args.n_streams, args.dim,
                     out + row * args.dim);
  });
  return OkStatus();
}

Status CpuBackend::HcWrite(const HcWriteArgs& args) {
  float* x = HostData(args.x);
  const float* o = HostData(args.o);
  const float* inject = HostData(args.inject);
  pool_.For(args.n_rows, [&](int64_t row, int) {
    for (int64_t s = 0; s < args.n_streams; ++s) {
      kernels_->axpy(inject[row * args.n_streams + s], o + row * args.dim, args.dim,
                     x + (row * args.n_streams + s) * args.dim);
    }
  });
  return OkStatus();
}

}  // namespace holdfast

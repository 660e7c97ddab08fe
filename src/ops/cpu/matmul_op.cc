#include <algorithm>

#include "ops/cpu/cpu_backend.h"

namespace holdfast {

bool CpuBackend::UsesIntegers(const WeightView& weight, bool float_form) const {
  return !float_form && activations_ != ActivationFormat::kF32 && HasIntegerKernel(weight.type);
}

CpuBackend::PreparedRows CpuBackend::Prepare(const float* x, int64_t n_rows, int64_t n_cols,
                                             std::span<const Product> products) {
  PreparedRows rows{.x = x, .n_rows = n_rows, .n_cols = n_cols};
  for (const Product& product : products) {
    if (!UsesIntegers(*product.weight, product.float_form)) continue;
    const int group = ActivationGroup(product.weight->type);
    QuantizedRows& quantized = group == 32 ? rows.by_32 : rows.by_256;
    if (quantized.codes != nullptr) continue;
    const int n_terms = activations_ == ActivationFormat::kInt16 ? 2 : 1;
    const int64_t n = n_rows * n_terms;
    auto* codes = scratch_.Get<int8_t>(n * n_cols);
    auto* scales = scratch_.Get<float>(n * (n_cols / group));
    auto* sums = scratch_.Get<int16_t>(n * (n_cols / 16));
    quantized = {
        .codes = codes, .scales = scales, .sums16 = sums, .group = group, .n_terms = n_terms};
    pool_.For(n_rows, [&](int64_t row, int thread) {
      const float* values = x + row * n_cols;
      for (int64_t term = row * n_terms;; ++term) {
        int8_t* term_codes = codes + term * n_cols;
        float* term_scales = scales + term * (n_cols / group);
        kernels_->quantize(values, n_cols, group, term_codes, term_scales,
                           sums + term * (n_cols / 16));
        if (term + 1 == (row + 1) * n_terms) return;
        Scratch& local = thread_scratch_[thread];
        local.Reset();
        float* rest = local.Get<float>(n_cols);
        kernels_->residual(values, term_codes, term_scales, n_cols, group, rest);
        values = rest;
      }
    });
  }
  return rows;
}

void CpuBackend::RunSlice(const WeightView& weight, int64_t mat, bool float_form,
                          const PreparedRows& rows, const int32_t* x_index, int64_t x_begin,
                          int64_t n_x, int64_t row_begin, int64_t row_end, float* y,
                          int64_t y_stride) const {
  MatMulSlice slice{.type = weight.type,
                    .repacked = weight.repacked,
                    .weights = weight.Row(row_begin, mat),
                    .row_bytes = weight.row_bytes,
                    .n_cols = weight.n_cols,
                    .row_begin = 0,
                    .row_end = row_end - row_begin,
                    .x_index = x_index,
                    .n_x = n_x,
                    .y = y,
                    .y_stride = y_stride};
  if (UsesIntegers(weight, float_form)) {
    const int group = ActivationGroup(weight.type);
    slice.quantized = group == 32 ? rows.by_32 : rows.by_256;
    const int64_t first_term = x_begin * slice.quantized.n_terms;
    slice.quantized.codes += first_term * weight.n_cols;
    slice.quantized.scales += first_term * (weight.n_cols / group);
    slice.quantized.sums16 += first_term * (weight.n_cols / 16);
  } else {
    slice.x = rows.x + x_begin * weight.n_cols;
  }
  kernels_->matmul(slice);
  if (weight.n_scales > 0) {
    const float scale = weight.ScaleOf(mat);
    for (int64_t j = 0; j < n_x; ++j) {
      for (int64_t r = 0; r < row_end - row_begin; ++r) y[j * y_stride + r] *= scale;
    }
  }
}

int64_t CpuBackend::SliceRows(int64_t n_rows) const {
  constexpr int64_t kMin = 32, kMax = 256, kTasksPerThread = 8;
  const int64_t even = n_rows / (kTasksPerThread * pool_.n_threads());
  return std::clamp(even / kMin * kMin, kMin, kMax);
}

void CpuBackend::RunProducts(const PreparedRows& rows, std::span<const Product> products) {
  struct Range {
    const Product* product;
    int64_t first_task, slice_rows;
  };
  constexpr size_t kMaxProducts = 16;
  HF_CHECK(products.size() <= kMaxProducts);
  Range ranges[kMaxProducts];
  int64_t n_tasks = 0;
  for (size_t i = 0; i < products.size(); ++i) {
    const int64_t n = products[i].weight->n_rows;
    ranges[i] = {&products[i], n_tasks, SliceRows(n)};
    n_tasks += (n + ranges[i].slice_rows - 1) / ranges[i].slice_rows;
  }
  pool_.For(n_tasks, [&](int64_t task, int) {
    size_t i = products.size() - 1;
    while (ranges[i].first_task > task) --i;
    const Product& product = *ranges[i].product;
    const int64_t begin = (task - ranges[i].first_task) * ranges[i].slice_rows;
    const int64_t end = std::min(begin + ranges[i].slice_rows, product.weight->n_rows);
    RunSlice(*product.weight, 0, product.float_form, rows, nullptr, 0, rows.n_rows, begin, end,
             product.y + begin, product.y_stride);
  });
}

Status CpuBackend::MatMul(const MatMulArgs& args) {
  scratch_.Reset();
  std::vector<Product> products;
  for (const MatMulArgs::Output& output : args.outputs) {
    products.push_back({.weight = &output.weight->view(),
                        .float_form = output.float_form,
                        .y = HostData(output.y),
                        .y_stride = output.weight->n_rows()});
  }
  const int64_t n_cols = products[0].weight->n_cols;
  RunProducts(Prepare(HostData(args.x), args.n_rows, n_cols, products), products);
  return OkStatus();
}

}  // namespace holdfast

#include "model/model_parts.h"

namespace holdfast {
namespace {

std::span<const std::byte> MappedBytes(const WeightView& view) {
  return {view.data, static_cast<size_t>(view.n_mats > 0 ? (view.n_mats - 1) * view.mat_bytes +
                                                               view.n_rows * view.row_bytes
                                                         : 0)};
}

}  // namespace

Model::RepackSizes Model::repack_sizes() const {
  RepackSizes sizes;
  for (const Weight* weight : products_) {
    const uint64_t copy = backend_->RepackedBytes(*weight);
    if (copy == 0) continue;
    const WeightView& view = weight->view();
    sizes.copy_bytes += copy;
    sizes.file_bytes += static_cast<uint64_t>(view.n_mats * view.n_rows * view.row_bytes);
  }
  return sizes;
}

Status Model::RepackWeights(const std::function<void(double)>& progress) {
  HF_CHECK(tier_ == nullptr);
  const uint64_t all = repack_sizes().copy_bytes;
  uint64_t done = 0;
  for (Weight* weight : products_) {
    const uint64_t copy = backend_->RepackedBytes(*weight);
    if (copy == 0) continue;
    const WeightView mapped = weight->view();
    HF_RETURN_IF_ERROR(backend_->Repack(weight));
    // The halves of fused experts lie between each other: pages of the other one are read again.
    MappedFile::AdviseUnused(MappedBytes(mapped));
    done += copy;
    repacked_.file_bytes += static_cast<uint64_t>(mapped.n_mats * mapped.n_rows * mapped.row_bytes);
    repacked_.copy_bytes += copy;
    progress(static_cast<double>(done) / static_cast<double>(all));
  }
  return CheckReads();
}

}  // namespace holdfast

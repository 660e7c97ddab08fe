#include "model/sequence.h"

#include <algorithm>

namespace holdfast {

Result<Sequence> Sequence::Create(Model* model) {
  Sequence sequence(model);
  HF_ASSIGN_OR_RETURN(sequence.running_,
                      model->backend()->Allocate(model->layout().running_bytes()));
  return sequence;
}

Status Sequence::Read(std::span<const int32_t> tokens, int64_t chunk, int64_t first_output,
                      const OnLogits& on_logits) {
  const int64_t step = chunk <= 0 ? model_->max_rows() : std::min(chunk, model_->max_rows());
  while (!tokens.empty()) {
    const size_t n = std::min<size_t>(tokens.size(), step);
    HF_RETURN_IF_ERROR(ReadChunk(tokens.first(n), first_output, on_logits));
    tokens = tokens.subspan(n);
  }
  return OkStatus();
}

Status Sequence::ReadChunk(std::span<const int32_t> tokens, int64_t first_output,
                           const OnLogits& on_logits) {
  const StateLayout& layout = model_->layout();
  const int64_t first = static_cast<int64_t>(tokens_.size());
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  while (static_cast<int64_t>(pages_.size()) < layout.PagesFor(tokens_.size())) {
    HF_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> page,
                        model_->backend()->Allocate(layout.page_bytes()));
    page_pointers_.push_back(page.get());
    pages_.push_back(std::move(page));
  }
  Batch batch{.sequences = {{.tokens = tokens_,
                             .first_position = first,
                             .running = running_.get(),
                             .pages = page_pointers_}}};
  const int64_t end = static_cast<int64_t>(tokens_.size());
  for (int64_t p = std::max(first, first_output); p < end; ++p) {
    batch.output_rows.push_back(static_cast<int32_t>(p - first));
  }
  const int64_t vocab = model_->config().vocab_size;
  std::vector<float> logits(batch.output_rows.size() * vocab);
  HF_RETURN_IF_ERROR(model_->Forward(batch, logits));
  for (size_t i = 0; i < batch.output_rows.size(); ++i) {
    on_logits(first + batch.output_rows[i], std::span(logits).subspan(i * vocab, vocab));
  }
  return OkStatus();
}

}  // namespace holdfast

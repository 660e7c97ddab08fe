#include "verify/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/sampler.h"

namespace holdfast {

Result<PlainConversation> PlainConversation::Create(Model* model) {
  PlainConversation c(model);
  HF_ASSIGN_OR_RETURN(c.running_, model->backend()->Allocate(model->layout().running_bytes()));
  if (model->draft_layout() != nullptr) {
    HF_ASSIGN_OR_RETURN(c.draft_running_,
                        model->backend()->Allocate(model->draft_layout()->running_bytes()));
  }
  return c;
}

Result<SequenceRows> PlainConversation::NextRows(std::span<const int32_t> tokens) {
  const int64_t first = static_cast<int64_t>(tokens_.size());
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  const int64_t n_pages = model_->layout().PagesFor(static_cast<int64_t>(tokens_.size()));
  while (static_cast<int64_t>(pages_.size()) < n_pages) {
    HF_ASSIGN_OR_RETURN(auto page, model_->backend()->Allocate(model_->layout().page_bytes()));
    pages_.push_back(page.get());
    owned_.push_back(std::move(page));
    if (model_->draft_layout() == nullptr) continue;
    HF_ASSIGN_OR_RETURN(auto draft,
                        model_->backend()->Allocate(model_->draft_layout()->page_bytes()));
    draft_pages_.push_back(draft.get());
    owned_.push_back(std::move(draft));
  }
  return SequenceRows{.tokens = tokens_,
                      .first_position = first,
                      .running = running_.get(),
                      .pages = pages_,
                      .draft_running = draft_running_.get(),
                      .draft_pages = draft_pages_};
}

Status PlainConversation::Step(std::span<const int32_t> tokens, std::span<float> logits) {
  HF_ASSIGN_OR_RETURN(const SequenceRows rows, NextRows(tokens));
  Batch batch{.sequences = {rows}};
  if (!logits.empty()) batch.output_rows = {static_cast<int32_t>(tokens.size()) - 1};
  return model_->Forward(batch, logits);
}

Status PlainConversation::StepTogether(std::span<PlainConversation* const> conversations,
                                       std::span<const std::span<const int32_t>> rows) {
  Batch batch;
  for (size_t i = 0; i < conversations.size(); ++i) {
    HF_ASSIGN_OR_RETURN(const SequenceRows next, conversations[i]->NextRows(rows[i]));
    batch.sequences.push_back(next);
  }
  return conversations[0]->model_->Forward(batch, {});
}

StateBuffers PlainConversation::state() const {
  return {.tokens = tokens_,
          .running = running_.get(),
          .pages = pages_,
          .draft_running = draft_running_.get(),
          .draft_pages = draft_pages_};
}

Reference::Reference(Model* model, const Tokenizer* tokenizer, StateCheck* check)
    : model_(model), check_(check) {
  for (TokenId id = 0; id < model->config().vocab_size; ++id) {
    if (!tokenizer->IsSampleable(id)) banned_.push_back(id);
  }
}

Status Reference::ReadInto(PlainConversation* c, std::span<const int32_t> tokens,
                           std::span<const int64_t> stops, std::span<float> logits) {
  const int64_t n = static_cast<int64_t>(tokens.size());
  const int64_t stride = std::min(kStride, model_->max_rows());
  int64_t at = 0;
  while (at < n) {
    int64_t end = std::min(n, (at / stride + 1) * stride);
    const auto stop = std::ranges::upper_bound(stops, at);
    if (stop != stops.end()) end = std::min(end, *stop);
    HF_RETURN_IF_ERROR(
        c->Step(tokens.subspan(at, end - at), end == n ? logits : std::span<float>()));
    if (check_ != nullptr) HF_RETURN_IF_ERROR(check_->AddRunning(c->state()));
    at = end;
  }
  return OkStatus();
}

Status Reference::Read(std::span<const int32_t> tokens, std::span<const int64_t> stops) {
  HF_ASSIGN_OR_RETURN(PlainConversation c, PlainConversation::Create(model_));
  HF_RETURN_IF_ERROR(ReadInto(&c, tokens, stops, {}));
  return check_ == nullptr ? OkStatus() : check_->AddCells(c.state(), 0);
}

Result<std::vector<TokenId>> Reference::Reply(const std::vector<TokenId>& prompt,
                                              const SamplingParams& params, int64_t n) {
  HF_CHECK(params.seed.has_value() && !prompt.empty());
  HF_ASSIGN_OR_RETURN(PlainConversation c, PlainConversation::Create(model_));
  Sampler sampler(params, *params.seed);
  std::vector<float> logits(model_->config().vocab_size);
  std::vector<TokenId> reply;
  std::vector<TokenId> all = prompt;
  HF_RETURN_IF_ERROR(ReadInto(&c, prompt, {}, logits));
  while (true) {
    for (const TokenId id : banned_) logits[id] = -std::numeric_limits<float>::infinity();
    HF_ASSIGN_OR_RETURN(const TokenId token,
                        sampler.Sample(logits, all, static_cast<int64_t>(all.size()) - 1));
    reply.push_back(token);
    all.push_back(token);
    if (static_cast<int64_t>(reply.size()) >= n) break;
    HF_RETURN_IF_ERROR(c.Step(std::span(&token, 1), logits));
    if (check_ != nullptr) HF_RETURN_IF_ERROR(check_->AddRunning(c.state()));
  }
  if (check_ != nullptr) HF_RETURN_IF_ERROR(check_->AddCells(c.state(), 0));
  return reply;
}

}  // namespace holdfast

#ifndef HOLDFAST_VERIFY_REFERENCE_H_
#define HOLDFAST_VERIFY_REFERENCE_H_

// What must come out: conversations read and answered alone, by the model's plain steps, without
// scheduler, cache, store or drafts.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/sampling_params.h"
#include "model/model.h"
#include "token/tokenizer.h"
#include "verify/state_check.h"

namespace holdfast {

// One conversation with pages and running states of its own.
class PlainConversation {
 public:
  static Result<PlainConversation> Create(Model* model);

  const std::vector<int32_t>& tokens() const { return tokens_; }
  // Runs `tokens` as one step. `logits`: empty, or of the last row.
  Status Step(std::span<const int32_t> tokens, std::span<float> logits);
  // One step of several conversations: rows[i] are the next ones of conversations[i].
  static Status StepTogether(std::span<PlainConversation* const> conversations,
                             std::span<const std::span<const int32_t>> rows);
  StateBuffers state() const;

 private:
  explicit PlainConversation(Model* model) : model_(model) {}
  Result<SequenceRows> NextRows(std::span<const int32_t> tokens);

  Model* model_;
  std::vector<int32_t> tokens_;
  std::unique_ptr<Buffer> running_, draft_running_;
  std::vector<std::unique_ptr<Buffer>> owned_;
  std::vector<Buffer*> pages_, draft_pages_;
};

class Reference {
 public:
  // All outlive it. `check` may be null: only replies are wanted.
  Reference(Model* model, const Tokenizer* tokenizer, StateCheck* check);

  // The `n` tokens that follow `prompt`. params.seed must be set. The states behind the prompt,
  // each token and every kStride tokens of the prompt are written down.
  Result<std::vector<TokenId>> Reply(const std::vector<TokenId>& prompt,
                                     const SamplingParams& params, int64_t n);
  // Reads tokens in steps that end at `stops` (ascending) and at most kStride apart.
  Status Read(std::span<const int32_t> tokens, std::span<const int64_t> stops);

  static constexpr int64_t kStride = 64;

 private:
  Status ReadInto(PlainConversation* c, std::span<const int32_t> tokens,
                  std::span<const int64_t> stops, std::span<float> logits);

  Model* const model_;
  StateCheck* const check_;
  std::vector<TokenId> banned_;
};

}  // namespace holdfast

#endif  // HOLDFAST_VERIFY_REFERENCE_H_

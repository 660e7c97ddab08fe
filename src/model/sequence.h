#ifndef HOLDFAST_MODEL_SEQUENCE_H_
#define HOLDFAST_MODEL_SEQUENCE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/model.h"

namespace holdfast {

// One conversation that is simply read from start to end, with pages and running state of its own:
// for tools and tests that need no cache (logits, perplexity).
class Sequence {
 public:
  static Result<Sequence> Create(Model* model);

  const std::vector<int32_t>& tokens() const { return tokens_; }
  Buffer* running() const { return running_.get(); }
  std::span<Buffer* const> pages() const { return page_pointers_; }

  // Reads `tokens` in steps of at most `chunk` rows (0: the model's maximum). `on_logits` gets
  // every position >= first_output with its logits, in order.
  using OnLogits = std::function<void(int64_t position, std::span<const float> logits)>;
  Status Read(std::span<const int32_t> tokens, int64_t chunk, int64_t first_output,
              const OnLogits& on_logits);

 private:
  explicit Sequence(Model* model) : model_(model) {}
  Status ReadChunk(std::span<const int32_t> tokens, int64_t first_output,
                   const OnLogits& on_logits);

  Model* model_;
  std::vector<int32_t> tokens_;
  std::unique_ptr<Buffer> running_;
  std::vector<std::unique_ptr<Buffer>> pages_;
  std::vector<Buffer*> page_pointers_;
};

}  // namespace holdfast

#endif  // HOLDFAST_MODEL_SEQUENCE_H_

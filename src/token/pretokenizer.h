#ifndef HOLDFAST_TOKEN_PRETOKENIZER_H_
#define HOLDFAST_TOKEN_PRETOKENIZER_H_

#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace holdfast {

// Cuts a text into the pieces inside which BPE merges, by the expression published with the
// tokenizer. The pieces joined are the text.
//
// Threads: Split may be called from many threads at once.
class Pretokenizer {
 public:
  // `name` is tokenizer.ggml.pre. kUnimplemented for names other than "qwen35" and "qwen2".
  static Result<Pretokenizer> Create(std::string_view name);
  Pretokenizer(Pretokenizer&&) noexcept;
  Pretokenizer& operator=(Pretokenizer&&) noexcept;
  ~Pretokenizer();

  // `text` is valid UTF-8; the pieces are views into it, none empty. Time O(bytes).
  std::vector<std::string_view> Split(std::string_view text) const;

 private:
  struct Code;
  explicit Pretokenizer(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

}  // namespace holdfast

#endif  // HOLDFAST_TOKEN_PRETOKENIZER_H_

#ifndef HOLDFAST_TOKEN_DETOKENIZER_H_
#define HOLDFAST_TOKEN_DETOKENIZER_H_

#include <string>
#include <string_view>

#include "token/vocabulary.h"

namespace holdfast {

class Tokenizer;

// Text of a growing id sequence. What Push and Flush return is valid UTF-8 each time (no half
// characters), and its concatenation equals Tokenizer::Decode of all ids.
class Detokenizer {
 public:
  // `tokenizer` must outlive this object.
  explicit Detokenizer(const Tokenizer* tokenizer, bool include_control = false)
      : tokenizer_(tokenizer), include_control_(include_control) {}

  // The text that `id` completes; empty when it ends inside a character or shows nothing.
  std::string Push(TokenId id);
  // Ends the sequence: U+FFFD if it stopped inside a character.
  std::string Flush();

 private:
  const Tokenizer* tokenizer_;
  bool include_control_;
  std::string pending_;  // the bytes of an incomplete character
};

}  // namespace holdfast

#endif  // HOLDFAST_TOKEN_DETOKENIZER_H_

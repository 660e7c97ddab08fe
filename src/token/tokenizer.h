#ifndef HOLDFAST_TOKEN_TOKENIZER_H_
#define HOLDFAST_TOKEN_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "token/marked_text.h"
#include "token/vocabulary.h"

namespace holdfast {

// Which added tokens a text may spell.
enum class AddedTokens {
  kAll,
  kUserDefinedOnly,  // control tokens are text, as with llama.cpp's parse_special = false
  kNone,
};

// Ids of a text, and where each of them begins in it.
struct TokenizedText {
  std::vector<TokenId> ids;
  // Byte offset in the input of each id's first byte, ascending. Exact at added tokens and wherever
  // the text was already valid UTF-8 in NFC; elsewhere within the fragment between added tokens.
  std::vector<int64_t> begins;
};

// Byte-level BPE of the Qwen family (NFC, pre-tokenizer expression, merges), and its inverse.
//
// Threads: all const methods may be called at once.
// Errors:  only Create() can fail; every text has an encoding, every id sequence a text.
class Tokenizer {
 public:
  struct Options {
    bool normalise = true;  // NFC, as transformers does; llama.cpp does not
  };

  static Result<std::unique_ptr<Tokenizer>> Create(VocabularyData data);
  static Result<std::unique_ptr<Tokenizer>> Create(VocabularyData data, const Options& options);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // No BOS is added (see leading_bos). Invalid UTF-8 is read as U+FFFD, one for each maximal
  // invalid sequence.
  std::vector<TokenId> Encode(std::string_view text, AddedTokens added) const;
  std::vector<TokenId> Encode(const MarkedText& text) const;
  TokenizedText EncodeWithOffsets(const MarkedText& text) const;

  // Valid UTF-8: incomplete or invalid bytes become U+FFFD. Ids outside the vocabulary and unused
  // tokens give nothing; control tokens give their text only if asked.
  std::string Decode(std::span<const TokenId> ids, bool include_control) const;
  // The bytes one token stands for; they may be part of a character.
  std::string_view TokenBytes(TokenId id, bool include_control) const;

  // <|im_end|> and <|endoftext|> by text, tokenizer.ggml.eos_token_id and eot_token_id.
  bool IsEndOfGeneration(TokenId id) const;
  const std::vector<TokenId>& end_of_generation() const;  // ascending
  // False for unused tokens and ids outside the vocabulary.
  bool IsSampleable(TokenId id) const;
  // The token whose text (as in the vocabulary) is `text`.
  std::optional<TokenId> FindToken(std::string_view text) const;

  int64_t vocab_size() const;
  TokenType type(TokenId id) const;  // kUnused outside the vocabulary
  const std::string& chat_template() const;
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  // The BOS that every prompt must begin with, if this vocabulary wants one (released files: none).
  std::optional<TokenId> leading_bos() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast

#endif  // HOLDFAST_TOKEN_TOKENIZER_H_

#ifndef HOLDFAST_GRAMMAR_TOKEN_MASK_H_
#define HOLDFAST_GRAMMAR_TOKEN_MASK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "token/vocabulary.h"

namespace holdfast {

// A set of tokens: bit i of word i / 64.
class TokenMask {
 public:
  TokenMask() = default;
  explicit TokenMask(int64_t vocab_size) : words_((static_cast<size_t>(vocab_size) + 63) / 64) {}

  void Add(TokenId id) { words_[Word(id)] |= Bit(id); }
  void Remove(TokenId id) { words_[Word(id)] &= ~Bit(id); }
  // False also for ids beyond the vocabulary.
  bool Has(TokenId id) const {
    return id >= 0 && Word(id) < words_.size() && (words_[Word(id)] & Bit(id)) != 0;
  }
  void Add(const TokenMask& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  const std::vector<uint64_t>& words() const { return words_; }
  bool operator==(const TokenMask&) const = default;

 private:
  static size_t Word(TokenId id) { return static_cast<size_t>(id) / 64; }
  static uint64_t Bit(TokenId id) { return uint64_t{1} << (static_cast<size_t>(id) % 64); }

  std::vector<uint64_t> words_;
};

}  // namespace holdfast

#endif  // HOLDFAST_GRAMMAR_TOKEN_MASK_H_

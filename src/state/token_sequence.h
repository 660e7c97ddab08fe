#ifndef HOLDFAST_STATE_TOKEN_SEQUENCE_H_
#define HOLDFAST_STATE_TOKEN_SEQUENCE_H_

// Token runs as the state layer compares them. A token's identity is (id, 64-bit content hash); the
// hash is 0 for text, so only the tokens of images and the like carry one (kept sparsely).

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

namespace holdfast {

using TokenId = int32_t;  // the same alias as in token/vocabulary.h

struct TokenKey {
  TokenId id = 0;
  uint64_t content_hash = 0;
  friend auto operator<=>(const TokenKey&, const TokenKey&) = default;
};

// The content hash of one token that is not text.
struct ContentHash {
  int64_t position = 0;
  uint64_t hash = 0;  // not 0
  friend bool operator==(const ContentHash&, const ContentHash&) = default;
};

// A borrowed run of tokens from position 0. `hashes` are ascending by position.
struct TokenView {
  std::span<const TokenId> ids;
  std::span<const ContentHash> hashes;

  TokenView() = default;
  TokenView(std::span<const TokenId> i, std::span<const ContentHash> h = {}) : ids(i), hashes(h) {}
  TokenView(const std::vector<TokenId>& i) : ids(i) {}  // NOLINT: implicit on purpose

  int64_t size() const { return static_cast<int64_t>(ids.size()); }
  TokenKey key(int64_t position) const;
  TokenView Prefix(int64_t n) const;
};

// The first position in [from, min(a.size(), b.size())) at which the two differ, or that minimum.
int64_t FirstDifference(TokenView a, TokenView b, int64_t from = 0);

// An owned run of tokens. Only Append and Truncate change it.
class TokenSequence {
 public:
  TokenSequence() = default;
  explicit TokenSequence(TokenView view);
  TokenView view() const { return {ids_, hashes_}; }
  int64_t size() const { return static_cast<int64_t>(ids_.size()); }
  void Append(TokenKey key);
  // view[from, view.size()) is appended; `from` must be size().
  void AppendFrom(TokenView view, int64_t from);
  void Truncate(int64_t n);

 private:
  std::vector<TokenId> ids_;
  std::vector<ContentHash> hashes_;
};

}  // namespace holdfast

#endif  // HOLDFAST_STATE_TOKEN_SEQUENCE_H_

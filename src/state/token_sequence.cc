#include "state/token_sequence.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace holdfast {
namespace {

auto FirstHashAt(std::span<const ContentHash> hashes, int64_t position) {
  return std::ranges::lower_bound(hashes, position, {}, &ContentHash::position);
}

// The first position in [from, end) whose content hashes differ, or `end`.
int64_t FirstHashDifference(TokenView a, TokenView b, int64_t from, int64_t end) {
  auto i = FirstHashAt(a.hashes, from);
  auto j = FirstHashAt(b.hashes, from);
  while (true) {
    const int64_t at_a = i == a.hashes.end() ? end : i->position;
    const int64_t at_b = j == b.hashes.end() ? end : j->position;
    const int64_t at = std::min(at_a, at_b);
    if (at >= end) return end;
    if (at_a != at_b || i->hash != j->hash) return at;
    ++i, ++j;
  }
}

}  // namespace

TokenKey TokenView::key(int64_t position) const {
  const auto it = FirstHashAt(hashes, position);
  const bool has = it != hashes.end() && it->position == position;
  return {ids[position], has ? it->hash : 0};
}

TokenView TokenView::Prefix(int64_t n) const {
  return {ids.first(n), hashes.first(FirstHashAt(hashes, n) - hashes.begin())};
}

int64_t FirstDifference(TokenView a, TokenView b, int64_t from) {
  const int64_t end = std::min(a.size(), b.size());
  if (from >= end) return end;
  const auto [i, j] =
      std::mismatch(a.ids.begin() + from, a.ids.begin() + end, b.ids.begin() + from);
  return FirstHashDifference(a, b, from, i - a.ids.begin());
}

TokenSequence::TokenSequence(TokenView view)
    : ids_(view.ids.begin(), view.ids.end()), hashes_(view.hashes.begin(), view.hashes.end()) {}

void TokenSequence::Append(TokenKey key) {
  if (key.content_hash != 0) hashes_.push_back({size(), key.content_hash});
  ids_.push_back(key.id);
}

void TokenSequence::AppendFrom(TokenView view, int64_t from) {
  HF_CHECK(from == size());
  ids_.insert(ids_.end(), view.ids.begin() + from, view.ids.end());
  hashes_.insert(hashes_.end(), FirstHashAt(view.hashes, from), view.hashes.end());
}

void TokenSequence::Truncate(int64_t n) {
  HF_CHECK(n >= 0 && n <= size());
  hashes_.resize(FirstHashAt(hashes_, n) - std::span<const ContentHash>(hashes_).begin());
  ids_.resize(n);
}

}  // namespace holdfast

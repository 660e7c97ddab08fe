#include "engine/top_tokens.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"

namespace holdfast {
namespace {

constexpr int64_t kFirst = 64;  // sorted at the first look
constexpr int64_t kGrowth = 8;  // each further look sorts at least so many times more
constexpr size_t kBlock = 64;   // logits compared with the threshold at once
constexpr float kMinusInf = -std::numeric_limits<float>::infinity();

uint64_t KeyOf(float logit, size_t id) {
  // Adding +0 turns -0 into +0: they are equal logits, so the id must decide.
  const uint32_t bits = std::bit_cast<uint32_t>(logit + 0.0f);
  const uint32_t ascending = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return (static_cast<uint64_t>(~ascending) << 32) | id;
}

TokenId IdOf(uint64_t key) { return static_cast<TokenId>(key & 0xffffffffu); }

float MaxOf(std::span<const float> values) {
  float lanes[16];
  std::fill(std::begin(lanes), std::end(lanes), kMinusInf);
  size_t i = 0;
  for (; values.size() - i >= 16; i += 16) {
    const float* row = values.data() + i;
    for (size_t j = 0; j < 16; ++j) lanes[j] = lanes[j] < row[j] ? row[j] : lanes[j];
  }
  for (; i < values.size(); ++i) lanes[0] = std::max(lanes[0], values[i]);
  return *std::max_element(std::begin(lanes), std::end(lanes));
}

}  // namespace

void TopTokens::Reset(std::span<const float> logits) {
  logits_ = logits;
  keys_.clear();
  n_sorted_ = 0;
  complete_ = false;
}

TokenId TopTokens::operator[](int64_t i) {
  if (i >= n_sorted_) Extend(i + 1);
  HF_CHECK(i >= 0 && i < n_sorted_);
  return IdOf(keys_[static_cast<size_t>(i)]);
}

int64_t TopTokens::Extend(int64_t n) {
  if (n <= n_sorted_ || (complete_ && n_sorted_ == static_cast<int64_t>(keys_.size()))) {
    return n_sorted_;
  }
  const int64_t n_row = static_cast<int64_t>(logits_.size());
  n = std::min(n_row, std::max({n, kFirst, n_sorted_ * kGrowth}));
  if (!complete_) Select(n);
  n = std::min(n, static_cast<int64_t>(keys_.size()));
  const auto begin = keys_.begin() + n_sorted_, middle = keys_.begin() + n;
  if (middle != keys_.end()) std::nth_element(begin, middle, keys_.end());
  std::sort(begin, middle);
  n_sorted_ = n;
  return n_sorted_;
}

// Fills keys_ with the first `n` tokens in any order, or with all of them when that is not much
// more. Sorting starts again, which costs little: n grows by a factor.
void TopTokens::Select(int64_t n) {
  keys_.clear();
  n_sorted_ = 0;
  const size_t wanted = static_cast<size_t>(n);
  const bool everything = wanted >= logits_.size() / 4;
  const size_t limit = everything ? logits_.size() + 1 : 2 * wanted + kBlock;
  // A logit that is not above the threshold comes after `wanted` others: those with the same logit
  // have lower ids.
  float threshold = kMinusInf;
  bool dropped = false;
  for (size_t begin = 0; begin < logits_.size(); begin += kBlock) {
    const auto block = logits_.subspan(begin, std::min(kBlock, logits_.size() - begin));
    if (!(MaxOf(block) > threshold)) continue;
    for (size_t i = 0; i < block.size(); ++i) {
      if (block[i] > threshold) keys_.push_back(KeyOf(block[i], begin + i));
    }
    if (keys_.size() < limit) continue;
    std::nth_element(keys_.begin(), keys_.begin() + n - 1, keys_.end());
    keys_.resize(wanted);
    threshold = logits_[static_cast<size_t>(IdOf(keys_.back()))];
    dropped = true;
  }
  complete_ = !dropped;
}

}  // namespace holdfast

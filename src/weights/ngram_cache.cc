#include "weights/ngram_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/check.h"

namespace holdfast {
namespace {

constexpr uint8_t kMostUses = 3;

}  // namespace

Result<NgramCache> NgramCache::Create(int64_t n_slots, int64_t row_bytes) {
  HF_CHECK(n_slots >= 1 && row_bytes >= 1);
  NgramCache cache;
  cache.row_bytes_ = row_bytes;
  cache.n_ways_ = static_cast<int>(std::min<int64_t>(n_slots, kWays));
  cache.n_sets_ = n_slots / cache.n_ways_;
  const size_t n = static_cast<size_t>(cache.n_slots());
  cache.bytes_.reset(new (std::nothrow) std::byte[n * static_cast<size_t>(row_bytes)]);
  cache.numbers_.reset(new (std::nothrow) uint32_t[n]());
  cache.uses_.reset(new (std::nothrow) uint8_t[n]());
  cache.hands_.reset(new (std::nothrow) uint8_t[static_cast<size_t>(cache.n_sets_)]());
  if (!cache.bytes_ || !cache.numbers_ || !cache.uses_ || !cache.hands_) {
    return ResourceExhaustedError(
        fmt::format("no memory for {} bytes of n-gram rows", n * SlotBytes(row_bytes)));
  }
  return cache;
}

// Rows of one token are far apart, but small tables are used densely: neighbours are spread, too.
int64_t NgramCache::SetOf(int64_t row) const {
  const uint64_t mixed = static_cast<uint64_t>(row) * 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio
  return static_cast<int64_t>(((mixed >> 32) * static_cast<uint64_t>(n_sets_)) >> 32);
}

const std::byte* NgramCache::Find(int64_t row) {
  const int64_t first = SetOf(row) * n_ways_;
  const uint32_t number = static_cast<uint32_t>(row) + 1;
  for (int64_t place = first; place < first + n_ways_; ++place) {
    if (numbers_[place] != number) continue;
    uses_[place] = std::min<uint8_t>(uses_[place] + 1, kMostUses);
    return bytes_.get() + place * row_bytes_;
  }
  return nullptr;
}

void NgramCache::Put(int64_t row, const std::byte* bytes) {
  HF_DCHECK(row >= 0 && row < kMaxRows);
  const int64_t set = SetOf(row);
  uint8_t& hand = hands_[set];
  for (;;) {
    const int64_t place = set * n_ways_ + hand;
    hand = static_cast<uint8_t>((hand + 1) % n_ways_);
    if (uses_[place] > 0) {
      --uses_[place];
      continue;
    }
    if (numbers_[place] == 0) ++n_rows_;
    numbers_[place] = static_cast<uint32_t>(row) + 1;
    std::memcpy(bytes_.get() + place * row_bytes_, bytes, static_cast<size_t>(row_bytes_));
    return;
  }
}

}  // namespace holdfast

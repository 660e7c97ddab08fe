#include "weights/ngram_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace holdfast {
namespace {

constexpr int64_t kRowBytes = 90;  // as in the released model

// A row whose every byte depends on its number.
std::vector<std::byte> RowOf(int64_t row) {
  std::vector<std::byte> bytes(kRowBytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(row * 31 + static_cast<int64_t>(i) * 7 + (row >> 8));
  }
  return bytes;
}

class NgramCacheTest : public testing::Test {
 protected:
  void Make(int64_t n_slots) { cache_.emplace(NgramCache::Create(n_slots, kRowBytes).value()); }
  void Put(int64_t row) { cache_->Put(row, RowOf(row).data()); }
  // Whether it is here; if so, with its bytes.
  bool Has(int64_t row) {
    const std::byte* const bytes = cache_->Find(row);
    if (bytes == nullptr) return false;
    EXPECT_EQ(std::memcmp(bytes, RowOf(row).data(), kRowBytes), 0) << row;
    return true;
  }
  std::optional<NgramCache> cache_;
};

TEST_F(NgramCacheTest, FindsWhatWasPutAndNothingElse) {
  Make(1000);
  const int64_t last = NgramCache::kMaxRows - 1;
  for (const int64_t row : {int64_t{0}, int64_t{1}, int64_t{320001535}, last}) {
    EXPECT_FALSE(Has(row));
    Put(row);
    EXPECT_TRUE(Has(row));
  }
  EXPECT_FALSE(Has(2));
  EXPECT_EQ(cache_->n_rows(), 4);
}

TEST_F(NgramCacheTest, HoldsAsManyRowsAsItHasPlacesAndNoMore) {
  for (const int64_t n_slots : {1, 2, 15, 16, 17, 100}) {
    Make(n_slots);
    EXPECT_LE(cache_->n_slots(), n_slots);
    EXPECT_GT(cache_->n_slots(), n_slots - NgramCache::kWays);
    for (int64_t row = 0; row < 5000; ++row) Put(row);
    int64_t n_here = 0;
    for (int64_t row = 0; row < 5000; ++row) n_here += Has(row) ? 1 : 0;
    EXPECT_EQ(n_here, cache_->n_slots());
    EXPECT_EQ(cache_->n_rows(), cache_->n_slots());
  }
}

// One set: the order is the cache's own, not the hash's.
TEST_F(NgramCacheTest, TheOldestThatWasUsedOnceGoesFirst) {
  Make(4);
  for (const int64_t row : {10, 20, 30, 40}) Put(row);
  EXPECT_TRUE(Has(10));
  Put(50);  // 10 was used again: 20 goes
  EXPECT_FALSE(Has(20));
  Put(60);
  EXPECT_FALSE(Has(30));
  Put(70);
  EXPECT_FALSE(Has(40));
  // Spared once, 10 is as any other.
  Put(80);
  EXPECT_EQ(cache_->Find(10), nullptr);
  for (const int64_t row : {50, 60, 70, 80}) EXPECT_TRUE(Has(row));
}

TEST_F(NgramCacheTest, RowsInUseOutliveManyThatAreUsedOnce) {
  Make(1600);
  std::mt19937_64 rng(5);
  for (int64_t row = 0; row < 400; ++row) Put(row);
  int64_t n_here = 0, n_looks = 0;
  // Between two uses of a row that is used again, one place in three is taken by a row used once.
  for (int64_t once = 1000; once < 100000; ++once) {
    Put(once);
    const auto row = static_cast<int64_t>(rng() % 400);
    ++n_looks;
    if (Has(row)) {
      ++n_here;
    } else {
      Put(row);
    }
  }
  EXPECT_GT(static_cast<double>(n_here) / static_cast<double>(n_looks), 0.97);
}

// Hashing to sets must not leave many places unused.
TEST_F(NgramCacheTest, DenseRowsFillNearlyAllPlaces) {
  Make(16000);
  for (int64_t row = 0; row < 16000; ++row) Put(row);
  EXPECT_GT(cache_->n_rows(), 14000);
}

}  // namespace
}  // namespace holdfast

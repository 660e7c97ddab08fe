#include "state/eviction.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

EvictionCandidate Candidate(uint64_t owner, int64_t n_tokens, double seconds, size_t bytes) {
  return {.owner = owner, .n_tokens = n_tokens, .seconds_saved = seconds, .exclusive_bytes = bytes};
}

std::vector<uint64_t> Order(std::vector<EvictionCandidate> candidates, EvictionNeed need = {}) {
  std::vector<uint64_t> owners;
  for (const auto& c : EvictionOrder(std::move(candidates), need)) owners.push_back(c.owner);
  return owners;
}

TEST(EvictionTest, LikelihoodGrowsWithReturnsAndHalvesInHalfAnHour) {
  EXPECT_DOUBLE_EQ(LikelihoodOfReturn(0, 0), 0.25);
  EXPECT_DOUBLE_EQ(LikelihoodOfReturn(1, 0), 0.625);
  EXPECT_DOUBLE_EQ(LikelihoodOfReturn(0, 1800), 0.125);
  EXPECT_DOUBLE_EQ(LikelihoodOfReturn(0, -5), 0.25);
  EXPECT_LT(LikelihoodOfReturn(100, 86'400), LikelihoodOfReturn(0, 0));
}

TEST(EvictionTest, LeastSecondsSavedPerByteGoesFirst) {
  EXPECT_EQ(Order({Candidate(1, 10, 5, 100), Candidate(2, 10, 1, 100), Candidate(3, 10, 5, 50)}),
            (std::vector<uint64_t>{2, 1, 3}));
}

TEST(EvictionTest, SharedStateIsWorthKeepingForItFreesLittle) {
  // Both would cost as much to read again; the leaf frees its own pages, the other almost none.
  EXPECT_EQ(Order({Candidate(1, 10, 5, 1), Candidate(2, 10, 5, 1000)}),
            (std::vector<uint64_t>{2, 1}));
}

TEST(EvictionTest, PinnedGoLast) {
  auto pinned = Candidate(1, 10, 0, 1000);
  pinned.pinned = true;
  EXPECT_EQ(Order({pinned, Candidate(2, 10, 100, 1)}), (std::vector<uint64_t>{2, 1}));
}

TEST(EvictionTest, OneShotEvictsLongerConversationsLastAndShortOneNever) {
  const std::vector<EvictionCandidate> candidates = {
      Candidate(1, 5000, 1, 1'000'000), Candidate(2, 100, 50, 10), Candidate(3, 99, 90, 10)};
  EXPECT_EQ(Order(candidates), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(Order(candidates, {.one_shot = true, .n_tokens = 100}),
            (std::vector<uint64_t>{2, 3, 1}));
  EXPECT_EQ(Order(candidates, {.one_shot = true, .n_tokens = 100, .spare_longer = true}),
            (std::vector<uint64_t>{2, 3}));
}

TEST(EvictionTest, EqualsGoByAgeThenByOwner) {
  auto old = Candidate(7, 10, 0, 100);
  old.age_s = 10;
  EXPECT_EQ(Order({Candidate(3, 10, 0, 100), Candidate(2, 10, 0, 100), old}),
            (std::vector<uint64_t>{7, 2, 3}));
}

}  // namespace
}  // namespace holdfast

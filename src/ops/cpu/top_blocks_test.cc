#include "ops/cpu/top_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace holdfast {
namespace {

std::vector<int32_t> Reference(const std::vector<float>& scores, int64_t k) {
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return scores[a] > scores[b]; });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

TEST(TopBlocksTest, MatchesAStableSortWithManyTies) {
  std::mt19937 rng(11);
  for (int round = 0; round < 500; ++round) {
    const int64_t n = 1 + rng() % 300;
    std::vector<float> scores(n);
    for (float& s : scores) s = rng() % 3 == 0 ? 0.0f : static_cast<float>(rng() % 20) / 7;
    const int64_t k = rng() % (n + 1);
    std::vector<uint32_t> scratch(n);
    std::vector<int32_t> out(k);
    TopBlocks(scores.data(), n, k, scratch.data(), out.data());
    EXPECT_EQ(out, Reference(scores, k)) << "n " << n << " k " << k;
  }
}

TEST(TopBlocksTest, NegativeZeroIsZero) {
  const std::vector<float> scores = {0.0f, -0.0f, 0.0f, -0.0f};
  std::vector<uint32_t> scratch(4);
  std::vector<int32_t> out(2);
  TopBlocks(scores.data(), 4, 2, scratch.data(), out.data());
  EXPECT_EQ(out, (std::vector<int32_t>{0, 1}));
}

}  // namespace
}  // namespace holdfast

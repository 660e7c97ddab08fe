#include "engine/draft_policy.h"

#include <gtest/gtest.h>

#include <map>

namespace holdfast {
namespace {

// Depths chosen over a long time when guesses are right with probability `acceptance` and a further
// row costs `row_ms` beside a first of 10 ms.
std::map<int, int> Play(double acceptance, double row_ms, double draft_ms) {
  DraftPolicy policy(DraftPolicy::kMaxDepth, /*adaptive=*/true);
  std::map<int, int> depths;
  double luck = 0;
  for (int step = 0; step < 4000; ++step) {
    const int depth = policy.Depth();
    if (step >= 1000) ++depths[depth];
    policy.AddDrafts(depth, depth * draft_ms);
    policy.AddStep(depth + 1, 10 + depth * row_ms);
    int accepted = 0;
    while (accepted < depth) {
      luck += acceptance;  // evenly spread instead of random
      if (luck < 1) break;
      luck -= 1;
      ++accepted;
    }
    policy.AddAcceptance(depth, accepted);
  }
  return depths;
}

int MostUsed(const std::map<int, int>& depths) {
  int best = 0, n = 0;
  for (const auto& [depth, count] : depths) {
    if (count > n) best = depth, n = count;
  }
  return best;
}

TEST(DraftPolicyTest, GuessesFarWhenItIsCheapAndRight) {
  EXPECT_GE(MostUsed(Play(0.97, 0.5, 0.3)), 5);
}

TEST(DraftPolicyTest, StopsGuessingWhenItDoesNotPay) {
  const auto depths = Play(0.1, 6, 2);
  EXPECT_EQ(MostUsed(depths), 0);
  // Probes must not cost more than 3 %: each is one deeper window among 128 steps.
  EXPECT_LE(3000 - depths.at(0), 60);
}

TEST(DraftPolicyTest, AFixedDepthIsKept) {
  DraftPolicy policy(3, /*adaptive=*/false);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(policy.Depth(), 3);
}

TEST(DraftPolicyTest, CountsByDepthStopAtTheFirstMiss) {
  DraftPolicy policy(4, false);
  policy.AddAcceptance(4, 2);
  EXPECT_EQ(policy.counts()[1].n_accepted, 1);
  EXPECT_EQ(policy.counts()[2].n_drafted, 1);
  EXPECT_EQ(policy.counts()[2].n_accepted, 0);
  EXPECT_EQ(policy.counts()[3].n_drafted, 0);
}

}  // namespace
}  // namespace holdfast

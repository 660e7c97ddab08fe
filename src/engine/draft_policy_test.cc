#include "engine/draft_policy.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace holdfast {
namespace {

// A model and its machine: how often a guess is right, and what things cost.
struct World {
  double acceptance = 0.9;
  std::vector<double> step_ms;  // by rows, from 1
  double draft_ms = 0.5;
};

World Line(double acceptance, double row_ms, double draft_ms) {
  World world{.acceptance = acceptance, .step_ms = {}, .draft_ms = draft_ms};
  for (int i = 0; i <= DraftPolicy::kMaxDepth; ++i) world.step_ms.push_back(10 + i * row_ms);
  return world;
}

struct Outcome {
  std::map<int, int> depths;
  double tokens = 0, ms = 0;
  double Speed() const { return tokens / ms; }
  int MostUsed() const {
    int best = 0, n = 0;
    for (const auto& [depth, count] : depths) {
      if (count > n) best = depth, n = count;
    }
    return best;
  }
};

Outcome Play(DraftPolicy* policy, const World& world, int n_steps, int seed = 1) {
  std::mt19937 rng(seed);
  std::bernoulli_distribution right(world.acceptance);
  std::uniform_real_distribution<double> noise(0.9, 1.1);
  Outcome outcome;
  for (int step = 0; step < n_steps; ++step) {
    const int depth = policy->Depth();
    int accepted = 0;
    while (accepted < depth && right(rng)) ++accepted;
    const double step_ms = world.step_ms[depth] * noise(rng);
    policy->AddDrafts(depth, depth * world.draft_ms);
    policy->AddStep(depth + 1, step_ms);
    policy->AddWindow(depth, depth, accepted);
    ++outcome.depths[depth];
    outcome.tokens += accepted + 1;
    outcome.ms += step_ms + depth * world.draft_ms;
  }
  return outcome;
}

Outcome PlayAuto(const World& world, int n_steps) {
  DraftPolicy policy(DraftPolicy::kMaxDepth, /*adaptive=*/true);
  return Play(&policy, world, n_steps);
}

Outcome PlayFixed(const World& world, int depth) {
  DraftPolicy policy(depth, /*adaptive=*/false);
  return Play(&policy, world, 4000);
}

// The demo model's costs (one thread of a Xeon, 2026): a second row is nearly another step, since
// products of few rows share little; further rows are cheap.
const std::vector<double> kDemoStepMs = {10, 18, 22, 24, 28, 29, 31, 33};

TEST(DraftPolicyTest, GuessesFarWhenItIsCheapAndRight) {
  EXPECT_GE(PlayAuto(Line(0.97, 0.5, 0.3), 4000).MostUsed(), 5);
}

TEST(DraftPolicyTest, StopsGuessingWhenItDoesNotPay) {
  const World world = Line(0.1, 6, 2);
  const Outcome outcome = PlayAuto(world, 4000);
  EXPECT_EQ(outcome.MostUsed(), 0);
  EXPECT_GE(outcome.Speed(), 0.97 / world.step_ms[0]);
}

TEST(DraftPolicyTest, IsNotStuckWhereOneGuessGainsNothing) {
  const World world{.acceptance = 0.95, .step_ms = kDemoStepMs, .draft_ms = 1};
  EXPECT_LT(PlayFixed(world, 1).Speed(), 1.05 / world.step_ms[0]);
  EXPECT_GE(PlayAuto(world, 4000).MostUsed(), 3);
}

TEST(DraftPolicyTest, IsAsFastAsTheBestDepthNearlyFromTheStart) {
  for (const double acceptance : {0.3, 0.6, 0.8, 0.9, 0.97}) {
    for (const World& world :
         {World{.acceptance = acceptance, .step_ms = kDemoStepMs, .draft_ms = 1},
          Line(acceptance, 1, 0.5), Line(acceptance, 4, 1)}) {
      double best = 0;
      for (int depth = 0; depth <= DraftPolicy::kMaxDepth; ++depth) {
        best = std::max(best, PlayFixed(world, depth).Speed());
      }
      SCOPED_TRACE(testing::Message() << acceptance << " " << world.step_ms[1]);
      EXPECT_GE(PlayAuto(world, 4000).Speed(), 0.93 * best);
      EXPECT_GE(PlayAuto(world, 100).Speed(), 0.8 * best);
    }
  }
}

TEST(DraftPolicyTest, FollowsAChangeOfText) {
  DraftPolicy policy(DraftPolicy::kMaxDepth, true);
  World world{.acceptance = 0.97, .step_ms = kDemoStepMs, .draft_ms = 1};
  EXPECT_GE(Play(&policy, world, 500).MostUsed(), 3);
  world.acceptance = 0.1;
  Play(&policy, world, 100);
  EXPECT_EQ(Play(&policy, world, 500).MostUsed(), 0);
  world.acceptance = 0.97;
  Play(&policy, world, 300);
  EXPECT_GE(Play(&policy, world, 500).MostUsed(), 3);
}

TEST(DraftPolicyTest, AFurtherRowMustBeAsProbableAsItIsDear) {
  DraftPolicy cheap(DraftPolicy::kMaxDepth, true), dear(DraftPolicy::kMaxDepth, true);
  EXPECT_EQ(cheap.MinProbability(0.55), 0.55);  // nothing is known yet
  Play(&cheap, Line(0.97, 0.5, 0.3), 200);
  Play(&dear, Line(0.97, 7, 0.3), 200);
  EXPECT_LT(cheap.MinProbability(0.55), dear.MinProbability(0.55));
  EXPECT_LE(dear.MinProbability(0.55), 0.9);
  DraftPolicy fixed(3, false);
  Play(&fixed, Line(0.97, 7, 0.3), 200);
  EXPECT_EQ(fixed.MinProbability(0.55), 0.55);
}

TEST(DraftPolicyTest, AFixedDepthIsKept) {
  DraftPolicy policy(3, /*adaptive=*/false);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(policy.Depth(), 3);
}

TEST(DraftPolicyTest, CountsByDepthStopAtTheFirstMiss) {
  DraftPolicy policy(4, false);
  policy.AddWindow(4, 4, 2);
  EXPECT_EQ(policy.counts().depths[1].n_accepted, 1);
  EXPECT_EQ(policy.counts().depths[2].n_drafted, 1);
  EXPECT_EQ(policy.counts().depths[2].n_accepted, 0);
  EXPECT_EQ(policy.counts().depths[3].n_drafted, 0);
}

TEST(DraftPolicyTest, CountsOfPartsAddUp) {
  DraftCounts sum, part;
  sum.AddWindow(3, 3);
  part.AddWindow(3, 1);
  sum.Add(part);
  EXPECT_EQ(sum.depths[0].n_accepted, 2);
  EXPECT_EQ(sum.depths[1].n_drafted, 2);
  EXPECT_EQ(sum.depths[1].n_accepted, 1);
  EXPECT_EQ(sum.depths[2].n_drafted, 1);
}

TEST(DraftPolicyTest, GuessesThatWereNotTriedAreNotCounted) {
  DraftPolicy policy(4, false);
  policy.AddWindow(4, 2, 2);
  EXPECT_EQ(policy.counts().depths[1].n_accepted, 1);
  EXPECT_EQ(policy.counts().depths[2].n_drafted, 0);
}

}  // namespace
}  // namespace holdfast

#include "state/checkpoint_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "state/testing/released_config.h"

namespace holdfast {
namespace {

using testing::ReleasedConfig;

TEST(CheckpointPolicyTest, RungsAreLinearThenGeometric) {
  const CheckpointPolicy half{.ratio = 2, .min_gap = 2048};
  EXPECT_EQ(half.Rungs(0, 40'000), (std::vector<int64_t>{2048, 4096, 8192, 16384, 32768}));
  EXPECT_EQ(half.NextRung(0), 2048);
  EXPECT_EQ(half.NextRung(2048), 4096);
  EXPECT_EQ(half.NextRung(2047), 2048);
  EXPECT_EQ(half.CountRungs(4095), 1);
  EXPECT_EQ(half.CountRungs(4096), 2);
  const CheckpointPolicy quarter{.ratio = 4, .min_gap = 2048};
  EXPECT_EQ(quarter.Rungs(0, 11'000), (std::vector<int64_t>{2048, 4096, 6144, 8192, 10922}));
}

class BoundTest : public ::testing::TestWithParam<int> {};

TEST_P(BoundTest, EveryLengthIsWithinTheBoundOfTheRungBelow) {
  const CheckpointPolicy policy{.ratio = GetParam(), .min_gap = 64};
  int64_t rung = 0, next = policy.NextRung(0);
  for (int64_t shared = 1; shared < 300'000; ++shared) {
    // A prompt that ends at a rung cannot use it: its last token is always read.
    if (shared > next) rung = next, next = policy.NextRung(rung);
    ASSERT_LE(shared - rung, policy.Bound(shared)) << shared;
  }
}

TEST_P(BoundTest, ThinningKeepsTheBoundAndTheBudgetOfARandomConversation) {
  for (int seed = 0; seed < 12; ++seed) {
    std::mt19937 random(seed);
    CheckpointPolicy policy{.ratio = GetParam(), .min_gap = 64, .page_tokens = 8};
    policy.running_bytes = 1000;
    // The least K/V per token with which this ratio's ladder fits.
    for (policy.kv_bytes_per_token = 0.5;; policy.kv_bytes_per_token *= 1.1) {
      bool fits = true;
      for (int64_t rung : policy.Rungs(0, 20'000)) {
        fits = fits && policy.CountRungs(rung) + 2 <= policy.MaxCheckpoints(rung + 1);
      }
      if (fits) break;
    }
    std::vector<CheckpointMark> kept;
    bool system_taken = false;
    for (int64_t n = 0; n < 20'000;) {
      // Reads and replies of random length with marks anywhere in them.
      const int64_t to = n + 1 + static_cast<int64_t>(random() % 700);
      std::vector<CheckpointMark> marks;
      if (n == 0) marks.push_back({std::min<int64_t>(to, 50), CheckpointKind::kSystem});
      for (int i = 0; i < 3; ++i) {
        marks.push_back({n + 1 + static_cast<int64_t>(random() % (to - n)),
                         static_cast<CheckpointKind>(random() % 3)});
      }
      marks.push_back({to, CheckpointKind::kTurnEnd});
      for (const CheckpointMark& mark : PlanCheckpoints(policy, n, to, marks)) {
        kept.push_back(mark);
        const auto dropped = ThinCheckpoints(policy, mark.position, kept);
        for (size_t i = dropped.size(); i-- > 0;) {
          kept.erase(kept.begin() + static_cast<int64_t>(dropped[i]));
        }
        const int64_t below = std::ranges::count_if(
            kept, [&](const CheckpointMark& k) { return k.position < mark.position; });
        ASSERT_LE(below, policy.MaxCheckpoints(mark.position)) << "seed " << seed;
        system_taken = system_taken || mark.kind == CheckpointKind::kSystem;
        ASSERT_EQ(std::ranges::count(kept, CheckpointKind::kSystem, &CheckpointMark::kind),
                  system_taken ? 1 : 0)
            << "dropped before others";
      }
      n = to;
      for (int64_t shared = 1, i = 0, last = 0; shared <= n; ++shared) {
        while (i < std::ssize(kept) && kept[i].position < shared) last = kept[i++].position;
        ASSERT_LE(shared - last, policy.Bound(shared)) << "seed " << seed << " of " << n;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ratios, BoundTest, ::testing::Values(2, 4, 8));

TEST(CheckpointPolicyTest, PlansMarksAndRungsOncePerPosition) {
  const CheckpointPolicy policy{.ratio = 2, .min_gap = 100};
  const std::vector<CheckpointMark> marks = {{390, CheckpointKind::kBeforeReply},
                                             {50, CheckpointKind::kSystem},
                                             {200, CheckpointKind::kMark},
                                             {100, CheckpointKind::kSystem},
                                             {401, CheckpointKind::kMark}};
  const auto plan = PlanCheckpoints(policy, 50, 400, marks);
  ASSERT_EQ(plan.size(), 4u);
  EXPECT_EQ(plan[0].position, 100);
  EXPECT_EQ(plan[0].kind, CheckpointKind::kSystem);
  EXPECT_EQ(plan[1].position, 200);
  EXPECT_EQ(plan[1].kind, CheckpointKind::kLadder);
  EXPECT_EQ(plan[2].position, 390);
  EXPECT_EQ(plan[2].kind, CheckpointKind::kBeforeReply);
  EXPECT_EQ(plan[3].position, 400);
}

TEST(CheckpointPolicyTest, DropsOldRepliesThenOldMarksThenTurnEnds) {
  CheckpointPolicy policy{.ratio = 2, .min_gap = 1000, .page_tokens = 1};
  policy.running_bytes = 1000;
  policy.kv_bytes_per_token = 0;  // four
  std::vector<CheckpointMark> kept = {{10, CheckpointKind::kSystem},
                                      {20, CheckpointKind::kMark},
                                      {30, CheckpointKind::kBeforeReply},
                                      {40, CheckpointKind::kTurnEnd},
                                      {50, CheckpointKind::kBeforeReply}};
  EXPECT_EQ(ThinCheckpoints(policy, 60, kept), (std::vector<size_t>{2}));
  kept.push_back({55, CheckpointKind::kTurnEnd});
  EXPECT_EQ(ThinCheckpoints(policy, 60, kept), (std::vector<size_t>{2, 3}));
  kept.push_back({56, CheckpointKind::kMark});
  kept.push_back({57, CheckpointKind::kMark});
  // All marks but the latest and the older turn end; the latest reply and the system's stay.
  EXPECT_EQ(ThinCheckpoints(policy, 60, kept), (std::vector<size_t>{1, 2, 3, 6}));
  // A first mark behind a long document is worth more than ends of turns.
  kept = {{10, CheckpointKind::kSystem},   {600, CheckpointKind::kMark},
          {610, CheckpointKind::kTurnEnd}, {620, CheckpointKind::kTurnEnd},
          {640, CheckpointKind::kMark},    {650, CheckpointKind::kBeforeReply}};
  EXPECT_EQ(ThinCheckpoints(policy, 660, kept), (std::vector<size_t>{2, 3}));
}

TEST(CheckpointPolicyTest, WithoutASystemBlockTheFirstReplyStandsForIt) {
  CheckpointPolicy policy{.ratio = 2, .min_gap = 1000, .page_tokens = 1};
  policy.running_bytes = 1000;
  policy.kv_bytes_per_token = 0;  // four
  std::vector<CheckpointMark> kept = {{10, CheckpointKind::kBeforeReply},
                                      {20, CheckpointKind::kTurnEnd},
                                      {30, CheckpointKind::kBeforeReply},
                                      {40, CheckpointKind::kTurnEnd},
                                      {50, CheckpointKind::kBeforeReply}};
  EXPECT_EQ(ThinCheckpoints(policy, 60, kept), (std::vector<size_t>{2}));
  for (int64_t at : {51, 52, 53, 54}) kept.push_back({at, CheckpointKind::kLadder});
  // Rungs that nothing needs first, then nothing more: the first reply, both turn ends, the latest.
  EXPECT_EQ(ThinCheckpoints(policy, 60, kept), (std::vector<size_t>{2, 5, 6, 7, 8}));
}

// A talk in short turns behind a long system block, as it is computed: what is left of it when it
// has `end` tokens, the last of which end a turn.
std::vector<CheckpointMark> ShortTurns(const CheckpointPolicy& policy, int64_t system, int64_t turn,
                                       int64_t end) {
  std::vector<CheckpointMark> kept;
  for (int64_t n = 0; n < end;) {
    const int64_t to = n == 0 ? system + turn : n + turn;
    const std::vector<CheckpointMark> marks = {{system, CheckpointKind::kSystem},
                                               {to - turn / 2, CheckpointKind::kBeforeReply},
                                               {to, CheckpointKind::kTurnEnd}};
    for (const CheckpointMark& mark : PlanCheckpoints(policy, n, to, marks)) {
      kept.push_back(mark);
      const auto dropped = ThinCheckpoints(policy, mark.position, kept);
      for (size_t i = dropped.size(); i-- > 0;) {
        kept.erase(kept.begin() + static_cast<int64_t>(dropped[i]));
      }
    }
    n = to;
  }
  return kept;
}

int64_t CountTurnEndsFrom(std::span<const CheckpointMark> kept, int64_t position) {
  return std::ranges::count_if(kept, [&](const CheckpointMark& k) {
    return k.kind == CheckpointKind::kTurnEnd && k.position >= position;
  });
}

// Seven states are paid for; the first rung, which lies among the turns, is none of them.
TEST(CheckpointPolicyTest, FiveTurnsBackIsTheEndOfATurnThatIsKept) {
  CheckpointPolicy policy{.ratio = 8, .min_gap = 2048};
  policy.running_bytes = 1'000'000;
  policy.kv_bytes_per_token = 1550;  // 3.17 states at 2,048 tokens
  for (int64_t end = 2100; end < 3300; end += 55) {
    const auto kept = ShortTurns(policy, 1500, 55, end);
    const int64_t n = kept.back().position;
    ASSERT_GE(policy.MaxCheckpoints(n), 7);
    EXPECT_EQ(CountTurnEndsFrom(kept, n - 5 * 55), 6) << "of " << n;
    EXPECT_EQ(kept.front().kind, CheckpointKind::kSystem);
  }
}

// Four states: the system's, the one before the reply, and two ends of turns beside the live one.
TEST(CheckpointPolicyTest, ReleasedModelKeepsTwoTurnEndsInAShortTalk) {
  const auto layout = StateLayout::Create(ReleasedConfig(), KvFormat::kInt8);
  const CheckpointPolicy policy = ChooseCheckpointPolicy(*layout, 262'144).policy;
  const auto kept = ShortTurns(policy, 1500, 55, 3000);
  EXPECT_EQ(policy.MaxCheckpoints(kept.back().position), 4);
  EXPECT_EQ(CountTurnEndsFrom(kept, kept.back().position - 2 * 55), 3);
}

TEST(CheckpointPolicyTest, WhatIsSpareIsSoAtEveryLengthToCome) {
  CheckpointPolicy policy{.ratio = 2, .min_gap = 100, .page_tokens = 1};
  policy.running_bytes = 1000;
  policy.kv_bytes_per_token = 5;
  // 4 + n / 200 states against rungs at 100, 200, 400, ... and two more: at 101 4 - 3, at 201 5 -
  // 4, at 401 6 - 5, at 801 8 - 6, and more and more from there.
  EXPECT_EQ(policy.Spare(50), 1);
  EXPECT_EQ(policy.Spare(401), 1);
  EXPECT_EQ(policy.Spare(402), 1);
  EXPECT_EQ(policy.Spare(600), 2);
}

// 118 MB of running state against 14.2 KB (int8), 26.1 KB (f16) and 50.7 KB (f32) per token: by
// hand, ratio 8 needs 10 states at 16,385 tokens, where int8 pays for 6, f16 for 7 and f32 for 11;
// ratio 4 needs 6 at 8,193 tokens: 5, 5 and 7.
TEST(CheckpointPolicyTest, ReleasedModelGetsTheRatioThatItsCellsPayFor) {
  const auto choose = [](KvFormat format) {
    const auto layout = StateLayout::Create(ReleasedConfig(), format);
    return ChooseCheckpointPolicy(*layout, 262'144);
  };
  const RatioChoice int8 = choose(KvFormat::kInt8);
  EXPECT_EQ(int8.policy.ratio, 2);
  EXPECT_TRUE(int8.fits);
  EXPECT_EQ(int8.policy.MaxCheckpoints(16'385), 6);
  EXPECT_EQ(choose(KvFormat::kF16).policy.ratio, 2);
  EXPECT_EQ(choose(KvFormat::kF32).policy.ratio, 8);
  EXPECT_TRUE(choose(KvFormat::kF32).fits);
}

TEST(CheckpointPolicyTest, SaysWhenEvenTheCoarsestLadderDoesNotFit) {
  const auto layout = StateLayout::Create(ReleasedConfig(), KvFormat::kInt8);
  const RatioChoice choice = ChooseCheckpointPolicy(*layout, 262'144, /*min_gap=*/256);
  EXPECT_EQ(choice.policy.ratio, 2);
  EXPECT_FALSE(choice.fits);
}

TEST(CheckpointPolicyTest, GivesUpTheLeastUsefulThatTakesMemory) {
  CheckpointPolicy policy{.ratio = 2, .min_gap = 20, .page_tokens = 1};
  // Without the rung at 20 tokens 1 to 23 would be read again for an edit at 24. With that turn's
  // end nobody needs the rung at 40.
  std::vector<CheckpointMark> kept = {{20, CheckpointKind::kLadder},
                                      {24, CheckpointKind::kTurnEnd},
                                      {40, CheckpointKind::kLadder},
                                      {44, CheckpointKind::kTurnEnd}};
  EXPECT_EQ(CheckpointToGiveUp(policy, 44, kept), 2u);
  kept.erase(kept.begin() + 2);
  // The bound goes before a request fails.
  EXPECT_EQ(CheckpointToGiveUp(policy, 44, kept), 0u);
  EXPECT_EQ(CheckpointToGiveUp(policy, 44, std::span(kept).last(1)), std::nullopt);
}

}  // namespace
}  // namespace holdfast

#include "bench/bench_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr StateRoom kMuch{.page_bytes = 1 << 20, .running_bytes = 1 << 20, .room_bytes = ~0ull / 2};

TEST(ParseCountsTest, NumbersAndUnits) {
  EXPECT_THAT(*ParseCounts("--depth", "0,512,8K,1m"), ElementsAre(0, 512, 8192, 1 << 20));
  EXPECT_THAT(*ParseCounts("--depth", "16M"), ElementsAre(1 << 24));
  for (const char* text : {"", "1,", ",1", "-1", "1.5", "8KB", "K", "1 2", "17M", "99999999999999",
                           "9223372036854775807K"}) {
    const auto counts = ParseCounts("--depth", text);
    ASSERT_FALSE(counts.ok()) << text;
    EXPECT_THAT(counts.status().message(), HasSubstr("--depth")) << text;
  }
}

TEST(BenchRequestTest, RangesAreChecked) {
  EXPECT_TRUE(BenchRequest().Validate().ok());
  EXPECT_THAT((BenchRequest{.slots = {{0}}}).Validate().message(), HasSubstr("--slots is 0"));
  EXPECT_THAT((BenchRequest{.slots = {{65}}}).Validate().message(), HasSubstr("1 to 64"));
  EXPECT_THAT((BenchRequest{.n_decode = -1}).Validate().message(), HasSubstr("--decode is -1"));
  EXPECT_THAT((BenchRequest{.n_runs = -1}).Validate().message(), HasSubstr("--repeat is -1"));
  EXPECT_THAT((BenchRequest{.depths = {{}}}).Validate().message(), HasSubstr("--depth"));
}

TEST(BenchPlanTest, ByItselfItStaysWithinTheTrainedContext) {
  const BenchPlan plan = *MakeBenchPlan({}, 4096, kMuch);
  ASSERT_EQ(plan.depths.size(), 2u);
  EXPECT_EQ(plan.depths[0].depth, 0);
  EXPECT_THAT(plan.depths[0].prefill, ElementsAre(128, 512, 2048));
  EXPECT_THAT(plan.depths[0].slots, ElementsAre(1, 2, 4, 8));
  EXPECT_EQ(plan.depths[1].depth, 2048);
  EXPECT_THAT(plan.depths[1].prefill, ElementsAre(512));
  EXPECT_THAT(plan.depths[1].slots, ElementsAre(1));
  EXPECT_GE(plan.ctx, 2048 + 512);
  ASSERT_EQ(plan.notes.size(), 2u);
  EXPECT_THAT(plan.notes[0], HasSubstr("depth 8192, 32768, 131072 left out"));
  EXPECT_THAT(plan.notes[1], HasSubstr("prefill 8192 left out"));
}

TEST(BenchPlanTest, WhatIsNamedIsMeasuredBeyondItWithAWarning) {
  const BenchPlan plan = *MakeBenchPlan({.depths = {{32768}}}, 4096, kMuch);
  ASSERT_EQ(plan.depths.size(), 1u);
  EXPECT_EQ(plan.depths[0].depth, 32768);
  EXPECT_THAT(plan.depths[0].prefill, ElementsAre(128, 512, 2048));  // all at the first depth
  EXPECT_THAT(plan.notes.back(), HasSubstr("beyond the 4096"));
}

TEST(BenchPlanTest, NamedSlotsAreMeasuredAtEveryDepth) {
  const BenchPlan plan = *MakeBenchPlan(
      {.prefill = {{64, 32}}, .depths = {{300, 0, 300}}, .slots = {{4, 1}}}, 4096, kMuch);
  ASSERT_EQ(plan.depths.size(), 2u);
  EXPECT_THAT(plan.depths[0].prefill, ElementsAre(32, 64));
  EXPECT_THAT(plan.depths[1].prefill, ElementsAre(32));  // 512 is not among them
  EXPECT_THAT(plan.depths[1].slots, ElementsAre(1, 4));
  EXPECT_EQ(plan.depths[1].max_slots(), 4);
  EXPECT_THAT(plan.notes, IsEmpty());
}

TEST(BenchPlanTest, ZeroMeansNone) {
  const BenchPlan plan = *MakeBenchPlan({.prefill = {{0}}, .depths = {{0}}}, 4096, kMuch);
  EXPECT_THAT(plan.depths[0].prefill, IsEmpty());
  EXPECT_THAT(plan.depths[0].slots, ElementsAre(1, 2, 4, 8));
  const BenchPlan no_decode = *MakeBenchPlan({.depths = {{0}}, .n_decode = 0}, 4096, kMuch);
  EXPECT_THAT(no_decode.depths[0].slots, IsEmpty());
  EXPECT_FALSE(MakeBenchPlan({.prefill = {{0}},
                              .depths = {{0}},
                              .n_decode = 0,
                              .draft = DraftRuns::kOff,
                              .state = false},
                             4096, kMuch)
                   .ok());
}

TEST(BenchPlanTest, WhatDoesNotFitIntoMemoryIsLeftOutAndSaid) {
  // 100 MiB: a conversation of 1,024 tokens takes 2 * 5 + 8 = 18 MiB, eight of them 144 MiB.
  const StateRoom room{.page_bytes = 1 << 20, .running_bytes = 1 << 20, .room_bytes = 100u << 20};
  EXPECT_EQ(room.Need(1024, 1), 18u << 20);
  const BenchPlan plan =
      *MakeBenchPlan({.prefill = {{128}}, .depths = {{896, 65536}}}, 1 << 20, room);
  ASSERT_EQ(plan.depths.size(), 1u);
  EXPECT_THAT(plan.depths[0].slots, ElementsAre(1, 2, 4));
  ASSERT_EQ(plan.notes.size(), 3u);
  EXPECT_THAT(plan.notes[0], HasSubstr("slots 8 at depth 896 left out: 144 MiB"));
  EXPECT_THAT(plan.notes[1], HasSubstr("prefill 128 at depth 65536 left out"));
}

}  // namespace
}  // namespace holdfast

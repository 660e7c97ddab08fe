#include "engine/expert_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast {
namespace {

using ::testing::HasSubstr;
using Kind = ExpertMemory::Kind;

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kSlot = uint64_t{2} << 20;

// 5 GiB of dense weights, 24 GiB of table, 40 GiB of experts in 20,480 slots of 2 MiB.
WeightSizes Sizes() {
  return {.file_bytes = 69 * kGiB,
          .ngram = {.table_bytes = 24 * kGiB,
                    .n_rows = 24 * kGiB / 90,
                    .slot_bytes = 96,
                    .buffer_bytes = 6 << 20},
          .experts = {.n_experts = 20480, .file_bytes = 40 * kGiB, .slot_bytes = kSlot}};
}

TEST(PlanWeightsTest, WhatFitsIsMappedWhole) {
  const auto plan = PlanWeights({}, {}, Sizes(), 71 * kGiB, 2 * kGiB, 10 * kGiB);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->mapped_bytes, 69 * kGiB);
  EXPECT_EQ(plan->arena_bytes, 0u);
  EXPECT_EQ(plan->ngram_bytes, 0u);
  EXPECT_EQ(plan->table_bytes, 0u);
}

TEST(PlanWeightsTest, TheTableGoesOutOfMemoryBeforeExpertsDo) {
  const auto plan = PlanWeights({}, {}, Sizes(), 71 * kGiB - 1, 2 * kGiB, 10 * kGiB);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->mapped_bytes, 45 * kGiB);
  EXPECT_EQ(plan->arena_bytes, 0u);
  EXPECT_EQ(plan->ngram_bytes, kGiB);
  EXPECT_EQ(plan->table_bytes, 0u);
}

// As before there was a tier for it: the table stays mapped and does not count.
TEST(PlanWeightsTest, ATableThatWasAskedForIsMappedBesideExpertsThatAreRead) {
  const auto plan = PlanWeights({}, {.kind = NgramMemory::Kind::kAll}, Sizes(), 71 * kGiB - 1,
                                2 * kGiB, 10 * kGiB);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->mapped_bytes, 5 * kGiB);
  EXPECT_EQ(plan->arena_bytes, 40 * kGiB);
  EXPECT_EQ(plan->ngram_bytes, 0u);
  EXPECT_EQ(plan->table_bytes, 24 * kGiB);
}

TEST(PlanWeightsTest, WhatDoesNotFitLeavesConversationsTheirShare) {
  const auto plan = PlanWeights({}, {}, Sizes(), 32 * kGiB, 2 * kGiB, 5 * kGiB);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->mapped_bytes, 5 * kGiB);
  EXPECT_EQ(plan->ngram_bytes, kGiB / 2);
  EXPECT_EQ(plan->arena_bytes, 21 * kGiB + kGiB / 2);
  EXPECT_EQ(plan->n_slots, 21 * 512 + 256);
  EXPECT_EQ(plan->table_bytes, 0u);
}

TEST(PlanWeightsTest, TheArenaIsNeverLargerThanAllExperts) {
  // Conversations want more than is left beside all experts, but give some of it away.
  const auto plan = PlanWeights({}, {}, Sizes(), 52 * kGiB, 20 * kGiB, 5 * kGiB);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->n_slots, 20480);
  EXPECT_EQ(plan->arena_bytes, 40 * kGiB);
}

TEST(PlanWeightsTest, ASizeIsTakenByItsWordInWholeSlots) {
  const auto plan =
      PlanWeights({.kind = Kind::kSize, .bytes = 3 * kSlot + 5}, {}, Sizes(), 500 * kGiB, 0, 0);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->n_slots, 3);
  EXPECT_EQ(plan->arena_bytes, 3 * kSlot);
  EXPECT_EQ(plan->mapped_bytes, 29 * kGiB);  // the table fits, and counts
  const auto small =
      PlanWeights({.kind = Kind::kSize, .bytes = kSlot - 1}, {}, Sizes(), 500 * kGiB, 0, 0);
  EXPECT_EQ(small.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(small.status().message(), HasSubstr("--expert-memory"));
}

TEST(PlanWeightsTest, AllMeansMappedWhateverFits) {
  const auto plan = PlanWeights({.kind = Kind::kAll}, {.kind = NgramMemory::Kind::kAll}, Sizes(),
                                kGiB, kGiB, kGiB);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->mapped_bytes, 69 * kGiB);
  EXPECT_EQ(plan->arena_bytes, 0u);
}

TEST(PlanWeightsTest, TooLittleForAnythingStillPlansAFewSlotsForTheRefusalToName) {
  const auto plan = PlanWeights({}, {}, Sizes(), kGiB, kGiB, kGiB);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->n_slots, 32);
}

}  // namespace
}  // namespace holdfast

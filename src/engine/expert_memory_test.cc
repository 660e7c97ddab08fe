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
          .table_bytes = 24 * kGiB,
          .experts = {.n_experts = 20480, .file_bytes = 40 * kGiB, .slot_bytes = kSlot}};
}

TEST(PlanWeightsTest, WhatFitsIsMappedWhole) {
  const auto plan = PlanWeights({}, Sizes(), 71 * kGiB, 2 * kGiB, 10 * kGiB);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->mapped_bytes, 69 * kGiB);
  EXPECT_EQ(plan->arena_bytes, 0u);
  EXPECT_EQ(plan->table_bytes, 0u);
}

TEST(PlanWeightsTest, WhatDoesNotFitLeavesConversationsTheirShare) {
  const auto plan = PlanWeights({}, Sizes(), 30 * kGiB, 2 * kGiB, 5 * kGiB);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->mapped_bytes, 5 * kGiB);
  EXPECT_EQ(plan->arena_bytes, 20 * kGiB);
  EXPECT_EQ(plan->n_slots, 10240);
  EXPECT_EQ(plan->table_bytes, 24 * kGiB);
}

TEST(PlanWeightsTest, TheArenaIsNeverLargerThanAllExperts) {
  // One GiB short of the whole file: the table is what does not fit.
  const auto plan = PlanWeights({}, Sizes(), 68 * kGiB, 2 * kGiB, 5 * kGiB);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->n_slots, 20480);
  EXPECT_EQ(plan->arena_bytes, 40 * kGiB);
}

TEST(PlanWeightsTest, ASizeIsTakenByItsWordInWholeSlots) {
  const auto plan =
      PlanWeights({.kind = Kind::kSize, .bytes = 3 * kSlot + 5}, Sizes(), 500 * kGiB, 0, 0);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->n_slots, 3);
  EXPECT_EQ(plan->arena_bytes, 3 * kSlot);
  const auto small =
      PlanWeights({.kind = Kind::kSize, .bytes = kSlot - 1}, Sizes(), 500 * kGiB, 0, 0);
  EXPECT_EQ(small.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(small.status().message(), HasSubstr("--expert-memory"));
}

TEST(PlanWeightsTest, AllMeansMappedWhateverFits) {
  const auto plan = PlanWeights({.kind = Kind::kAll}, Sizes(), kGiB, kGiB, kGiB);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->mapped_bytes, 69 * kGiB);
  EXPECT_EQ(plan->arena_bytes, 0u);
}

TEST(PlanWeightsTest, TooLittleForAnythingStillPlansAFewSlotsForTheRefusalToName) {
  const auto plan = PlanWeights({}, Sizes(), kGiB, kGiB, kGiB);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->n_slots, 32);
}

}  // namespace
}  // namespace holdfast

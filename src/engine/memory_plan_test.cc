#include "engine/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kGiB = uint64_t{1} << 30;

// A layout with pages of 3.5 MiB and running states of about 113 MB, as the released model has.
StateLayout ReleasedLayout() {
  ModelConfig c;
  c.n_layers = 48;
  c.hidden_size = 2560;
  for (int l = 0; l < 48; ++l) {
    const bool qsa = (l + 1) % 4 == 0;
    c.layer_kinds.push_back(qsa ? LayerKind::kQsa : LayerKind::kGdn);
    c.block_ratio.push_back(qsa ? 4 : 0);
  }
  c.n_heads = 24, c.n_kv_heads = 2, c.head_dim = 256, c.index_dim = 128;
  c.gdn_conv_kernel = 4, c.gdn_n_key_heads = 16, c.gdn_n_value_heads = 48, c.gdn_head_dim = 128;
  c.hc_streams = 4;
  return *StateLayout::Create(c, KvFormat::kInt8);
}

class MemoryPlanTest : public ::testing::Test {
 protected:
  MemoryPlanInput Input(uint64_t available) const {
    return {.host = {.total_bytes = available, .available_bytes = available, .limited_by = "host"},
            .min_free_bytes = kGiB,
            .weights = {.file_bytes = 2 * kGiB},
            .scratch_bytes = kGiB / 8,
            .trunk = &layout_,
            .trained_ctx = 262144,
            .n_slots = 4};
  }
  const StateLayout layout_ = ReleasedLayout();
};

TEST_F(MemoryPlanTest, EverythingFitsAndTheCacheTakesHalfOfTheRest) {
  const auto plan = MakeMemoryPlan(Input(64 * kGiB));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->ctx, 262144);
  EXPECT_EQ(plan->n_slots, 4);
  EXPECT_TRUE(plan->notes.empty());
  const uint64_t left = 64 * kGiB - 3 * kGiB - kGiB / 8 - plan->work_bytes;
  EXPECT_EQ(plan->cache_bytes, left / 2);
}

TEST_F(MemoryPlanTest, WeightsAreRepackedWhereItTakesNothingFromConversations) {
  MemoryPlanInput input = Input(64 * kGiB);
  input.weights.repack = {.file_bytes = kGiB, .copy_bytes = 2 * kGiB};
  const auto plan = MakeMemoryPlan(input);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->weights.repacked_bytes, 2 * kGiB);
  EXPECT_EQ(plan->weights.mapped_bytes, kGiB);
  EXPECT_EQ(plan->n_slots, 4);
  const uint64_t left = 64 * kGiB - 4 * kGiB - kGiB / 8 - plan->work_bytes;
  EXPECT_EQ(plan->cache_bytes, left / 2);
  EXPECT_THAT(plan->table, HasSubstr("weights (repacked)        2.00 GiB  (1.00 GiB in the file"));

  // All that is left was asked for as a cache.
  input.cache_ram_bytes = 64 * kGiB - 3 * kGiB - kGiB / 8 - plan->work_bytes;
  input.repack = RepackMode::kOn;
  const auto full = MakeMemoryPlan(input);
  ASSERT_TRUE(full.ok());
  EXPECT_EQ(full->weights.repacked_bytes, 0u);
  EXPECT_EQ(full->cache_bytes, *input.cache_ram_bytes);
  ASSERT_EQ(full->notes.size(), 1u);
  EXPECT_THAT(full->notes[0], HasSubstr("--repack: weights stay as they are"));
}

TEST_F(MemoryPlanTest, SlotsAreReducedBeforeTheStartFails) {
  const auto plan = MakeMemoryPlan(Input(12 * kGiB));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->n_slots, 2);
  ASSERT_EQ(plan->notes.size(), 1u);
  EXPECT_THAT(plan->notes[0], HasSubstr("slots reduced from 4 to 2"));
  EXPECT_LE(plan->work_bytes + plan->cache_bytes, 12 * kGiB - 3 * kGiB);
}

TEST_F(MemoryPlanTest, ThirtyTwoGiBPromisedInAFourGiBContainerAreClampedWithTheArithmetic) {
  MemoryPlanInput input = Input(4 * kGiB);
  input.host.limited_by = "/sys/fs/cgroup/memory.max";
  input.weights.file_bytes = kGiB / 4;
  input.ctx = 8192;
  input.n_slots = 1;
  input.cache_ram_bytes = 32 * kGiB;
  const auto plan = MakeMemoryPlan(input);
  ASSERT_TRUE(plan.ok());
  EXPECT_LT(plan->work_bytes + plan->cache_bytes, 3 * kGiB);
  ASSERT_EQ(plan->notes.size(), 1u);
  EXPECT_THAT(plan->notes[0], HasSubstr("--cache-ram reduced from 32.00 GiB"));
  EXPECT_THAT(plan->notes[0], HasSubstr("4.00 GiB available (/sys/fs/cgroup/memory.max)"));
}

TEST_F(MemoryPlanTest, AContextThatWasAskedForAndDoesNotFitIsRefusedWithWhatFits) {
  MemoryPlanInput input = Input(6 * kGiB);
  input.ctx = 1 << 20;
  const auto plan = MakeMemoryPlan(input);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(plan.status().message(), HasSubstr("a context of 1048576 tokens takes"));
  EXPECT_THAT(plan.status().message(), HasSubstr("tokens fit (--ctx)"));
  // Not asked for: reduced, and said.
  const auto reduced = MakeMemoryPlan(Input(6 * kGiB));
  ASSERT_TRUE(reduced.ok());
  EXPECT_LT(reduced->ctx, 262144);
  EXPECT_THAT(reduced->notes[0], HasSubstr("context reduced from 262144"));
}

TEST_F(MemoryPlanTest, UnknownMemoryMeansRefuseUntilALimitIsNamed) {
  MemoryPlanInput input = Input(0);
  input.host = {.limited_by = "/proc/meminfo cannot be read"};
  EXPECT_THAT(MakeMemoryPlan(input).status().message(), HasSubstr("--memory-limit"));
  input.memory_limit_bytes = 16 * kGiB;
  EXPECT_TRUE(MakeMemoryPlan(input).ok());
}

TEST_F(MemoryPlanTest, ALimitCountsAlsoWhereTheHostHasMore) {
  MemoryPlanInput input = Input(64 * kGiB);
  input.memory_limit_bytes = 8 * kGiB;
  input.ctx = 8192;
  const auto plan = MakeMemoryPlan(input);
  ASSERT_TRUE(plan.ok());
  EXPECT_LE(plan->work_bytes + plan->cache_bytes, 5 * kGiB);
}

// As large as the released model in four bits, in 32 GiB.
TEST_F(MemoryPlanTest, ExpertsThatDoNotFitGetThreeQuartersOfWhatOtherWeightsLeave) {
  MemoryPlanInput input = Input(32 * kGiB);
  input.weights = {
      .file_bytes = 69 * kGiB,
      .ngram = {.table_bytes = 24 * kGiB,
                .n_rows = 24 * kGiB / 90,
                .slot_bytes = 96,
                .buffer_bytes = 6 << 20},
      .experts = {
          .n_experts = 24576, .file_bytes = 40 * kGiB, .slot_bytes = 40 * kGiB / 24576 + 12288}};
  const auto plan = MakeMemoryPlan(input);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  const uint64_t left = 32 * kGiB - kGiB - kGiB / 8 - 5 * kGiB;
  EXPECT_EQ(plan->weights.mapped_bytes, 5 * kGiB);
  const uint64_t rows = (left + 5 * kGiB) / 64;  // a 64th of all the room
  EXPECT_EQ(plan->weights.ngram_bytes, rows);
  EXPECT_LE(plan->weights.arena_bytes, left - left / 4 - rows);
  EXPECT_GT(plan->weights.arena_bytes, left - left / 4 - rows - input.weights.experts.slot_bytes);
  EXPECT_LE(plan->weights.arena_bytes + rows + plan->work_bytes + plan->cache_bytes, left);
  EXPECT_THAT(plan->table, HasSubstr("experts in memory        18.9"));
  EXPECT_THAT(plan->table, HasSubstr("n-gram rows in memory    494.0 MiB  (5330261 of 286331153;"));

  // A context that was asked for comes first.
  input.ctx = 262144;
  const auto asked = MakeMemoryPlan(input);
  ASSERT_TRUE(asked.ok()) << asked.status().ToString();
  EXPECT_EQ(asked->ctx, 262144);
  EXPECT_EQ(asked->n_slots, 4);
  EXPECT_LT(asked->weights.arena_bytes, plan->weights.arena_bytes);

  input.ngram_memory.kind = NgramMemory::Kind::kAll;
  const auto mapped = MakeMemoryPlan(input);
  ASSERT_TRUE(mapped.ok()) << mapped.status().ToString();
  EXPECT_THAT(mapped->table, HasSubstr("n-gram table             24.00 GiB  (mapped, not counted"));
}

}  // namespace
}  // namespace holdfast

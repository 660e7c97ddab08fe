#include "state/block_pool.h"

#include <gtest/gtest.h>

#include <thread>

#include "ops/cpu/cpu_backend.h"
#include "state/snapshot.h"

namespace holdfast {
namespace {

constexpr size_t kTrunk = 4096, kDraft = 512;

class BlockPoolTest : public ::testing::Test {
 protected:
  std::shared_ptr<BlockPool> Pool(size_t limit) {
    budget_ = std::make_shared<MemoryBudget>(limit);
    return BlockPool::Create(backend_.get(), budget_, kTrunk, kDraft);
  }
  std::byte First(const StateBlock& block) {
    std::byte b{};
    EXPECT_TRUE(backend_->Download({block.trunk.get(), 0}, std::span(&b, 1)).ok());
    return b;
  }
  void Write(const StateBlock& block, std::byte b) {
    EXPECT_TRUE(backend_->Upload({block.trunk.get(), 0}, std::span(&b, 1)).ok());
  }
  std::unique_ptr<CpuBackend> backend_ = *CpuBackend::Create({.n_threads = 1});
  std::shared_ptr<MemoryBudget> budget_;
};

TEST_F(BlockPoolTest, TakesFromTheBudgetAndTheFreeListBeforeIt) {
  auto pool = Pool(2 * kTrunk + kDraft);
  auto one = pool->Allocate(true);
  auto two = pool->Allocate(false);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ((*two)->draft, nullptr);
  EXPECT_EQ(budget_->taken_bytes(), 2 * kTrunk + kDraft);
  const auto three = pool->Allocate(false);
  EXPECT_EQ(three.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(three.status().message(),
            "conversation state: 4096 B wanted, 8704 of 8704 B are taken");
  one->reset();
  EXPECT_EQ(pool->counters().n_free, 1);
  EXPECT_EQ(pool->free_bytes(), kTrunk + kDraft);
  EXPECT_TRUE(pool->Allocate(true).ok());
  EXPECT_EQ(budget_->taken_bytes(), 2 * kTrunk + kDraft);
  EXPECT_EQ(pool->ReleaseFree(), kTrunk + kDraft);
  EXPECT_EQ(budget_->taken_bytes(), kTrunk);
  EXPECT_EQ(budget_->peak_bytes(), 2 * kTrunk + kDraft);
}

TEST_F(BlockPoolTest, RefusedDraftPartLeavesNothingBehind) {
  auto pool = Pool(kTrunk + kDraft - 1);
  EXPECT_EQ(pool->Allocate(true).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(budget_->taken_bytes(), 0u);
  EXPECT_EQ(pool->free_bytes(), 0u);
}

TEST_F(BlockPoolTest, CloneHasTheBytesAndIsWritable) {
  auto pool = Pool(1 << 20);
  const BlockPtr source = *pool->Allocate(true);
  Write(*source, std::byte{7});
  ASSERT_TRUE(pool->Seal(source.get()).ok());
  const BlockPtr copy = *pool->Clone(*source, true);
  EXPECT_EQ(First(*copy), std::byte{7});
  EXPECT_NE(copy->draft, nullptr);
  EXPECT_EQ((*pool->Clone(*source, false))->draft, nullptr);
  Write(*copy, std::byte{8});
  EXPECT_EQ(First(*source), std::byte{7});
  EXPECT_EQ(pool->counters().n_copied, 2);
}

TEST_F(BlockPoolTest, SealedBlockComesBackWritableAndZero) {
  auto pool = Pool(kTrunk);
  BlockPtr block = *pool->Allocate(false);
  Write(*block, std::byte{7});
  ASSERT_TRUE(pool->Seal(block.get()).ok());
  block.reset();
  block = *pool->Allocate(false);
  EXPECT_FALSE(block->sealed);
  EXPECT_EQ(First(*block), std::byte{0});
  Write(*block, std::byte{1});
}

TEST_F(BlockPoolTest, GuardIsAskedForGrowthOnly) {
  int n_asked = 0;
  bool agree = true;
  budget_ = std::make_shared<MemoryBudget>(1 << 20, [&](size_t) {
    ++n_asked;
    return agree ? OkStatus() : ResourceExhaustedError("no");
  });
  auto pool = BlockPool::Create(backend_.get(), budget_, kTrunk, 0);
  { const auto block = pool->Allocate(true); }
  EXPECT_EQ(n_asked, 1);
  agree = false;
  const auto again = pool->Allocate(false);
  EXPECT_TRUE(again.ok());
  EXPECT_EQ(n_asked, 1);
  EXPECT_EQ(pool->Allocate(false).status().message(), "no");
}

TEST_F(BlockPoolTest, ReadersHoldABlockFromAnyThread) {
  auto pool = Pool(1 << 20);
  BlockPtr block = *pool->Allocate(false);
  block->n_bound = 1;
  EXPECT_TRUE(block->exclusive());
  BlockReader reader(block);
  EXPECT_FALSE(block->exclusive());
  std::thread([moved = std::move(reader)]() mutable {
    BlockReader other;
    other = std::move(moved);
  }).join();
  EXPECT_TRUE(block->exclusive());
  // The last to go may be a reader on another thread, when pool and budget are gone elsewhere.
  BlockReader last(block);
  block.reset();
  pool.reset();
  budget_.reset();
  std::thread([moved = std::move(last)] {}).join();
}

}  // namespace
}  // namespace holdfast

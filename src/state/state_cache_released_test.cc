// A conversation of the released model's size: parking and resuming cost the same at any length.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "ops/cpu/cpu_backend.h"
#include "state/state_cache.h"
#include "state/testing/released_config.h"

namespace holdfast {
namespace {

using testing::ReleasedConfig;

double Ms(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

// Unoptimised and sanitised builds show that nothing is copied (409 MB of cells would take 50 ms or
// more), optimised ones the promise itself.
#ifdef NDEBUG
constexpr double kLimitMs = 1.0;
#else
constexpr double kLimitMs = 10.0;
#endif

TEST(StateCacheReleasedTest, ParkAndResumeAt28785TokensTakeUnderAMillisecondAndAllocateNothing) {
  constexpr int64_t kTokens = 28'785;
  const auto backend = *CpuBackend::Create({.n_threads = 1});
  const StateLayout layout = *StateLayout::Create(ReleasedConfig(), KvFormat::kInt8);
  StateCacheOptions options;
  options.backend = backend.get();
  options.trunk = &layout;
  options.params = {.cache_ram_bytes = size_t{4} << 30, .work_bytes = size_t{4} << 30};
  options.policy = ChooseCheckpointPolicy(layout, 262'144).policy;
  const auto cache = *StateCache::Create(std::move(options));
  std::vector<TokenId> prompt(kTokens);
  for (int64_t i = 0; i < kTokens; ++i) prompt[i] = static_cast<TokenId>(i * 7919 % 150'000);
  // Pages are only reserved (nothing writes to them); running states at the rungs are copied.
  auto begun = cache->Begin(cache->Find(prompt), prompt);
  ASSERT_TRUE(begun.ok());
  Conversation* c = *begun;
  while (c->n_computed() < kTokens) {
    const int64_t end = std::min(kTokens, cache->NextStop(*c));
    ASSERT_TRUE(cache->PrepareWrite(c, end).ok());
    ASSERT_TRUE(cache->Advance(c, end).ok());
  }
  cache->TakeCheckpoint(c, CheckpointKind::kTurnEnd);
  ASSERT_EQ(static_cast<int64_t>(c->checkpoints().size()), 5);  // 2048 to 16384 and the end
  prompt.push_back(1);

  const StateCacheStats before = cache->stats();
  double park_ms = 1e9, resume_ms = 1e9;
  for (int i = 0; i < 5; ++i) {
    auto begin = std::chrono::steady_clock::now();
    ASSERT_TRUE(cache->Park(c));
    park_ms = std::min(park_ms, Ms(begin));
    const PrefixMatch match = cache->Find(prompt);
    ASSERT_EQ(match.source, MatchSource::kLive);
    ASSERT_EQ(match.position, kTokens);
    begin = std::chrono::steady_clock::now();
    c = *cache->Begin(match, prompt);
    resume_ms = std::min(resume_ms, Ms(begin));
  }
  EXPECT_LT(park_ms, kLimitMs);
  EXPECT_LT(resume_ms, kLimitMs);
  const StateCacheStats after = cache->stats();
  EXPECT_EQ(after.pages.n_allocated, before.pages.n_allocated);
  EXPECT_EQ(after.running.n_allocated, before.running.n_allocated);

  // From a checkpoint: one running state, when the first row is written.
  cache->Park(c);
  std::vector<TokenId> edited(prompt.begin(), prompt.begin() + 20'000);
  edited.back() ^= 1;
  const PrefixMatch match = cache->Find(edited);
  EXPECT_EQ(match.position, 16'384);
  c = *cache->Begin(match, edited);
  ASSERT_TRUE(cache->PrepareWrite(c, 16'385).ok());
  EXPECT_EQ(cache->stats().running.n_copied - after.running.n_copied, 1);
  EXPECT_EQ(cache->stats().pages.n_copied, after.pages.n_copied);
  EXPECT_EQ(cache->stats().pages.n_allocated - after.pages.n_allocated, 1);
}

}  // namespace
}  // namespace holdfast

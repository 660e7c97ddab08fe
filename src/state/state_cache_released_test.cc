// A conversation of the released model's size: parking and resuming cost the same at any length.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

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
constexpr double kLimitMs = 1.0, kCopyLimit = 1.5;
#else
constexpr double kLimitMs = 10.0, kCopyLimit = 10.0;
#endif

// Fills a buffer with bytes that depend on the seed.
void Fill(Backend* backend, Buffer* buffer, uint64_t seed) {
  const Status status = backend->WithHostBytes(buffer, [&](std::span<std::byte> bytes) {
    std::mt19937_64 random(seed);
    for (size_t i = 0; i + sizeof(uint64_t) <= bytes.size(); i += sizeof(uint64_t)) {
      const uint64_t word = random();
      std::memcpy(bytes.data() + i, &word, sizeof(word));
    }
    return OkStatus();
  });
  ASSERT_TRUE(status.ok()) << status.ToString();
}

std::vector<std::byte> BytesOf(Backend* backend, Buffer* buffer) {
  std::vector<std::byte> copy;
  EXPECT_TRUE(backend
                  ->WithHostBytes(buffer,
                                  [&](std::span<std::byte> bytes) {
                                    copy.assign(bytes.begin(), bytes.end());
                                    return OkStatus();
                                  })
                  .ok());
  return copy;
}

TEST(StateCacheReleasedTest, ParkAndResumeAt28785TokensTakeUnderAMillisecondAndCopyAtMostOneState) {
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
  // What a forward pass would leave: every page and running state full of bytes.
  auto begun = cache->Begin(cache->Find(prompt), prompt);
  ASSERT_TRUE(begun.ok());
  Conversation* c = *begun;
  while (c->n_computed() < kTokens) {
    const int64_t end = std::min(kTokens, cache->NextStop(*c));
    const int64_t from = c->n_computed() / layout.page_tokens();
    ASSERT_TRUE(cache->PrepareWrite(c, end).ok());
    for (int64_t i = from; i < layout.PagesFor(end); ++i) {
      Fill(backend.get(), c->page_buffers()[i], i);
    }
    Fill(backend.get(), c->running(), 1'000'000 + end);
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

  std::printf("live end of %ld tokens: parked in %.3f ms, resumed in %.3f ms, no page allocated\n",
              static_cast<long>(kTokens), park_ms, resume_ms);

  // From a checkpoint: one running state, when the first row is written, in not much more time than
  // copying these bytes takes.
  cache->Park(c);
  std::vector<TokenId> edited(prompt.begin(), prompt.begin() + 20'000);
  edited.back() ^= 1;
  double checkpoint_ms = 1e9, copy_ms = 1e9;
  for (int i = 0; i < 7; ++i) {
    const StateCacheStats at = cache->stats();
    auto begin = std::chrono::steady_clock::now();
    const PrefixMatch match = cache->Find(edited);
    c = *cache->Begin(match, edited);
    ASSERT_TRUE(cache->PrepareWrite(c, 16'385).ok());
    checkpoint_ms = std::min(checkpoint_ms, Ms(begin));
    ASSERT_EQ(match.position, 16'384);
    EXPECT_EQ(cache->stats().running.n_copied - at.running.n_copied, 1);
    EXPECT_EQ(cache->stats().pages.n_copied, at.pages.n_copied);
    EXPECT_EQ(cache->stats().pages.n_allocated - at.pages.n_allocated, 1);
    const std::vector<std::byte> state = BytesOf(backend.get(), c->running());
    std::vector<std::byte> copy(state.size(), std::byte{1});
    begin = std::chrono::steady_clock::now();
    std::memcpy(copy.data(), state.data(), state.size());
    copy_ms = std::min(copy_ms, Ms(begin));
    ASSERT_EQ(copy, state);
    Fill(backend.get(), c->running(), 7);  // the checkpoint must not change
    cache->Discard(c);
  }
  EXPECT_LT(checkpoint_ms, kCopyLimit * copy_ms);
  std::printf("checkpoint at 16384 tokens: resumed in %.2f ms, its %.1f MB copied in %.2f ms\n",
              checkpoint_ms, static_cast<double>(layout.running_bytes()) / 1e6, copy_ms);
  const PrefixMatch again = cache->Find(edited);
  c = *cache->Begin(again, edited);
  ASSERT_TRUE(cache->PrepareWrite(c, 16'385).ok());
  const std::vector<std::byte> state = BytesOf(backend.get(), c->running());
  Fill(backend.get(), c->running(), 1'000'000 + 16'384);
  EXPECT_EQ(state, BytesOf(backend.get(), c->running()));
}

}  // namespace
}  // namespace holdfast

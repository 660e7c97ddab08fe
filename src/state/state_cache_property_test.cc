// Random clients against one cache: whatever they do, answers are those of their tokens alone
// (checked by the harness at every turn), the stated bound holds, and no memory is lost.

#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "state/state_cache.h"
#include "state/testing/cache_harness.h"

namespace holdfast {
namespace {

using testing::CacheHarness;
using testing::Ids;
using testing::Text;
using testing::Turn;
using testing::TurnOptions;
using testing::operator+;

class RandomClients {
 public:
  explicit RandomClients(uint64_t seed) : random_(seed) {}
  int64_t Draw(int64_t n) { return static_cast<int64_t>(random_() % n); }

  // A follow-up, an edit anywhere, a retry, a rewind, or something new.
  Ids NextPrompt() {
    if (known_.empty() || Draw(8) == 0)
      return Text(20 + Draw(200), 1000 + static_cast<int>(Draw(1'000'000)));
    Ids prompt = known_[Draw(std::ssize(known_))];
    switch (Draw(4)) {
      case 0:
        break;
      case 1:
        prompt.resize(1 + Draw(std::ssize(prompt)));
        break;
      case 2:
        prompt[Draw(std::ssize(prompt))] ^= 1;
        break;
      default:
        prompt.resize(1 + Draw(std::ssize(prompt)));
        prompt.back() ^= 1;
    }
    return prompt + Text(Draw(60), static_cast<int>(Draw(1'000'000)));
  }

  TurnOptions NextOptions(const Ids& prompt) {
    const int64_t n = std::ssize(prompt);
    TurnOptions options;
    options.n_reply = Draw(20);
    options.chunk = 1 + Draw(80);
    options.n_rejected = Draw(4);
    options.with_draft = Draw(2) == 0;
    if (Draw(6) == 0) options.stop_reading_at = 1 + Draw(n);  // a disconnect
    if (n > 30) options.marks.push_back({20 + Draw(10), CheckpointKind::kSystem});
    for (int i = 0; i < 2; ++i) {
      options.marks.push_back({1 + Draw(n), static_cast<CheckpointKind>(Draw(3))});
    }
    return options;
  }

  void Remember(const Turn& turn) {
    if (turn.tokens.size() > 2) known_.push_back(turn.tokens);
    if (known_.size() > 20) known_.erase(known_.begin() + Draw(20));
  }

 private:
  std::mt19937_64 random_;
  std::vector<Ids> known_;
};

class StateCachePropertyTest : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  int ratio() const { return std::get<0>(GetParam()); }
  uint64_t seed() const { return static_cast<uint64_t>(std::get<1>(GetParam())); }

  // The most tokens that `prompt` shares with anything computed that is kept.
  static int64_t SharedWithKept(const StateCache& cache, const Ids& prompt) {
    int64_t most = 0;
    for (const Conversation* c : cache.List()) {
      most = std::max(most, std::min(c->n_computed(), FirstDifference(c->tokens(), prompt)));
    }
    return most;
  }
};

TEST_P(StateCachePropertyTest, BoundOfWhatIsReadAgainHolds) {
  CheckpointPolicy policy = CacheHarness::Policy(ratio());
  // Just enough for this ratio (checkpoint_policy_test.cc): thinning has to work for it.
  policy.running_bytes = 1000;
  policy.kv_bytes_per_token = ratio() == 2 ? 8 : ratio() == 4 ? 20 : 30;
  CacheHarness h(CacheHarness::Roomy(), policy);
  RandomClients clients(seed());
  int64_t n_reused = 0;
  for (int i = 0; i < 100; ++i) {
    const Ids prompt = clients.NextPrompt();
    const int64_t shared = SharedWithKept(h.cache(), prompt);
    const Turn turn = h.Run(prompt, clients.NextOptions(prompt));
    ASSERT_TRUE(h.status().ok()) << h.status().ToString();
    ASSERT_LE(shared - turn.n_reused, policy.Bound(shared)) << "turn " << i << " of " << shared;
    if (HasFailure()) FAIL() << "turn " << i;
    n_reused += turn.n_reused;
    clients.Remember(turn);
    for (const Conversation* c : h.cache().List()) {
      const int64_t n = std::ranges::count_if(
          c->checkpoints(), [&](const Checkpoint& k) { return k.position < c->n_computed(); });
      ASSERT_LE(n, policy.MaxCheckpoints(c->n_computed()));
    }
  }
  EXPECT_GT(n_reused, 0);
}

TEST_P(StateCachePropertyTest, LittleMemoryGivesTheSameAnswersAndLosesNothing) {
  CacheHarness sizes;
  const CacheParams params = {
      .cache_ram_bytes = 60 * sizes.page_bytes() + 25 * sizes.running_bytes(),
      .work_bytes = 150 * sizes.page_bytes() + 60 * sizes.running_bytes(),
      .short_tokens = 100};
  CacheHarness h(params, CacheHarness::Policy(ratio()));
  RandomClients clients(seed() + 100);
  std::vector<std::string> to_save;
  h.cache().set_evict_hook([&](const Conversation& c) {
    if (clients.Draw(3) != 0) return EvictAnswer::kRelease;
    to_save.push_back(c.id());
    return EvictAnswer::kSaving;
  });
  std::vector<std::pair<Conversation*, Ids>> bound;
  std::vector<ConversationSnapshot> snapshots;
  for (int i = 0; i < 150; ++i) {
    h.Sleep(static_cast<double>(clients.Draw(600)));
    const Ids prompt = clients.NextPrompt();
    if (clients.Draw(3) == 0) {
      // Requests that run at the same time, parked in any order at any point.
      Turn turn;
      Conversation* const c = h.Begin(prompt, clients.NextOptions(prompt), &turn);
      const int64_t left = std::ssize(prompt) - c->n_computed();
      if (h.ReadTo(c, c->n_computed() + clients.Draw(left + 1), 1 + clients.Draw(50)).ok()) {
        bound.emplace_back(c, prompt);
      } else {
        h.cache().Park(c);
      }
    } else {
      const Turn turn = h.Run(prompt, clients.NextOptions(prompt));
      if (h.status().ok()) clients.Remember(turn);
    }
    while (!bound.empty() && (bound.size() > 3 || clients.Draw(2) == 0)) {
      const int64_t k = clients.Draw(std::ssize(bound));
      Conversation* const c = bound[k].first;
      bound.erase(bound.begin() + k);
      switch (clients.Draw(4)) {
        case 0:
          h.cache().Discard(c);
          break;
        case 1:
          h.cache().ParkAtCheckpoint(c);
          break;
        default:
          (void)h.ReadTo(c, c->n_tokens());
          h.cache().Park(c);
      }
    }
    const auto list = h.cache().List();
    if (!list.empty() && clients.Draw(4) == 0) {
      const Conversation* const c = list[clients.Draw(std::ssize(list))];
      if (c->n_computed() > 0) snapshots.push_back(h.cache().Snapshot(*c));
      if (c->n_computed() > 0 && clients.Draw(3) == 0) {
        ASSERT_TRUE(h.cache().Fork(c->id(), "").ok());
      }
    }
    if (snapshots.size() > 4) snapshots.erase(snapshots.begin());
    for (const std::string& id : std::exchange(to_save, {})) {
      const Conversation* const c = h.cache().FindById(id);
      if (c == nullptr) continue;
      const DiskPoint end{c->n_computed(), PointKind::kLiveEnd, 1};
      const TokenSequence tokens(c->tokens().Prefix(c->n_computed()));
      h.cache().RegisterDisk(id, tokens.view(), std::span(&end, 1));
      h.cache().UnregisterDisk(id);
    }
    const StateCacheStats s = h.cache().stats();
    ASSERT_LE(s.peak_bytes, s.limit_bytes);
    if (HasFailure()) FAIL() << "turn " << i;
  }
  snapshots.clear();
  for (const Conversation* c : h.cache().List()) h.cache().Discard(h.cache().FindById(c->id()));
  const StateCacheStats s = h.cache().stats();
  EXPECT_EQ(s.pages.n_in_use, 0);
  EXPECT_EQ(s.running.n_in_use, 0);
  EXPECT_EQ(s.parked_bytes, 0u);
  EXPECT_GT(s.n_evicted, 0);
  EXPECT_GT(s.n_tokens_reused, 0);
  h.cache().Release(GiveBack::kFreeBuffers, 0);
  EXPECT_EQ(h.cache().stats().taken_bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(RatiosAndSeeds, StateCachePropertyTest,
                         ::testing::Combine(::testing::Values(2, 4, 8), ::testing::Range(1, 4)));

}  // namespace
}  // namespace holdfast

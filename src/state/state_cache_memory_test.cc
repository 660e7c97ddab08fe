// Budgets, admission, eviction and what is given back.

#include <gtest/gtest.h>

#include <optional>

#include "state/state_cache.h"
#include "state/testing/cache_harness.h"

namespace holdfast {
namespace {

using testing::CacheHarness;
using testing::Ids;
using testing::Text;
using testing::Turn;
using testing::operator+;

// Sizes of the toy layout, so that budgets can be told in blocks.
size_t PageBytes() { return CacheHarness().page_bytes(); }
size_t RunningBytes() { return CacheHarness().running_bytes(); }

CacheParams Budget(size_t n_pages, size_t n_running, size_t work_pages = 64,
                   size_t work_running = 8) {
  return {.cache_ram_bytes = n_pages * PageBytes() + n_running * RunningBytes(),
          .work_bytes = work_pages * PageBytes() + work_running * RunningBytes(),
          .short_tokens = 64};
}

TEST(StateCacheMemoryTest, ParamsAreCheckedOnce) {
  EXPECT_EQ((CacheParams{.work_bytes = 0}).Validate().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((CacheParams{.work_bytes = 1, .min_write_tokens = -1}).Validate().message(),
            "cache-min-tokens -1,0: wanted at least 0");
  EXPECT_FALSE((CacheParams{.cache_ram_bytes = SIZE_MAX, .work_bytes = 1}).Validate().ok());
  EXPECT_TRUE((CacheParams{.work_bytes = 1}).Validate().ok());
}

TEST(StateCacheMemoryTest, TooSmallALimitIsRefusedWithTheArithmetic) {
  CacheHarness h;
  StateCacheOptions options;
  options.backend = &h.backend();
  options.trunk = &h.trunk();
  options.params = {.work_bytes = h.page_bytes()};
  const auto cache = StateCache::Create(std::move(options));
  ASSERT_FALSE(cache.ok());
  EXPECT_EQ(cache.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(cache.status().message().find(std::to_string(h.page_bytes() + 2 * h.running_bytes())),
            std::string::npos);
}

TEST(StateCacheMemoryTest, CacheRamZeroKeepsNothing) {
  CacheHarness h(Budget(0, 0));
  const Turn turn = h.Run(Text(50, 1));
  EXPECT_FALSE(turn.kept);
  EXPECT_EQ(h.cache().stats().n_parked, 0);
  EXPECT_EQ(h.cache().stats().parked_bytes, 0u);
  EXPECT_EQ(h.Run(turn.tokens + Text(3, 2)).n_reused, 0);
}

TEST(StateCacheMemoryTest, ParkedBytesNeverExceedTheBudget) {
  CacheHarness h(Budget(40, 12));
  for (int i = 0; i < 30; ++i) {
    h.Run(Text(20 + 7 * (i % 9), i), {.n_reply = 2});
    const StateCacheStats s = h.cache().stats();
    ASSERT_LE(s.parked_bytes, Budget(40, 12).cache_ram_bytes);
    ASSERT_LE(s.peak_bytes, s.limit_bytes);
  }
  EXPECT_GT(h.cache().stats().n_evicted, 0);
}

TEST(StateCacheMemoryTest, ShortOneShotsNeverEvictALongerConversation) {
  // Room for the long one and little else.
  CacheHarness h(Budget(28, 9, /*work_pages=*/16, /*work_running=*/6));
  const Turn first = h.Run(Text(180, 1), {.n_reply = 2});
  ASSERT_TRUE(first.kept);
  h.Sleep(7 * 86'400);  // however long ago
  for (int i = 0; i < 20; ++i) {
    const Turn side = h.Run(Text(40 + i, 100 + i), {.n_reply = 2});
    ASSERT_TRUE(h.status().ok()) << h.status().ToString();
  }
  EXPECT_EQ(h.Run(first.tokens + Text(2, 2)).n_reused, 181);
}

TEST(StateCacheMemoryTest, ShortOneShotWaitsRatherThanEvictALongerConversation) {
  // The work bytes are used up by a bound conversation, the rest by a longer parked one.
  CacheHarness h(Budget(28, 9, /*work_pages=*/10, /*work_running=*/4));
  const Turn kept = h.Run(Text(180, 1), {.n_reply = 2});
  ASSERT_TRUE(kept.kept);
  Turn turn;
  Conversation* const busy = h.Begin(Text(150, 2), {}, &turn);
  while (h.cache().stats().limit_bytes - h.cache().stats().taken_bytes >= h.page_bytes()) {
    ASSERT_TRUE(h.ReadTo(busy, busy->n_computed() + 8).ok());
  }
  const Turn side = h.Run(Text(30, 3));
  EXPECT_EQ(h.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(h.cache().FindById(kept.id), nullptr);
  // A long one is not spared: bound conversations come before parked ones.
  ASSERT_TRUE(h.ReadTo(busy, 150).ok());
  EXPECT_EQ(h.cache().FindById(kept.id), nullptr);
}

TEST(StateCacheMemoryTest, PinnedConversationGoesLast) {
  CacheHarness h(Budget(24, 8));
  const Turn pinned = h.Run(Text(20, 1), {.n_reply = 1});
  ASSERT_TRUE(h.cache().SetPinned(pinned.id, true).ok());
  for (int i = 0; i < 10; ++i) h.Run(Text(60, 10 + i), {.n_reply = 2});
  EXPECT_GT(h.cache().stats().n_evicted, 0);
  EXPECT_NE(h.cache().FindById(pinned.id), nullptr);
  EXPECT_EQ(h.cache().Release(GiveBack::kParked, SIZE_MAX) > 0, true);
  EXPECT_EQ(h.cache().List().size(), 1u);
}

TEST(StateCacheMemoryTest, ShortConversationsAreNotKeptAndShortMatchesNotUsed) {
  CacheParams params = CacheHarness::Roomy();
  params.min_write_tokens = 30;
  params.min_read_tokens = 40;
  CacheHarness h(params);
  EXPECT_FALSE(h.Run(Text(25, 1), {.n_reply = 5}).kept);  // 29 computed
  const Turn kept = h.Run(Text(26, 2), {.n_reply = 5});
  EXPECT_TRUE(kept.kept);
  const Turn next = h.Run(kept.tokens + Text(20, 3));
  EXPECT_EQ(next.n_reused, 0);
  EXPECT_EQ(next.match.limit, MatchLimit::kTooShort);
  EXPECT_EQ(h.Run(next.tokens + Text(20, 4)).n_reused, 55);
}

TEST(StateCacheMemoryTest, SupersededCopyIsDropped) {
  CacheHarness h;
  const Turn base = h.Run(Text(50, 1));
  // Another request goes on from the same end while its conversation is in use.
  Turn turn;
  Conversation* const busy = h.Begin(base.tokens + Text(1, 9), {}, &turn);
  const Turn longer = h.Run(base.tokens + Text(30, 2));
  EXPECT_NE(longer.id, base.id);
  EXPECT_EQ(longer.n_reused, 54);
  h.cache().Park(busy);  // with nothing new computed: all of it is in the longer one
  EXPECT_EQ(h.cache().FindById(base.id), nullptr);
  EXPECT_EQ(h.cache().stats().n_superseded, 1);
  // A name somebody gave stays.
  ASSERT_TRUE(h.cache().Fork(longer.id, "mine").ok());
  h.Run(longer.tokens + Text(5, 3));
  EXPECT_NE(h.cache().FindById("mine"), nullptr);
}

TEST(StateCacheMemoryTest, EvictionWaitsForTheSaveAndPrefersWhatIsOnDisk) {
  CacheHarness h(Budget(20, 8, /*work_pages=*/24, /*work_running=*/8));
  std::vector<std::string> asked;
  h.cache().set_evict_hook([&](const Conversation& c) {
    asked.push_back(c.id());
    return EvictAnswer::kSaving;
  });
  const Turn a = h.Run(Text(70, 1), {.n_reply = 2});
  const Turn b = h.Run(Text(90, 2), {.n_reply = 2});
  // Over the budget now; the less useful one is being saved and stays until it is.
  ASSERT_FALSE(asked.empty());
  const std::string first = asked[0];
  const Turn& saved = first == a.id ? a : b;
  EXPECT_NE(h.cache().FindById(first), nullptr);
  EXPECT_EQ(h.cache().stats().n_evicted, 0);
  Turn turn;
  Conversation* const c = h.Begin(Text(600, 3), {}, &turn);
  EXPECT_EQ(h.ReadTo(c, 600).code(), StatusCode::kUnavailable);
  const int64_t n = h.cache().FindById(first)->n_computed();
  const DiskPoint end{n, PointKind::kLiveEnd, 42};
  h.cache().RegisterDisk(first, TokenView(saved.tokens).Prefix(n), std::span(&end, 1));
  EXPECT_EQ(h.cache().FindById(first), nullptr);
  EXPECT_EQ(h.cache().stats().n_evicted, 1);
  // It is still found, on disk.
  const PrefixMatch match = h.cache().Find(saved.tokens + Text(1, 4));
  EXPECT_EQ(match.source, MatchSource::kDisk);
  EXPECT_EQ(match.position, n);
  EXPECT_EQ(match.conversation, first);
  EXPECT_EQ(match.payload, 42u);
  EXPECT_EQ(h.cache().Begin(match, saved.tokens).status().code(), StatusCode::kFailedPrecondition);
  h.cache().UnregisterDisk(first);
  EXPECT_EQ(h.cache().Find(saved.tokens).source, MatchSource::kNone);
  h.cache().Discard(c);
}

TEST(StateCacheMemoryTest, MemoryIsGivenBackInOrder) {
  CacheHarness h;
  h.cache().set_evict_hook([](const Conversation&) { return EvictAnswer::kRelease; });
  const Turn a = h.Run(Text(100, 1));
  const Turn b = h.Run(Text(100, 2));
  const Turn gone = h.Run(Text(100, 3));
  h.cache().Discard(h.cache().FindById(gone.id));
  const DiskPoint end{104, PointKind::kLiveEnd, 0};
  h.cache().RegisterDisk(a.id, TokenView(a.tokens).Prefix(104), std::span(&end, 1));

  EXPECT_GT(h.cache().Release(GiveBack::kFreeBuffers, 0), 13 * h.page_bytes());
  EXPECT_EQ(h.cache().stats().pages.n_free, 0);
  EXPECT_EQ(h.cache().List().size(), 2u);
  EXPECT_GT(h.cache().Release(GiveBack::kOnDisk, SIZE_MAX), 13 * h.page_bytes());
  EXPECT_EQ(h.cache().FindById(a.id), nullptr);
  EXPECT_NE(h.cache().FindById(b.id), nullptr);
  EXPECT_GT(h.cache().Release(GiveBack::kParked, SIZE_MAX), 13 * h.page_bytes());
  EXPECT_TRUE(h.cache().List().empty());
  EXPECT_EQ(h.cache().stats().taken_bytes, 0u);
}

TEST(StateCacheMemoryTest, GuardRefusesGrowthAndParkedMemoryIsUsedInstead) {
  CacheHarness h;
  const Turn a = h.Run(Text(100, 1));
  h.consent = [](size_t) { return ResourceExhaustedError("the host has no more"); };
  // As many tokens as the first one's buffers hold.
  const Turn b = h.Run(Text(90, 2), {.n_reply = 2});
  EXPECT_TRUE(h.status().ok()) << h.status().ToString();
  EXPECT_EQ(h.cache().FindById(a.id), nullptr);
  Turn turn;
  Conversation* const c = h.Begin(Text(500, 3), {}, &turn);
  EXPECT_EQ(h.ReadTo(c, 500).message(), "the host has no more");
  EXPECT_TRUE(h.cache().Park(c));  // what was read stays
}

TEST(StateCacheMemoryTest, SharedPagesAreCountedOnceAndEvictedLast) {
  CacheHarness h;
  const Ids system = Text(64, 1);
  const CheckpointMark mark{64, CheckpointKind::kSystem};
  const Turn a = h.Run(system + Text(8, 2), {.marks = {mark}, .n_reply = 1});
  const size_t alone = h.cache().stats().parked_bytes;
  const Turn b = h.Run(system + Text(8, 3), {.marks = {mark}, .n_reply = 1});
  const size_t both = h.cache().stats().parked_bytes;
  const Conversation& second = *h.cache().FindById(b.id);
  EXPECT_EQ(both - alone, h.cache().ExclusiveBytes(second));
  EXPECT_EQ(h.cache().ExclusiveBytes(second), h.page_bytes() + h.running_bytes());
  h.cache().Discard(h.cache().FindById(b.id));
  EXPECT_EQ(h.cache().stats().parked_bytes, alone);
  h.cache().Discard(h.cache().FindById(a.id));
  EXPECT_EQ(h.cache().stats().parked_bytes, 0u);
  EXPECT_EQ(h.cache().stats().pages.n_in_use, 0);
  EXPECT_EQ(h.cache().stats().running.n_in_use, 0);
}

TEST(StateCacheMemoryTest, RecycledBuffersComeBackZero) {
  CacheHarness h;
  const Turn a = h.Run(Text(100, 1));
  h.cache().Discard(h.cache().FindById(a.id));
  const int64_t n_free = h.cache().stats().pages.n_free;
  ASSERT_GT(n_free, 0);
  for (int64_t i = 0; i < n_free; ++i) {
    const auto page = h.cache().AllocatePage(false);
    ASSERT_TRUE(page.ok());
    std::vector<std::byte> bytes(h.page_bytes());
    ASSERT_TRUE(h.backend().Download({(*page)->trunk.get(), 0}, bytes).ok());
    EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; }));
  }
}

class AdoptTest : public ::testing::Test {
 protected:
  // What the store does: blocks filled with a snapshot's bytes.
  BlockPtr CopyOf(CacheHarness* to, bool is_page, const BlockReader& block, Backend* from) {
    BlockPtr copy =
        is_page ? *to->cache().AllocatePage(false) : *to->cache().AllocateRunning(false);
    std::vector<std::byte> bytes(block.trunk()->bytes());
    EXPECT_TRUE(from->Download({block.trunk(), 0}, bytes).ok());
    EXPECT_TRUE(to->backend().Upload({copy->trunk.get(), 0}, bytes).ok());
    return copy;
  }
  RestoredConversation Restore(CacheHarness* to, const ConversationSnapshot& s, Backend* from) {
    RestoredConversation r;
    r.id = s.id;
    r.tokens = s.tokens.view();
    r.next_token = s.next_token;
    r.pages = to->cache().SharedPages(r.tokens, false);
    for (size_t i = r.pages.size(); i < s.pages.size(); ++i) {
      r.pages.push_back(CopyOf(to, true, s.pages[i], from));
    }
    r.running = CopyOf(to, false, s.running, from);
    for (const auto& c : s.checkpoints) {
      r.checkpoints.push_back({c.position, c.kind, CopyOf(to, false, c.running, from)});
    }
    return r;
  }
  CacheHarness from_, to_;
};

TEST_F(AdoptTest, RestoredConversationGoesOnAsIfItHadNeverLeft) {
  const Turn a = from_.Run(Text(100, 1), {.marks = {{50, CheckpointKind::kSystem}}});
  const ConversationSnapshot s = from_.cache().Snapshot(*from_.cache().FindById(a.id));
  ASSERT_TRUE(to_.cache().Adopt(Restore(&to_, s, &from_.backend())).ok());
  EXPECT_EQ(to_.cache().Adopt(Restore(&to_, s, &from_.backend())).status().code(),
            StatusCode::kAlreadyExists);
  const Turn edited = to_.Run(Text(60, 1) + Text(9, 3));
  EXPECT_EQ(edited.n_reused, 50);
  const Turn next = to_.Run(a.tokens + Text(20, 2));
  EXPECT_EQ(next.id, a.id);
  EXPECT_EQ(next.n_reused, 104);
  EXPECT_EQ(next.tokens, from_.Run(a.tokens + Text(20, 2)).tokens);
}

TEST_F(AdoptTest, PagesThatAreThereAreNotLoadedAgain) {
  const Turn a = from_.Run(Text(64, 1) + Text(20, 2));
  const Turn b = to_.Run(Text(64, 1) + Text(20, 3));
  const ConversationSnapshot s = from_.cache().Snapshot(*from_.cache().FindById(a.id));
  EXPECT_EQ(to_.cache().SharedPages(s.tokens.view(), false).size(), 8u);
  EXPECT_TRUE(to_.cache().SharedPages(s.tokens.view(), true).empty());
  auto restored = Restore(&to_, s, &from_.backend());
  restored.id = "other";
  const auto adopted = to_.cache().Adopt(std::move(restored));
  ASSERT_TRUE(adopted.ok());
  EXPECT_EQ((*adopted)->pages()[7], to_.cache().FindById(b.id)->pages()[7]);
  EXPECT_EQ(to_.Run(a.tokens + Text(2, 5)).n_reused, 88);
}

TEST_F(AdoptTest, CountsThatDoNotFitTogetherAreRefused) {
  const Turn a = from_.Run(Text(100, 1));
  const ConversationSnapshot s = from_.cache().Snapshot(*from_.cache().FindById(a.id));
  const auto code = [&](auto change) {
    RestoredConversation r = Restore(&to_, s, &from_.backend());
    change(&r);
    return to_.cache().Adopt(std::move(r)).status().code();
  };
  const auto invalid = StatusCode::kInvalidArgument;
  EXPECT_EQ(code([](RestoredConversation* r) { r->pages.pop_back(); }), invalid);
  EXPECT_EQ(code([](RestoredConversation* r) { r->pages[0] = nullptr; }), invalid);
  EXPECT_EQ(code([](RestoredConversation* r) { r->tokens = {}; }), invalid);
  EXPECT_EQ(code([](RestoredConversation* r) { r->running = nullptr; }), invalid);
  EXPECT_EQ(code([](RestoredConversation* r) { r->has_draft = true; }), invalid);
  EXPECT_EQ(code([](RestoredConversation* r) { r->checkpoints.back().position = 105; }), invalid);
  EXPECT_EQ(code([](RestoredConversation* r) { r->checkpoints[1].position = 1; }), invalid);
  EXPECT_TRUE(to_.cache().List().empty());
  EXPECT_EQ(to_.cache().stats().pages.n_in_use, 0);
}

// Its own state and the four checkpoints of the plan are all there is room for.
TEST(StateCacheMemoryTest, AConversationGivesUpCheckpointsRatherThanFail) {
  CacheHarness h(Budget(0, 0, /*work_pages=*/25, /*work_running=*/5));
  Turn turn;
  Conversation* const c = h.Begin(Text(200, 1), {}, &turn);
  for (int64_t n = 10; n <= 200; n += 10) {
    ASSERT_TRUE(h.ReadTo(c, n).ok()) << n;
    h.cache().TakeCheckpoint(c, CheckpointKind::kTurnEnd);
  }
  const StateCacheStats s = h.cache().stats();
  EXPECT_GT(s.n_checkpoints_thinned, 0);
  EXPECT_LE(s.peak_bytes, s.limit_bytes);
  EXPECT_EQ(c->checkpoints().size(), 5u);  // the last one is the live end
  EXPECT_EQ(c->checkpoints().back().position, 200);
}

TEST(StateCacheMemoryTest, WhatSavesHoldIsWaitedFor) {
  CacheHarness h(Budget(0, 0, /*work_pages=*/6, /*work_running=*/4));
  Turn turn;
  Conversation* const c = h.Begin(Text(40, 1), {}, &turn);
  ASSERT_TRUE(h.ReadTo(c, 1).ok());
  std::vector<ConversationSnapshot> saves;
  Status status = OkStatus();
  for (int64_t n = 2; n <= 40 && status.ok(); ++n) {
    saves.push_back(h.cache().Snapshot(*c));
    status = h.ReadTo(c, n);
  }
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
  saves.clear();
  EXPECT_TRUE(h.ReadTo(c, 40).ok());
}

TEST(StateCacheMemoryTest, BytesAreSharedOrExclusiveAndTheAgeIsTold) {
  CacheHarness h;
  const Turn a = h.Run(Text(64, 1) + Text(9, 2)), b = h.Run(Text(64, 1) + Text(30, 3));
  h.Sleep(5);
  h.Run(b.tokens + Text(3, 4));
  const Conversation& first = *h.cache().FindById(a.id);
  const Conversation& second = *h.cache().FindById(b.id);
  EXPECT_GE(h.cache().SharedBytes(first), 8 * h.page_bytes());
  EXPECT_EQ(h.cache().SharedBytes(first), h.cache().SharedBytes(second));
  EXPECT_EQ(h.cache().stats().parked_bytes, h.cache().ExclusiveBytes(first) +
                                                h.cache().ExclusiveBytes(second) +
                                                h.cache().SharedBytes(first));
  EXPECT_DOUBLE_EQ(h.cache().AgeSeconds(first), 5);
  EXPECT_DOUBLE_EQ(h.cache().AgeSeconds(second), 0);
}

}  // namespace
}  // namespace holdfast

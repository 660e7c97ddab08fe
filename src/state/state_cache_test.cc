#include "state/state_cache.h"

#include <gtest/gtest.h>

#include "state/testing/cache_harness.h"

// What real clients do between two turns (issue: "Handles"). Every turn of the harness checks the
// toy model's answer against one computed from the tokens alone.

namespace holdfast {
namespace {

using testing::CacheHarness;
using testing::Ids;
using testing::Text;
using testing::Turn;
using testing::TurnOptions;
using testing::operator+;

const CheckpointMark kSystem60{60, CheckpointKind::kSystem};

class StateCacheTest : public ::testing::Test {
 protected:
  StateCacheStats stats() { return h_.cache().stats(); }
  Ids system_ = Text(60, 1);
  CacheHarness h_;
};

TEST_F(StateCacheTest, FollowUpReadsOnlyWhatIsNewAfterASideRequest) {
  const Turn first = h_.Run(system_ + Text(40, 2));
  EXPECT_EQ(first.match.source, MatchSource::kNone);
  EXPECT_EQ(first.n_rows, 104);  // the prompt and four of five reply tokens
  const Turn side = h_.Run(Text(30, 3));
  EXPECT_EQ(side.match.limit, MatchLimit::kNothingKept);
  const Turn next = h_.Run(first.tokens + Text(10, 4));
  EXPECT_EQ(next.match.source, MatchSource::kLive);
  EXPECT_EQ(next.match.limit, MatchLimit::kExtends);
  EXPECT_EQ(next.id, first.id);
  EXPECT_EQ(next.n_reused, 104);
  EXPECT_EQ(next.n_rows, 1 + 10 + 4);
}

TEST_F(StateCacheTest, LiveEndIsParkedAndResumedWithoutAllocatingOrCopying) {
  const Turn first = h_.Run(Text(100, 1));
  const StateCacheStats before = stats();
  const Ids prompt = first.tokens + Text(3, 2);
  Turn turn;
  Conversation* const c = h_.Begin(prompt, {}, &turn);
  EXPECT_EQ(turn.match.source, MatchSource::kLive);
  ASSERT_TRUE(h_.cache().Park(c));
  EXPECT_EQ(stats().pages.n_allocated, before.pages.n_allocated);
  EXPECT_EQ(stats().running.n_allocated, before.running.n_allocated);
  EXPECT_EQ(h_.Run(prompt).n_reused, 104);
}

TEST_F(StateCacheTest, CheckpointCostsOneRunningStateAndOnePartialPage) {
  const Turn first = h_.Run(Text(100, 1), {.marks = {{91, CheckpointKind::kBeforeReply}}});
  const StateCacheStats before = stats();
  const Turn edited = h_.Run(Text(95, 1) + Text(20, 7), {.n_reply = 0});
  EXPECT_EQ(edited.n_reused, 91);
  EXPECT_EQ(edited.match.source, MatchSource::kCheckpoint);
  EXPECT_NE(edited.id, first.id);
  EXPECT_EQ(stats().pages.n_copied - before.pages.n_copied, 1);
  EXPECT_EQ(stats().running.n_copied - before.running.n_copied, 1);
  // Cells 88 to 114: four pages of eight, of which one is the copy.
  EXPECT_EQ(stats().pages.n_allocated - before.pages.n_allocated, 4);
}

TEST_F(StateCacheTest, DroppedThinkingIsReadFromBeforeTheReply) {
  const Ids prompt = system_ + Text(41, 2);
  const Turn first =
      h_.Run(prompt, {.marks = {kSystem60, {98, CheckpointKind::kBeforeReply}}, .n_reply = 30});
  // With the thinking in place nothing is read again ...
  const Turn kept = h_.Run(first.tokens + Text(5, 3), {.n_reply = 0});
  EXPECT_EQ(kept.n_rows, 1 + 5);
  // ... and without it only the reply's remaining part and what is new.
  const Ids answer(first.tokens.end() - 8, first.tokens.end());
  const Ids next = prompt + answer + Text(5, 3);
  const Turn dropped = h_.Run(next, {.n_reply = 0});
  EXPECT_EQ(dropped.n_reused, 98);
  EXPECT_EQ(dropped.n_rows, static_cast<int64_t>(next.size()) - 98);
  EXPECT_EQ(dropped.match.limit, MatchLimit::kNoCheckpoint);
  EXPECT_EQ(dropped.match.common, 101);
  EXPECT_TRUE(dropped.match.differs);
  EXPECT_EQ(dropped.match.found.id, answer[0]);
  EXPECT_EQ(dropped.match.expected.id, first.tokens[101]);
}

TEST_F(StateCacheTest, EditIsUndoneForFree) {
  const Turn first = h_.Run(system_ + Text(20, 2));
  const Turn second = h_.Run(first.tokens + Text(60, 3));
  const Turn edited = h_.Run(first.tokens + Text(50, 4));
  EXPECT_NE(edited.id, second.id);
  EXPECT_EQ(edited.n_reused, 84);
  EXPECT_TRUE(edited.match.differs);
  // Back to the original: its end is still there, beyond the divergence.
  const Turn undone = h_.Run(second.tokens + Text(5, 5), {.n_reply = 1});
  EXPECT_EQ(undone.id, second.id);
  EXPECT_EQ(undone.n_rows, 1 + 5);
}

TEST_F(StateCacheTest, CompactionKeepsTheSystemPrompt) {
  const Turn session = h_.Run(system_ + Text(400, 2), {.marks = {kSystem60}});
  const Turn compacted = h_.Run(system_ + Text(50, 9), {.n_reply = 0});
  EXPECT_EQ(compacted.n_reused, 60);
  EXPECT_EQ(compacted.match.source, MatchSource::kBorrowed);
  EXPECT_EQ(compacted.match.conversation, session.id);
}

TEST_F(StateCacheTest, TwoAgentsStoreTheirSystemPromptOnce) {
  h_.Run(system_ + Text(20, 2), {.marks = {kSystem60}, .n_reply = 1});
  const StateCacheStats before = stats();
  const Turn other = h_.Run(system_ + Text(20, 3), {.n_reply = 1});
  EXPECT_EQ(other.n_reused, 60);
  // 80 cells are 10 pages; 7 hold the first 56, and the eighth is copied.
  EXPECT_EQ(stats().pages.n_in_use - before.pages.n_in_use, 3);
}

TEST_F(StateCacheTest, IdenticalRetryIsToldWhoIsReading) {
  const Ids prompt = Text(200, 1);
  Turn turn;
  Conversation* const reading = h_.Begin(prompt, {}, &turn);
  ASSERT_TRUE(h_.ReadTo(reading, 50).ok());
  const PrefixMatch retry = h_.cache().Find(prompt);
  EXPECT_EQ(retry.reading_conversation, reading->id());
  EXPECT_EQ(retry.reading_common, 200);
  EXPECT_EQ(retry.position, 50);  // its state of now may be borrowed, too
  EXPECT_EQ(retry.limit, MatchLimit::kNotComputed);
  Turn second;
  Conversation* const attached = h_.Begin(prompt, {}, &second);
  EXPECT_EQ(second.n_reused, 50);
  ASSERT_TRUE(h_.ReadTo(reading, 200).ok());
  ASSERT_TRUE(h_.ReadTo(attached, 200).ok());
  // The second one's pages were found to be the first one's as they filled up.
  EXPECT_GT(stats().n_pages_shared_on_seal, 0);
  EXPECT_EQ(reading->pages()[20], attached->pages()[20]);
  EXPECT_TRUE(h_.cache().Park(reading));
  EXPECT_TRUE(h_.cache().Park(attached));
}

TEST_F(StateCacheTest, DisconnectKeepsWhatWasRead) {
  const Ids prompt = Text(200, 1);
  const Turn cut = h_.Run(prompt, {.chunk = 7, .stop_reading_at = 123});
  EXPECT_TRUE(cut.kept);
  const Turn retry = h_.Run(prompt, {.n_reply = 1});
  EXPECT_EQ(retry.id, cut.id);
  EXPECT_EQ(retry.n_rows, 200 - 123);
}

TEST_F(StateCacheTest, ReplyCutShortGoesOnAtItsLastToken) {
  const Ids prompt = Text(50, 1);
  const Turn cut = h_.Run(prompt, {.n_reply = 9});
  // The client sends back what it saw: all of it, or without the token that was never computed.
  const Turn with = h_.Run(cut.tokens + Text(3, 2), {.n_reply = 1});
  EXPECT_EQ(with.n_rows, 1 + 3);
  const Ids shorter(cut.tokens.begin(), cut.tokens.end() - 1);
  const Turn without = h_.Run(shorter + Text(3, 4), {.n_reply = 1});
  EXPECT_EQ(without.n_reused, 58);
  EXPECT_EQ(without.n_rows, 3);
}

TEST_F(StateCacheTest, DonorNeverChanges) {
  const Ids prompt = system_ + Text(45, 2);
  const std::vector<CheckpointMark> marks = {kSystem60, {103, CheckpointKind::kBeforeReply}};
  const Turn a = h_.Run(prompt, {.marks = marks});
  const Conversation& donor = *h_.cache().FindById(a.id);
  const auto before = h_.Bytes(donor);
  for (int borrower = 0; borrower < 4; ++borrower) {
    const Turn b = h_.Run(system_ + Text(30 + borrower, 10 + borrower), {.n_reply = 20});
    EXPECT_EQ(b.n_reused, 60);
    const Turn from_end = h_.Run(prompt + Text(10 + borrower, 20 + borrower));
    EXPECT_EQ(from_end.n_reused, 103);
  }
  EXPECT_EQ(h_.Bytes(donor), before);
  CacheHarness alone;
  const Turn a_alone = alone.Run(prompt, {.marks = marks});
  const Ids next = a.tokens + Text(15, 9);
  EXPECT_EQ(h_.Run(next).tokens, alone.Run(next).tokens);
  EXPECT_EQ(h_.Bytes(*h_.cache().FindById(a.id)), alone.Bytes(*alone.cache().FindById(a_alone.id)));
}

TEST_F(StateCacheTest, WholePromptIsKnownButItsLastTokenIsRead) {
  h_.Run(Text(65, 1), {.marks = {{64, CheckpointKind::kMark}}});
  const Turn again = h_.Run(Text(65, 1), {.n_reply = 1});
  EXPECT_EQ(again.match.limit, MatchLimit::kWholePrompt);
  EXPECT_EQ(again.n_rows, 1);
}

TEST_F(StateCacheTest, RejectedDraftRowsLeaveNoTrace) {
  const Turn plain = h_.Run(Text(37, 1), {.n_reply = 40});
  CacheHarness other;
  const Turn drafted = other.Run(Text(37, 1), {.n_reply = 40, .n_rejected = 3});
  EXPECT_EQ(drafted.tokens, plain.tokens);
  const Turn next = other.Run(drafted.tokens + Text(9, 2), {.n_rejected = 5});
  EXPECT_EQ(next.n_reused, 76);
}

TEST_F(StateCacheTest, ForksOfOneLiveEndBothGoOn) {
  const Turn base = h_.Run(Text(50, 1));
  const auto fork = h_.cache().Fork(base.id, "fork");
  ASSERT_TRUE(fork.ok());
  const StateCacheStats before = stats();
  // The first goes on from the fork and makes the parked base superfluous; the others start at the
  // checkpoint that it has there. Each copies the partial page, which base alone may append to.
  const Turn one = h_.Run(base.tokens + Text(30, 2));
  const Turn two = h_.Run(base.tokens + Text(31, 3));
  const Turn three = h_.Run(base.tokens + Text(32, 4));
  EXPECT_EQ(one.n_reused, 54);
  EXPECT_EQ(two.n_reused, 54);
  EXPECT_EQ(three.n_reused, 54);
  EXPECT_EQ(stats().pages.n_copied - before.pages.n_copied, 3);
  EXPECT_EQ(stats().n_superseded, 1);
  for (const Turn& t : {one, two, three}) {
    EXPECT_EQ(h_.Run(t.tokens + Text(2, 5)).n_reused, static_cast<int64_t>(t.tokens.size()) - 1);
  }
}

TEST_F(StateCacheTest, TruncatedConversationDoesNotOverwriteItsFork) {
  const Turn base = h_.Run(Text(50, 1), {.marks = {{49, CheckpointKind::kBeforeReply}}});
  ASSERT_TRUE(h_.cache().Fork(base.id, "fork").ok());
  Turn turn;
  Conversation* const c = h_.Begin(base.tokens + Text(2, 2), {}, &turn);
  ASSERT_TRUE(h_.ReadTo(c, 56).ok());  // now the tip's owner
  EXPECT_EQ(h_.cache().Truncate(c, 50).code(), StatusCode::kNotFound);
  ASSERT_TRUE(h_.cache().Truncate(c, 49).ok());
  for (TokenId id : Text(20, 9)) h_.cache().Append(c, {id});
  ASSERT_TRUE(h_.ReadTo(c, 69).ok());
  ASSERT_TRUE(h_.cache().Park(c));
  const Turn fork = h_.Run(base.tokens + Text(3, 3));
  EXPECT_EQ(fork.n_reused, 54);
}

TEST_F(StateCacheTest, FailedStepKeepsTheConversationAsOfItsLastCheckpoint) {
  const Turn first = h_.Run(Text(50, 1));
  Turn turn;
  Conversation* const c = h_.Begin(first.tokens + Text(20, 2), {}, &turn);
  ASSERT_TRUE(h_.cache().PrepareWrite(c, 60).ok());
  h_.model().Step(c, 60);  // and then the step reports an error
  ASSERT_TRUE(h_.cache().ParkAtCheckpoint(c));
  EXPECT_EQ(h_.Run(first.tokens + Text(20, 3)).n_reused, 54);
  Conversation* const fresh = h_.Begin(Text(20, 5), {}, &turn);
  ASSERT_TRUE(h_.cache().PrepareWrite(fresh, 20).ok());
  EXPECT_FALSE(h_.cache().ParkAtCheckpoint(fresh));
}

TEST_F(StateCacheTest, SnapshotStaysAsItIsWhileTheConversationGoesOn) {
  const Turn first = h_.Run(Text(50, 1), {.marks = {kSystem60}});
  const auto bytes_of = [&](const ConversationSnapshot& s) {
    std::vector<std::byte> all;
    std::vector<Buffer*> buffers = {s.running.trunk()};
    for (const auto& page : s.pages) buffers.push_back(page.trunk());
    for (const auto& checkpoint : s.checkpoints) buffers.push_back(checkpoint.running.trunk());
    for (Buffer* buffer : buffers) {
      std::vector<std::byte> bytes(buffer->bytes());
      EXPECT_TRUE(h_.backend().Download({buffer, 0}, bytes).ok());
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  };
  {
    const ConversationSnapshot snapshot = h_.cache().Snapshot(*h_.cache().FindById(first.id));
    EXPECT_EQ(snapshot.tokens.size(), 54);
    EXPECT_EQ(snapshot.next_token->id, first.tokens.back());
    EXPECT_EQ(snapshot.pages.size(), 7u);
    const auto before = bytes_of(snapshot);
    h_.Run(first.tokens + Text(30, 2));
    EXPECT_EQ(bytes_of(snapshot), before);
  }
  // Without readers the partial page is written in place again.
  const int64_t n_copied = stats().pages.n_copied;
  EXPECT_EQ(n_copied, 1);
  h_.Run(Text(21, 6) + Text(1, 7));
  EXPECT_EQ(stats().pages.n_copied, n_copied);
}

TEST_F(StateCacheTest, SnapshotMayOutliveTheCache) {
  std::optional<ConversationSnapshot> snapshot;
  auto h = std::make_unique<CacheHarness>();
  const Turn turn = h->Run(Text(20, 1));
  snapshot = h->cache().Snapshot(*h->cache().FindById(turn.id));
  // Only the backend has to live as long as the buffers; here it is the CPU's, which keeps nothing.
  h.reset();
  snapshot.reset();
}

TEST_F(StateCacheTest, DraftPartsAreWholeOrAbsent) {
  const Turn with = h_.Run(Text(60, 1), {.n_reply = 9, .with_draft = true});
  EXPECT_TRUE(h_.cache().FindById(with.id)->has_draft());
  const Turn next = h_.Run(with.tokens + Text(9, 2), {.n_rejected = 2});
  EXPECT_EQ(h_.cache().FindById(next.id)->draft_page_buffers().size(),
            h_.cache().FindById(next.id)->pages().size());
  // One without resumes without, and one that gives it up goes on from shared pages.
  const Turn without = h_.Run(Text(60, 3));
  EXPECT_FALSE(h_.cache().FindById(without.id)->has_draft());
  Turn turn;
  Conversation* const c = h_.Begin(Text(59, 1) + Text(9, 5), {}, &turn);
  EXPECT_GT(turn.n_reused, 0);
  h_.cache().DropDraft(c);
  ASSERT_TRUE(h_.ReadTo(c, 68).ok());
  ASSERT_TRUE(h_.cache().Park(c));
  EXPECT_EQ(h_.Run(with.tokens + Text(4, 6)).n_reused, 68);
}

TEST_F(StateCacheTest, ContentHashesTellImagesApart) {
  const Ids ids = Text(40, 1);
  const std::vector<ContentHash> cat = {{20, 5}}, dog = {{20, 6}};
  auto c = h_.cache().Begin(h_.cache().Find({ids, cat}), TokenView(ids, cat));
  ASSERT_TRUE(h_.ReadTo(*c, 40).ok());
  h_.cache().Park(*c);
  const PrefixMatch match = h_.cache().Find({ids, dog});
  EXPECT_EQ(match.common, 20);
  EXPECT_EQ(match.expected, (TokenKey{ids[20], 5}));
  EXPECT_EQ(match.found, (TokenKey{ids[20], 6}));
}

TEST_F(StateCacheTest, StaleMatchIsRefused) {
  const Turn first = h_.Run(Text(50, 1));
  const Ids prompt = first.tokens + Text(5, 2);
  const PrefixMatch match = h_.cache().Find(prompt);
  h_.Run(prompt);
  EXPECT_EQ(h_.cache().Begin(match, prompt).status().code(), StatusCode::kFailedPrecondition);
  const PrefixMatch again = h_.cache().Find(prompt);
  h_.cache().Discard(h_.cache().FindById(first.id));
  EXPECT_EQ(h_.cache().Begin(again, prompt).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(h_.cache().Begin({}, Ids{}).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(StateCacheTest, TheLatestToAskForANameHasIt) {
  std::vector<std::pair<std::string, std::string>> renamed;
  h_.cache().set_rename_hook(
      [&](const auto& from, const auto& to) { renamed.emplace_back(from, to); });
  const Turn first = h_.Run(Text(20, 1), {.id = "mine"});
  EXPECT_EQ(first.id, "mine");
  const Turn more = h_.Run(first.tokens + Text(5, 3), {.id = "mine"});
  EXPECT_EQ(more.id, "mine");
  EXPECT_EQ(h_.cache().List().size(), 1u);
  const size_t n = renamed.size();
  const Turn second = h_.Run(Text(20, 2), {.id = "mine"});
  EXPECT_EQ(second.id, "mine");
  // The one before is found by its tokens, under an id of its own.
  ASSERT_EQ(renamed.size(), n + 2);
  EXPECT_EQ(renamed[n].first, "mine");
  const Turn third = h_.Run(more.tokens + Text(5, 4));
  EXPECT_EQ(third.id, renamed[n].second);
  EXPECT_EQ(third.match.source, MatchSource::kLive);
  // Another's conversation stays his; what goes on from it is a new one.
  EXPECT_EQ(h_.Run(second.tokens + Text(5, 5), {.id = "yours"}).id, "yours");
  EXPECT_EQ(h_.cache().FindById("mine")->tokens().size(),
            static_cast<int64_t>(second.tokens.size()) - 1);
  // Among equals the named one.
  ASSERT_TRUE(h_.cache().Fork("mine", "copy").ok());
  for (const char* name : {"copy", "mine", "copy"}) {
    EXPECT_EQ(h_.cache().Find(second.tokens + Text(5, 6), name).conversation, name);
  }
}

TEST_F(StateCacheTest, ForksNeedAnOriginAndAFreeName) {
  h_.Run(Text(20, 1), {.id = "mine"});
  EXPECT_EQ(h_.cache().Fork("mine", "mine").status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(h_.cache().Fork("nobody", "x").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(h_.cache().SetPinned("nobody", true).code(), StatusCode::kNotFound);
  EXPECT_EQ((*h_.cache().Fork("mine", "copy"))->forked_from(), "mine");
}

TEST_F(StateCacheTest, AForkGetsNoIdThatTheStoreWouldRefuse) {
  const Turn turn = h_.Run(Text(20, 1));
  for (const char* id : {"../up", ".hidden", "two words", "line\nbreak"}) {
    EXPECT_EQ(h_.cache().Fork(turn.id, id).status().code(), StatusCode::kInvalidArgument) << id;
  }
  EXPECT_EQ(h_.cache().Fork(turn.id, std::string(129, 'x')).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(h_.cache().Fork(turn.id, std::string(128, 'x')).ok());
}

#ifndef NDEBUG
TEST_F(StateCacheTest, WritingToASealedPageFaults) {
  const Turn first = h_.Run(Text(50, 1));
  Buffer* const page = h_.cache().FindById(first.id)->page_buffers()[0];
  const std::byte one{1};
  EXPECT_DEATH((void)h_.backend().Upload({page, 0}, std::span(&one, 1)), "");
}
#endif

}  // namespace
}  // namespace holdfast

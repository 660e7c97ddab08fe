#include "store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/sqlite.h"
#include "store/store_testing.h"

namespace holdfast {
namespace {

using namespace holdfast::testing;  // NOLINT: the helpers of this folder's tests
using ::testing::HasSubstr;
using ::testing::SizeIs;

class StoreTest : public ::testing::Test {
 protected:
  void Open(const std::optional<StoreKeys>& keys = TestKeys()) {
    store_.reset();
    keys_ = keys.value_or(TestKeys());
    auto store = Store::Open(options_, keys);
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    store_ = std::move(*store);
  }

  void SetUp() override { Open(); }

  SaveReceipt Save(const SaveRequest& request) {
    const auto receipt = store_->Save(request);
    EXPECT_TRUE(receipt.ok()) << receipt.status().ToString();
    return receipt.ok() ? *receipt : SaveReceipt{};
  }

  std::vector<std::string> SegmentNames() {
    auto names = fs_.List("/store/segments");
    EXPECT_TRUE(names.ok());
    return *names;
  }

  // Flips one bit of every byte of every segment: nothing in them verifies any more.
  void DamageSegments() {
    for (const std::string& name : SegmentNames()) {
      auto bytes = *fs_.Contents("/store/segments/" + name);
      for (std::byte& byte : bytes) byte ^= std::byte{1};
      fs_.SetContents("/store/segments/" + name, bytes);
    }
  }

  FaultyFileSystem fs_;
  StoreOptions options_ = TestOptions(&fs_);
  StoreKeys keys_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreTest, WhatWasSavedIsFoundAndLoadedAfterAReopen) {
  const auto tokens = Tokens(11);
  const SaveReceipt receipt = Save(Request("a", tokens, 10, {4, 10}));
  EXPECT_EQ(receipt.durable_tokens, 10);
  EXPECT_EQ(receipt.n_pages_written, 3);
  Open();
  const auto found = store_->Find(tokens);
  ASSERT_TRUE(found.ok());
  ASSERT_TRUE(found->prefix);
  EXPECT_EQ(found->prefix->position, 10);
  EXPECT_EQ(found->prefix->conversation, "a");
  EXPECT_EQ(found->prefix->kind, StateKind::kLiveEnd);
  EXPECT_EQ(found->prefix->proof, ProofAt(tokens, 10));
  EXPECT_TRUE(found->prefix->has_draft);
  ExpectLoads(store_.get(), keys_, *found->prefix, tokens);
}

TEST_F(StoreTest, FindGoesAtMostToTheTokenBeforeTheLast) {
  const auto tokens = Tokens(12);
  Save(Request("a", tokens, 12, {4, 8, 12}));
  // With all 12 tokens stored the row of the last one must still be computed.
  EXPECT_EQ(StoredPosition(store_.get(), keys_, tokens), 8);
  EXPECT_EQ(StoredPosition(store_.get(), keys_, Tokens(13)), 12);
}

TEST_F(StoreTest, FindExplainsWhereThePromptDiverges) {
  const auto tokens = Tokens(12);
  Save(Request("a", tokens, 12, {4, 12}));
  auto edited = tokens;
  edited[9] = 999;
  const auto found = store_->Find(edited);
  ASSERT_TRUE(found.ok() && found->prefix);
  EXPECT_EQ(found->prefix->position, 4);
  EXPECT_EQ(found->matched_tokens, 9);
  EXPECT_EQ(found->found, 999);
  EXPECT_EQ(found->expected, tokens[9]);
  EXPECT_THAT(found->reason, HasSubstr("running state before it is at 4"));
}

TEST_F(StoreTest, FindInAnEmptyStoreSaysSo) {
  const auto found = store_->Find(Tokens(5));
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->prefix);
  EXPECT_EQ(found->matched_tokens, 0);
  EXPECT_THAT(found->reason, HasSubstr("nothing stored"));
}

TEST_F(StoreTest, ATurnWritesOnlyItsNewPagesAndState) {
  const auto tokens = Tokens(30);
  Save(Request("a", tokens, 10, {10}));
  const SaveReceipt receipt = Save(Request("a", tokens, 22, {22}));
  EXPECT_EQ(receipt.n_pages_shared, 2);
  EXPECT_EQ(receipt.n_pages_written, 4);  // the partial third one anew, and three more
  EXPECT_EQ(receipt.durable_tokens, 22);
  EXPECT_EQ(StoredPosition(store_.get(), keys_, tokens), 22);
  // The state at 10 lies in the new, longer page now: still there, and undo finds it.
  auto undone = tokens;
  undone[10] = 999;
  EXPECT_EQ(StoredPosition(store_.get(), keys_, undone), 10);
}

TEST_F(StoreTest, ACommonBeginningIsStoredOnce) {
  auto a = Tokens(20), b = Tokens(20);
  for (size_t i = 12; i < 20; ++i) b[i] = 500 + static_cast<int>(i);
  Save(Request("a", a, 20, {12, 20}));
  const SaveReceipt receipt = Save(Request("b", b, 20, {12, 20}));
  EXPECT_EQ(receipt.n_pages_shared, 3);
  EXPECT_EQ(receipt.n_pages_written, 2);
  const auto usage = store_->Du();
  ASSERT_TRUE(usage.ok());
  EXPECT_EQ(usage->n_pages, 7);
  EXPECT_EQ(usage->n_states, 3);
  const uint64_t page = 2 * kPageTokens * kCellBytes, state = 2 * kRunningBytes;  // with draft
  EXPECT_EQ(usage->live_bytes, 7 * page + 3 * state);
  EXPECT_EQ(usage->conversation_bytes, 10 * page + 4 * state);
}

TEST_F(StoreTest, SavingTheSameAgainWritesNothing) {
  const auto tokens = Tokens(10);
  Save(Request("a", tokens, 10, {10}));
  const SaveReceipt receipt = Save(Request("a", tokens, 10, {10}));
  EXPECT_EQ(receipt.bytes_written, 0u);
  EXPECT_EQ(receipt.segment, "");
  EXPECT_EQ(receipt.durable_tokens, 10);
}

TEST_F(StoreTest, AStateGetsItsProofOnceTheNextTokenIsKnown) {
  auto tokens = Tokens(9);
  tokens.resize(8);
  Save(Request("a", tokens, 8, {8}));
  tokens = Tokens(9);
  EXPECT_FALSE(store_->Find(tokens)->prefix->proof);
  const SaveReceipt receipt = Save(Request("a", tokens, 8, {8}));
  EXPECT_EQ(receipt.bytes_written, 0u);
  EXPECT_EQ(store_->Find(tokens)->prefix->proof, ProofAt(tokens, 8));
}

TEST_F(StoreTest, DroppedStatesAreGoneAndTheirPagesStay) {
  const auto tokens = Tokens(13);
  Save(Request("a", tokens, 8, {4, 8}));
  SaveRequest request = Request("a", tokens, 12, {12});
  request.drop_states = {8};
  Save(request);
  const auto detail = store_->Show("a");
  ASSERT_TRUE(detail.ok());
  ASSERT_THAT(detail->states, SizeIs(2));
  EXPECT_EQ(detail->states[0].position, 4);
  EXPECT_EQ(detail->states[1].position, 12);
  EXPECT_EQ(StoredPosition(store_.get(), keys_, tokens), 12);
}

TEST_F(StoreTest, TheFormerLiveEndBecomesTheEndOfATurn) {
  const auto tokens = Tokens(13);
  Save(Request("a", tokens, 8, {8}));
  Save(Request("a", tokens, 12, {12}));
  const auto detail = store_->Show("a");
  ASSERT_TRUE(detail.ok());
  ASSERT_THAT(detail->states, SizeIs(2));
  EXPECT_EQ(detail->states[0].kind, StateKind::kTurnEnd);
  EXPECT_EQ(detail->states[1].kind, StateKind::kLiveEnd);
}

TEST_F(StoreTest, TokensWithOtherContentAreOtherTokens) {
  const auto tokens = Tokens(9);
  std::vector<uint64_t> image(9, 0), other(9, 0);
  image[2] = 7;
  other[2] = 8;
  SaveRequest request = Request("a", tokens, 8, {8});
  request.content_hashes = image;
  Save(request);
  EXPECT_TRUE(store_->Find(tokens, image)->prefix);
  EXPECT_FALSE(store_->Find(tokens, other)->prefix);
  EXPECT_FALSE(store_->Find(tokens)->prefix);
  EXPECT_EQ(store_->Find(tokens, other)->matched_tokens, 2);
  EXPECT_EQ(store_->Show("a")->content_hashes, image);
}

TEST_F(StoreTest, TokensPastTheLiveEndAreKept) {
  const auto tokens = Tokens(15);
  Save(Request("a", tokens, 6, {6}));
  Open();
  const auto detail = store_->Show("a");
  ASSERT_TRUE(detail.ok());
  EXPECT_EQ(detail->tokens, tokens);
  EXPECT_EQ(detail->info.n_tokens, 15);
  EXPECT_EQ(detail->info.durable_tokens, 6);
}

TEST_F(StoreTest, MessagesAreFoundByHashAndToolCallAfterAReopen) {
  const auto tokens = Tokens(12);
  SaveRequest request = Request("a", tokens, 12, {12});
  request.messages = std::vector<StoredMessage>{
      {"user", R"("hello")", {}, NamedHash("m0"), 0, 5},
      {"assistant", R"([{"type":"tool"}])", {"call_1", "call_2"}, NamedHash("m1"), 5, 12}};
  request.title = "greeting";
  request.tags = {"work", "über"};
  Save(request);
  Open();
  const auto by_hash = store_->FindMessages(NamedHash("m1"));
  ASSERT_TRUE(by_hash.ok());
  ASSERT_THAT(*by_hash, SizeIs(1));
  EXPECT_EQ((*by_hash)[0].message.content, R"([{"type":"tool"}])");
  EXPECT_EQ((*by_hash)[0].conversation, "a");
  EXPECT_EQ((*by_hash)[0].message.token_begin, 5);
  EXPECT_EQ((*by_hash)[0].message.tool_call_ids, (std::vector<std::string>{"call_1", "call_2"}));
  EXPECT_EQ(store_->Tokens("a")->ids, tokens);
  EXPECT_EQ(store_->Tokens("a")->n_live, 12);
  EXPECT_EQ(store_->Tokens("b").status().code(), StatusCode::kNotFound);
  const auto by_call = store_->FindToolCall("call_2");
  ASSERT_TRUE(by_call.ok());
  ASSERT_THAT(*by_call, SizeIs(1));
  EXPECT_EQ((*by_call)[0].message.role, "assistant");
  EXPECT_THAT(*store_->FindToolCall("call_3"), SizeIs(0));
  const auto detail = store_->Show("a");
  EXPECT_EQ(detail->info.title, "greeting");
  EXPECT_EQ(detail->info.tags, (std::vector<std::string>{"work", "über"}));
  ASSERT_THAT(detail->messages, SizeIs(2));
  EXPECT_EQ(detail->messages[1].tool_call_ids, (std::vector<std::string>{"call_1", "call_2"}));
}

TEST_F(StoreTest, ASaveReplacesTheMessagesOrLeavesThem) {
  const auto tokens = Tokens(12);
  SaveRequest request = Request("a", tokens, 12, {12});
  request.messages =
      std::vector<StoredMessage>{{"user", "1", {}, NamedHash("0"), 0, 4},
                                 {"assistant", "2", {"call_1"}, NamedHash("1"), 4, 12}};
  request.title_if_none = "first";
  Save(request);
  // Equal up to the ids of a call.
  (*request.messages)[1].tool_call_ids = {"call_2"};
  request.title_if_none = "second";
  Save(request);
  EXPECT_THAT(*store_->FindToolCall("call_1"), SizeIs(0));
  EXPECT_THAT(*store_->FindToolCall("call_2"), SizeIs(1));
  EXPECT_EQ(store_->Show("a")->info.title, "first");
  (*request.messages)[1] = {"assistant", "3", {}, NamedHash("2"), 4, 12};
  Save(request);
  EXPECT_EQ(store_->Show("a")->messages[1].content, "3");
  EXPECT_THAT(*store_->FindToolCall("call_2"), SizeIs(0));
  request.messages.reset();
  Save(request);
  EXPECT_THAT(store_->Show("a")->messages, SizeIs(2));
  // A conversation that has become shorter loses what it no longer holds.
  const auto shorter = Tokens(8);
  Save(Request("a", shorter, 8, {8}));
  EXPECT_THAT(store_->Show("a")->messages, SizeIs(1));
  request.messages = std::vector<StoredMessage>();
  Save(request);
  EXPECT_THAT(store_->Show("a")->messages, SizeIs(0));
}

TEST_F(StoreTest, AForkSharesEverythingUpToItsPosition) {
  const auto tokens = Tokens(15);
  SaveRequest request = Request("a", tokens, 14, {4, 10, 14});
  request.messages = std::vector<StoredMessage>{{"user", "1", {}, NamedHash("0"), 0, 8},
                                                {"user", "2", {}, NamedHash("1"), 8, 14}};
  Save(request);
  ASSERT_TRUE(store_->Fork("a", "b", 11).ok());
  const auto detail = store_->Show("b");
  ASSERT_TRUE(detail.ok());
  EXPECT_EQ(detail->info.forked_from, "a");
  EXPECT_EQ(detail->info.fork_position, 11);
  EXPECT_EQ(detail->info.durable_tokens, 10);
  EXPECT_EQ(detail->tokens, Tokens(11));
  EXPECT_THAT(detail->messages, SizeIs(1));
  EXPECT_THAT(detail->states, SizeIs(2));
  EXPECT_EQ(store_->Fork("a", "b").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->Fork("a", "c", 15).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(store_->Fork("x", "c").code(), StatusCode::kNotFound);
  // The donor may go; the fork keeps what it needs.
  ASSERT_TRUE(store_->Remove("a").ok());
  ASSERT_TRUE(store_->Gc().ok());
  const auto prefix = store_->FindIn("b");
  ASSERT_TRUE(prefix.ok());
  EXPECT_EQ(prefix->position, 10);
  ExpectLoads(store_.get(), keys_, *prefix, tokens);
}

TEST_F(StoreTest, FindInGoesToTheDeepestStateOfAConversation) {
  const auto tokens = Tokens(15);
  Save(Request("a", tokens, 14, {4, 10, 14}));
  EXPECT_EQ(store_->FindIn("a")->position, 14);
  EXPECT_EQ(store_->FindIn("a", 13)->position, 10);
  EXPECT_EQ(store_->FindIn("a", 3).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->FindIn("b").status().code(), StatusCode::kNotFound);
}

TEST_F(StoreTest, LoadLeavesOutThePagesTheCallerHas) {
  const auto tokens = Tokens(15);
  Save(Request("a", tokens, 14, {14}));
  Loaded loaded;
  const auto report =
      store_->Load(*store_->Find(tokens)->prefix, {loaded.Sink(keys_), 2, /*draft=*/false});
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->draft_loaded);
  EXPECT_THAT(loaded.parts, SizeIs(3));  // pages 2 and 3, and the running state
  EXPECT_EQ(report->bytes_read, 2 * kPageTokens * kCellBytes + kRunningBytes);
}

TEST_F(StoreTest, RemovedConversationsAreNotFoundAndTheirHandlesAreDead) {
  const auto tokens = Tokens(9);
  Save(Request("a", tokens, 8, {8}));
  const auto prefix = *store_->Find(tokens)->prefix;
  ASSERT_TRUE(store_->Remove("a").ok());
  EXPECT_FALSE(store_->Find(tokens)->prefix);
  Loaded loaded;
  EXPECT_EQ(store_->Load(prefix, {loaded.Sink(keys_)}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->Remove("a").code(), StatusCode::kNotFound);
  const auto report = store_->Gc();
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->segments_deleted, 1);
  EXPECT_THAT(SegmentNames(), SizeIs(0));
}

TEST_F(StoreTest, GcRewritesSparseSegmentsAndKeepsWhatIsNeeded) {
  const auto a = Tokens(5), b = Tokens(40, 1);
  Save(Request("a", a, 4, {4}));
  // One segment with both: b's save shares nothing with a.
  SaveRequest request = Request("b", b, 39, {4, 39});
  Save(request);
  ASSERT_TRUE(store_->Fork("b", "c", 4).ok());
  ASSERT_TRUE(store_->Remove("b").ok());  // of its segment only a page and a state stay
  const auto report = store_->Gc();
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->segments_rewritten, 1);
  EXPECT_GT(report->bytes_freed, 0u);
  Open();
  EXPECT_EQ(StoredPosition(store_.get(), keys_, a), 4);
  EXPECT_EQ(StoredPosition(store_.get(), keys_, b), 4);
  EXPECT_TRUE(store_->Verify()->problems.empty());
}

TEST_F(StoreTest, DamageIsRefusedQuarantinedAndReplacedByTheNextSave) {
  const auto tokens = Tokens(15);
  Save(Request("a", tokens, 14, {8, 14}));
  DamageSegments();
  const auto prefix = *store_->Find(tokens)->prefix;
  Loaded loaded;
  const auto load = store_->Load(prefix, {loaded.Sink(keys_)});
  EXPECT_EQ(load.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(load.status().message(), HasSubstr("checksum"));
  EXPECT_FALSE(store_->Find(tokens)->prefix);
  EXPECT_EQ(store_->List()->at(0).durable_tokens, 0);
  // The damaged file stays for a person.
  ASSERT_TRUE(store_->Verify().ok());
  ASSERT_TRUE(store_->Gc().ok());
  EXPECT_THAT(SegmentNames(), SizeIs(1));
  const SaveReceipt receipt = Save(Request("a", tokens, 14, {8, 14}));
  EXPECT_EQ(receipt.n_pages_written, 4);
  EXPECT_EQ(receipt.durable_tokens, 14);
  EXPECT_EQ(StoredPosition(store_.get(), keys_, tokens), 14);
  ASSERT_TRUE(store_->Gc().ok());
  EXPECT_GT(store_->Du()->quarantine_bytes, 0u);
}

TEST_F(StoreTest, VerifyFindsEveryDamagedPart) {
  const auto tokens = Tokens(9);
  Save(Request("a", tokens, 8, {8}));
  EXPECT_EQ(store_->Verify()->parts_checked, 6);
  EXPECT_TRUE(store_->Verify()->problems.empty());
  DamageSegments();
  EXPECT_THAT(store_->Verify()->problems, SizeIs(6));
}

TEST_F(StoreTest, AMissingSegmentIsDamage) {
  const auto tokens = Tokens(9);
  Save(Request("a", tokens, 8, {8}));
  ASSERT_TRUE(fs_.Unlink("/store/segments/" + SegmentNames()[0]).ok());
  Loaded loaded;
  const auto load = store_->Load(*store_->Find(tokens)->prefix, {loaded.Sink(keys_)});
  EXPECT_EQ(load.status().code(), StatusCode::kDataLoss);
  EXPECT_FALSE(store_->Find(tokens)->prefix);
  EXPECT_TRUE(store_->Gc().ok());
  EXPECT_THAT(store_->Verify()->problems, SizeIs(6));
}

TEST_F(StoreTest, ADamagedDraftPartIsLeftOutWhole) {
  const auto tokens = Tokens(9);
  Save(Request("a", tokens, 8, {8}, /*draft=*/false));
  // Its own segment: only draft parts are new.
  const auto trunk_segments = SegmentNames();
  Save(Request("a", tokens, 8, {8}, /*draft=*/true));
  ASSERT_TRUE(store_->Find(tokens)->prefix->has_draft);
  for (const std::string& name : SegmentNames()) {
    if (name == trunk_segments[0]) continue;
    auto bytes = *fs_.Contents("/store/segments/" + name);
    for (std::byte& byte : bytes) byte ^= std::byte{1};
    fs_.SetContents("/store/segments/" + name, bytes);
  }
  Loaded loaded;
  const auto report = store_->Load(*store_->Find(tokens)->prefix, {loaded.Sink(keys_)});
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->draft_loaded);
  EXPECT_THAT(report->note, HasSubstr("draft part is left out"));
  const auto again = *store_->Find(tokens)->prefix;
  EXPECT_FALSE(again.has_draft);
  ExpectLoads(store_.get(), keys_, again, tokens);
}

TEST_F(StoreTest, AnEngineWithoutADraftLayerUsesTheTrunkPart) {
  const auto tokens = Tokens(9);
  Save(Request("a", tokens, 8, {8}));
  Open(TestKeys(/*with_draft=*/false));
  auto prefix = *store_->Find(tokens)->prefix;
  EXPECT_FALSE(prefix.has_draft);
  ExpectLoads(store_.get(), keys_, prefix, tokens);
  // And the other way round.
  Save(Request("b", Tokens(9, 1), 8, {8}, /*draft=*/false));
  Open();
  Loaded loaded;
  const auto report = store_->Load(*store_->Find(Tokens(9, 1))->prefix, {loaded.Sink(keys_)});
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->draft_loaded);
  EXPECT_THAT(report->note, HasSubstr("without it"));
}

TEST_F(StoreTest, AStateThatFailedItsProofIsOutOfUseUntilSavedAgain) {
  const auto tokens = Tokens(15);
  Save(Request("a", tokens, 14, {8, 14}));
  ASSERT_TRUE(store_->Quarantine(*store_->Find(tokens)->prefix, "row differs").ok());
  EXPECT_FALSE(store_->Find(tokens)->prefix);
  Save(Request("a", tokens, 14, {8, 14}));
  EXPECT_EQ(StoredPosition(store_.get(), keys_, tokens), 14);
}

TEST_F(StoreTest, AnotherModelLayoutOrNumericsFindsNothing) {
  const auto tokens = Tokens(9);
  Save(Request("a", tokens, 8, {8}));
  std::vector<StoreKeys> others(3, TestKeys());
  others[0].model.provisional = NamedHash("another");
  others[1].trunk_layout_key = 0x3333;
  others[2].numerics_key = "2 auto";
  for (const StoreKeys& keys : others) {
    Open(keys);
    EXPECT_FALSE(store_->Find(tokens)->prefix);
    const auto prefix = store_->FindIn("a");
    EXPECT_EQ(prefix.status().code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(prefix.status().message(), HasSubstr("read again"));
    EXPECT_FALSE(store_->List()->at(0).usable);
  }
  Open();
  EXPECT_EQ(StoredPosition(store_.get(), keys_, tokens), 8);
}

TEST_F(StoreTest, TheFullIdentityIsAddedWhenItAgreesAndQuarantinesWhenNot) {
  const auto tokens = Tokens(9);
  Save(Request("a", tokens, 8, {8}));
  EXPECT_EQ(*store_->SetFullIdentity(NamedHash("full")), 0);
  EXPECT_EQ(StoredPosition(store_.get(), keys_, tokens), 8);
  Open();  // provisional only: found
  EXPECT_EQ(StoredPosition(store_.get(), keys_, tokens), 8);
  EXPECT_EQ(*store_->SetFullIdentity(NamedHash("another full")), 1);
  EXPECT_FALSE(store_->Find(tokens)->prefix);
  EXPECT_THAT(store_->List()->at(0).quarantined, HasSubstr("full model identity"));
  EXPECT_THAT(store_->Export("a", "/a.session").message(), HasSubstr("quarantined"));
  // The new model's own sessions are kept apart from then on.
  Save(Request("b", tokens, 8, {8}));
  EXPECT_EQ(StoredPosition(store_.get(), keys_, tokens), 8);
}

TEST_F(StoreTest, TheBudgetThinsOldConversationsThenRemovesThemButNotPinnedOnes) {
  options_.disk_budget_bytes = 400 * 1024;
  Open();
  const auto pinned = Tokens(9, 90);
  Save(Request("pinned", pinned, 8, {8}));
  ASSERT_TRUE(store_->Pin("pinned", true).ok());
  for (int i = 0; i < 12; ++i) {
    const auto tokens = Tokens(40, i);
    Save(Request("c" + std::to_string(i), tokens, 39, {8, 16, 24, 39}));
    EXPECT_EQ(StoredPosition(store_.get(), keys_, tokens), 39) << i;
  }
  const auto usage = store_->Du();
  EXPECT_LE(usage->segment_bytes, options_.disk_budget_bytes);
  EXPECT_LT(usage->n_conversations, 13);
  EXPECT_EQ(StoredPosition(store_.get(), keys_, pinned), 8);
}

TEST_F(StoreTest, ASaveThatCannotFitTheBudgetSaysTheNumbers) {
  options_.disk_budget_bytes = 1000;
  Open();
  const auto tokens = Tokens(41);
  const auto receipt = store_->Save(Request("a", tokens, 40, {40}));
  EXPECT_EQ(receipt.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(receipt.status().message(), HasSubstr("the budget is 1000"));
}

TEST_F(StoreTest, AFullDiskIsRefusedBeforeAnythingIsWritten) {
  const auto tokens = Tokens(9);
  fs_.SetFreeBytes(1000);
  const auto receipt = store_->Save(Request("a", tokens, 8, {8}));
  EXPECT_EQ(receipt.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(receipt.status().message(), HasSubstr("1000 bytes free"));
  EXPECT_THAT(SegmentNames(), SizeIs(0));
  fs_.SetFreeBytes(uint64_t{1} << 30);
  Save(Request("a", tokens, 8, {8}));
}

TEST_F(StoreTest, AVanishedDirectoryIsNoticed) {
  const auto tokens = Tokens(9);
  Save(Request("a", tokens, 8, {8}));
  fs_.RemoveTree("/store");
  const auto receipt = store_->Save(Request("b", Tokens(9, 1), 8, {8}));
  EXPECT_EQ(receipt.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(receipt.status().message(), HasSubstr("vanished"));
  EXPECT_EQ(store_->Pin("a", true).code(), StatusCode::kUnavailable);
  EXPECT_EQ(store_->Gc().status().code(), StatusCode::kUnavailable);
}

TEST_F(StoreTest, OneOwnerAtATime) {
  const auto second = Store::Open(options_, TestKeys());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(second.status().message(), HasSubstr("one process at a time"));
}

TEST_F(StoreTest, WithoutKeysAStoreCanBeTendedNotUsed) {
  const auto tokens = Tokens(9);
  Save(Request("a", tokens, 8, {8}));
  Open(std::nullopt);
  EXPECT_THAT(*store_->List(), SizeIs(1));
  EXPECT_EQ(store_->Show("a")->info.durable_tokens, 8);
  EXPECT_TRUE(store_->Pin("a", true).ok());
  EXPECT_TRUE(store_->Verify()->problems.empty());
  EXPECT_EQ(store_->Find(tokens).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->Save(Request("a", tokens, 8, {8})).status().code(),
            StatusCode::kFailedPrecondition);
  ASSERT_TRUE(store_->UseKeys(TestKeys()).ok());
  EXPECT_EQ(StoredPosition(store_.get(), keys_, tokens), 8);
  EXPECT_EQ(store_->UseKeys(TestKeys()).code(), StatusCode::kFailedPrecondition);
}

TEST_F(StoreTest, ADamagedCatalogueIsPutAsideWithItsSegments) {
  Save(Request("a", Tokens(9), 8, {8}));
  store_.reset();
  auto bytes = *fs_.Contents("/store/catalogue.sqlite");
  std::fill(bytes.begin(), bytes.begin() + 100, std::byte{0x5a});
  fs_.SetContents("/store/catalogue.sqlite", bytes);
  Open();
  ASSERT_THAT(store_->notices(), SizeIs(1));
  EXPECT_THAT(store_->notices()[0], HasSubstr("catalogue is damaged"));
  EXPECT_THAT(*store_->List(), SizeIs(0));
  const auto aside = *fs_.List("/store/quarantine");
  ASSERT_THAT(aside, SizeIs(1));
  EXPECT_THAT(*fs_.List("/store/quarantine/" + aside[0] + "/segments"), SizeIs(1));
  Save(Request("a", Tokens(9), 8, {8}));
}

TEST_F(StoreTest, ANewerCatalogueIsRefusedAndLeftAlone) {
  store_.reset();
  {
    auto db = Database::Open(&fs_, "/store/catalogue.sqlite");
    ASSERT_TRUE(db.ok());
    ASSERT_TRUE((*db)->Execute("PRAGMA user_version = 2").ok());
  }
  const auto store = Store::Open(options_, TestKeys());
  EXPECT_EQ(store.status().code(), StatusCode::kUnimplemented);
  EXPECT_THAT(store.status().message(), HasSubstr("version 2"));
}

TEST_F(StoreTest, LeftoversOfThisStoreGoAndForeignFilesAreKept) {
  Save(Request("a", Tokens(9), 8, {8}));
  store_.reset();
  fs_.SetContents("/store/segments/0123.tmp", std::vector<std::byte>(10));
  fs_.SetContents("/store/segments/4567.seg", std::vector<std::byte>(10));
  const std::string own = SegmentNames()[2].ends_with("seg") ? SegmentNames()[2] : "";
  Open();
  EXPECT_THAT(SegmentNames(), SizeIs(1));
  EXPECT_THAT(*fs_.List("/store/quarantine"), ::testing::ElementsAre("4567.seg"));
  EXPECT_THAT(store_->notices(), SizeIs(2));
}

TEST_F(StoreTest, ImpossibleRequestsAreRefused) {
  const auto tokens = Tokens(9);
  const auto code = [&](auto change) {
    SaveRequest request = Request("a", tokens, 8, {8});
    change(&request);
    return store_->Save(request).status().code();
  };
  EXPECT_EQ(code([](SaveRequest* r) { r->conversation = ""; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](SaveRequest* r) { r->conversation = "../a"; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](SaveRequest* r) { r->n_live = 0; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](SaveRequest* r) { r->n_live = 10; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](SaveRequest* r) { r->states[0].position = 9; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](SaveRequest* r) { r->drop_states = {0}; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](SaveRequest* r) { r->source = nullptr; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](SaveRequest* r) {
              r->messages = {{"user", "", {}, {}, 3, 2}};
            }),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](SaveRequest* r) {
              r->source = [](const PartRef&, const auto& use) {
                return use(std::vector<std::byte>(3));
              };
            }),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](SaveRequest* r) {
              r->source = [](const PartRef&, const auto&) { return OkStatus(); };
            }),
            StatusCode::kInvalidArgument);
  const std::vector<int32_t> bad = {1, 2, 1000};
  EXPECT_EQ(store_->Save(Request("a", bad, 3, {3})).status().code(), StatusCode::kInvalidArgument);
  const auto long_tokens = Tokens(201);
  EXPECT_EQ(store_->Save(Request("a", long_tokens, 8, {8})).status().code(),
            StatusCode::kOutOfRange);
  EXPECT_THAT(SegmentNames(), SizeIs(0));
  EXPECT_THAT(*store_->List(), SizeIs(0));
}

TEST_F(StoreTest, TheWriteLimitSaysHowLongToWait) {
  int64_t now = 1'000'000;
  options_.now_ms = [&now] { return now; };
  options_.write_limit_bytes_per_hour = 100'000;
  Open();
  const auto tokens = Tokens(9);
  const uint64_t written = Save(Request("a", tokens, 8, {8})).bytes_written;
  EXPECT_EQ(store_->SecondsUntilAllowed(100'000 - written), 0.0);
  now += 600'000;
  EXPECT_EQ(store_->SecondsUntilAllowed(100'000 - written + 1), 3000.0);
  now += 3'000'000;
  EXPECT_EQ(store_->SecondsUntilAllowed(100'000), 0.0);
}

TEST_F(StoreTest, CachedValuesSurviveAReopen) {
  EXPECT_FALSE(store_->CacheGet("key")->has_value());
  ASSERT_TRUE(store_->CachePut("key", "one").ok());
  ASSERT_TRUE(store_->CachePut("key", "two").ok());
  Open();
  EXPECT_EQ(*store_->CacheGet("key"), "two");
}

TEST(StoreNamesTest, DefaultDirectoryFollowsXdg) {
  EXPECT_EQ(DefaultStoreDir("/x", "/home/u"), "/x/holdfast/store");
  EXPECT_EQ(DefaultStoreDir("", "/home/u"), "/home/u/.local/state/holdfast/store");
  EXPECT_EQ(DefaultStoreDir("relative", "/home/u"), "/home/u/.local/state/holdfast/store");
  EXPECT_EQ(DefaultStoreDir("", ""), "");
}

TEST(StoreNamesTest, PlainFileNamesOnly) {
  for (const char* good : {"a", "my-session_1.hf", "A.b.c"}) {
    EXPECT_TRUE(CheckPlainFileName(good).ok()) << good;
  }
  for (const std::string& bad :
       {std::string(), std::string("."), std::string(".."), std::string(".hidden"),
        std::string("a/b"), std::string("../a"), std::string("/etc/passwd"), std::string("a\\b"),
        std::string("a\0b", 3), std::string("a b"), std::string(256, 'a'), std::string("ü")}) {
    EXPECT_FALSE(CheckPlainFileName(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace holdfast

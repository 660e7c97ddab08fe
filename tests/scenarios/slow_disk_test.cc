// However slow the disk is, nobody waits for it but the conversation that is read or committed.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "base/temp_folder.h"
#include "tests/support/engine_client.h"
#include "tests/support/gated_file_system.h"
#include "tests/support/random_tokens.h"
#include "tests/support/slow_build.h"

namespace holdfast {
namespace {

constexpr int64_t kPrompt = kSlowBuild ? 120 : 600;

// A reply that goes on until it is told to stop.
class Stream {
 public:
  Stream(Engine* engine, std::vector<TokenId> prompt) : reply_(std::make_shared<Reply>()) {
    reply_->on_token = [this](const std::vector<TokenId>& tokens) {
      n_tokens_ = static_cast<int64_t>(tokens.size());
      return stop_ ? SinkAnswer::kStop : SinkAnswer::kContinue;
    };
    EXPECT_TRUE(engine->Submit({.prompt = std::move(prompt), .ignore_eos = true}, reply_).ok());
  }
  ~Stream() { Stop(); }

  // False when they do not come within five minutes.
  bool AwaitMore(int64_t n) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    for (const int64_t wanted = n_tokens_ + n; n_tokens_ < wanted;) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }
  std::vector<TokenId> Stop() {
    stop_ = true;
    reply_->Wait();
    return reply_->tokens();
  }

 private:
  std::atomic<int64_t> n_tokens_{0};
  std::atomic<bool> stop_{false};
  const std::shared_ptr<Reply> reply_;
};

class SlowDiskTest : public ::testing::Test {
 protected:
  void Start(Autosave autosave) {
    engine_.reset();
    engine_ = StartEngine({.ctx = 8192,
                           .n_slots = 3,
                           .store_dir = dir_.path() + "/store",
                           .autosave = autosave,
                           .file_system = &disk_});
  }
  // A turn by an engine before this one, and what is asked and answered next.
  void MakeStored() {
    Start(Autosave::kOff);
    auto reply = Ask(engine_.get(), prompt_, 12);
    reply->Wait();
    follow_up_ = prompt_ + reply->tokens() + RandomTokens(33, 9);
    n_kept_ = kPrompt + 11;
    Start(Autosave::kOff);
    auto alone = StartEngine({.ctx = 8192});
    auto second = Ask(alone.get(), follow_up_, 12);
    second->Wait();
    answer_ = second->tokens();
  }
  void TearDown() override {
    disk_.reads.Open();
    disk_.writes.Open();
  }
  bool AwaitRestoring() {
    return disk_.reads.AwaitWaiting() && engine_->status().scheduler.n_restoring == 1;
  }
  void ExpectWholeAnswer(Reply* reply) {
    const GenerateResult& result = reply->Wait();
    EXPECT_EQ(result.reason, FinishReason::kMaxTokens) << result.status.ToString();
    EXPECT_GE(result.reuse.tokens_reused, n_kept_) << result.reuse.reason;
    EXPECT_EQ(reply->tokens(), answer_);
  }

  const TempFolder dir_ = TempFolder::Create("slow_disk").value();
  GatedFileSystem disk_;
  const std::vector<TokenId> prompt_ = RandomTokens(31, kPrompt);
  const std::vector<TokenId> other_ = RandomTokens(32, 60);
  std::vector<TokenId> follow_up_, answer_;
  int64_t n_kept_ = 0;
  std::unique_ptr<Engine> engine_;  // ends before its disk
};

TEST_F(SlowDiskTest, OthersGoOnWhileAConversationIsRestored) {
  MakeStored();
  Stream stream(engine_.get(), other_);
  ASSERT_TRUE(stream.AwaitMore(2));
  disk_.reads.Shut();
  auto reply = Ask(engine_.get(), follow_up_, 12);
  ASSERT_TRUE(AwaitRestoring());
  EXPECT_TRUE(stream.AwaitMore(20));
  // A new conversation has nothing to wait for either.
  EXPECT_EQ(Ask(engine_.get(), RandomTokens(34, 40), 4)->Wait().reason, FinishReason::kMaxTokens);
  EXPECT_EQ(reply->tokens().size(), 0u);
  disk_.reads.Open();
  ExpectWholeAnswer(reply.get());
  EXPECT_EQ(reply->Wait().reuse.source, ReuseSource::kDisk);
  const std::vector<TokenId> said = stream.Stop();
  auto alone = StartEngine({.ctx = 8192});
  auto again = Ask(alone.get(), other_, static_cast<int64_t>(said.size()));
  again->Wait();
  EXPECT_EQ(said, again->tokens());
}

// What the watchdog of the server asks.
TEST_F(SlowDiskTest, AHeldRestoreIsNoStuckStep) {
  MakeStored();
  disk_.reads.Shut();
  auto reply = Ask(engine_.get(), follow_up_, 12);
  ASSERT_TRUE(AwaitRestoring());
  const auto held = std::chrono::steady_clock::now();
  auto longest = std::chrono::milliseconds(0);
  while (std::chrono::steady_clock::now() - held < std::chrono::seconds(3)) {
    longest = std::max(longest, engine_->round_age());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_LT(longest, std::chrono::seconds(2));
  EXPECT_LT(engine_->persistence()->last_progress(), held);
  disk_.reads.Open();
  ExpectWholeAnswer(reply.get());
  EXPECT_GT(engine_->persistence()->last_progress(), held);
}

TEST_F(SlowDiskTest, TwoRequestsOfOneConversationRestoreItOnce) {
  MakeStored();
  disk_.reads.Shut();
  auto first = Ask(engine_.get(), follow_up_, 12);
  ASSERT_TRUE(AwaitRestoring());
  auto second = Ask(engine_.get(), follow_up_, 12);
  disk_.reads.Open();
  ExpectWholeAnswer(first.get());
  ExpectWholeAnswer(second.get());
  EXPECT_EQ(engine_->status().store.n_restores, 1);
}

TEST_F(SlowDiskTest, ARequestCanBeCancelledWhileItIsRestored) {
  MakeStored();
  disk_.reads.Shut();
  auto reply = std::make_shared<Reply>();
  const auto id = engine_->Submit({.prompt = follow_up_, .max_tokens = 12}, reply);
  ASSERT_TRUE(id.ok());
  ASSERT_TRUE(AwaitRestoring());
  engine_->Cancel(*id);
  EXPECT_EQ(reply->Wait().reason, FinishReason::kCancelled);
  auto again = Ask(engine_.get(), follow_up_, 12);
  disk_.reads.Open();
  ExpectWholeAnswer(again.get());
  EXPECT_EQ(engine_->status().store.n_restores, 1);
}

TEST_F(SlowDiskTest, TheEngineShutsDownWhileAConversationIsRestored) {
  MakeStored();
  disk_.reads.Shut();
  auto reply = Ask(engine_.get(), follow_up_, 12);
  ASSERT_TRUE(AwaitRestoring());
  engine_->Shutdown(std::chrono::milliseconds(50));
  EXPECT_EQ(reply->Wait().reason, FinishReason::kCancelled);
  std::thread closing([&] { engine_.reset(); });
  disk_.reads.Open();
  closing.join();
  Start(Autosave::kOff);
  auto again = Ask(engine_.get(), follow_up_, 12);
  ExpectWholeAnswer(again.get());
}

TEST_F(SlowDiskTest, AReplyEndsWithItsCommitAndOthersGoOnMeanwhile) {
  Start(Autosave::kTurn);
  Stream stream(engine_.get(), other_);
  ASSERT_TRUE(stream.AwaitMore(2));
  disk_.writes.Shut();
  std::atomic<int> n_tokens{0};
  auto reply = std::make_shared<Reply>();
  reply->on_token = [&](const std::vector<TokenId>& tokens) {
    n_tokens = static_cast<int>(tokens.size());
    return SinkAnswer::kContinue;
  };
  ASSERT_TRUE(
      engine_->Submit({.prompt = prompt_, .max_tokens = 8, .ignore_eos = true}, reply).ok());
  ASSERT_TRUE(disk_.writes.AwaitWaiting());
  EXPECT_TRUE(stream.AwaitMore(20));
  EXPECT_EQ(n_tokens, 8);  // the client has them all
  EXPECT_EQ(engine_->status().scheduler.n_committing, 1);
  EXPECT_FALSE(reply->ended());
  disk_.writes.Open();
  const GenerateResult& result = reply->Wait();
  EXPECT_EQ(engine_->persistence()->durable_tokens(result.conversation), kPrompt + 7);
  stream.Stop();
}

TEST_F(SlowDiskTest, ASaveThatSomebodyAsksForHoldsUpNobodyElse) {
  Start(Autosave::kOff);
  const std::string id = Ask(engine_.get(), prompt_, 4)->Wait().conversation;
  Stream stream(engine_.get(), other_);
  disk_.writes.Shut();
  Status saved = InternalError("not yet");
  std::thread client([&] { saved = engine_->SaveConversation(id); });
  ASSERT_TRUE(disk_.writes.AwaitWaiting());
  EXPECT_TRUE(stream.AwaitMore(20));
  disk_.writes.Open();
  client.join();
  EXPECT_TRUE(saved.ok()) << saved.ToString();
  EXPECT_EQ(engine_->persistence()->durable_tokens(id), kPrompt + 3);
}

TEST_F(SlowDiskTest, ACallThatWaitsForAStepGivesUpInTime) {
  engine_ = StartEngine({.ctx = 8192, .patience = std::chrono::milliseconds(50)});
  Gate step;
  step.Shut();
  auto reply = std::make_shared<Reply>();
  reply->on_token = [&](const std::vector<TokenId>&) {
    step.Pass();
    return SinkAnswer::kStop;
  };
  ASSERT_TRUE(engine_->Submit({.prompt = other_, .max_tokens = 2}, reply).ok());
  ASSERT_TRUE(step.AwaitWaiting());
  bool ran = false;
  const Status status = engine_->BetweenSteps([&](Scheduler&, StateCache&) { ran = true; });
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
  step.Open();
  reply->Wait();
  EXPECT_TRUE(engine_->BetweenSteps([](Scheduler&, StateCache&) {}).ok());
  EXPECT_FALSE(ran) << "given up, and run nevertheless";
}

}  // namespace
}  // namespace holdfast

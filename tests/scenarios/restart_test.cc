// Conversations outlive the process: the stories of issue B with a store.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/temp_folder.h"
#include "tests/support/engine_client.h"
#include "tests/support/random_tokens.h"

namespace holdfast {
namespace {

class RestartTest : public ::testing::Test {
 protected:
  std::unique_ptr<Engine> Start(Autosave autosave = Autosave::kTurn) {
    return StartEngine({.ctx = 8192, .store_dir = dir_.path() + "/store", .autosave = autosave});
  }
  static std::vector<TokenId> WithoutStore(const std::vector<TokenId>& prompt, int64_t n) {
    auto engine = StartEngine({.ctx = 8192});
    auto reply = Ask(engine.get(), prompt, n);
    reply->Wait();
    return reply->tokens();
  }

  const TempFolder dir_ = TempFolder::Create("scenario").value();
};

TEST_F(RestartTest, AFollowUpAfterARestartReadsOnlyWhatIsNew) {
  const auto prompt = RandomTokens(31, 1300), more = RandomTokens(32, 30);
  std::vector<TokenId> reply_tokens;
  {
    auto engine = Start();
    auto reply = Ask(engine.get(), prompt, 20, {400, 1296});
    EXPECT_EQ(reply->Wait().reuse.source, ReuseSource::kNone);
    reply_tokens = reply->tokens();
  }
  auto engine = Start();
  const auto follow_up = prompt + reply_tokens + more;
  auto reply = Ask(engine.get(), follow_up, 20);
  const GenerateResult& result = reply->Wait();
  EXPECT_EQ(result.reuse.source, ReuseSource::kDisk);
  EXPECT_EQ(result.reuse.tokens_reused, 1300 + 19);
  EXPECT_GT(result.reuse.restore_ms, 0);
  EXPECT_EQ(reply->tokens(), WithoutStore(follow_up, 20));
}

TEST_F(RestartTest, AnotherConversationBorrowsAStoredBeginning) {
  const auto system = RandomTokens(33, 600);
  {
    auto engine = Start();
    Ask(engine.get(), system + RandomTokens(34, 100), 5, {600, 696})->Wait();
  }
  auto engine = Start();
  const auto other = system + RandomTokens(35, 80);
  auto reply = Ask(engine.get(), other, 10, {600, 676});
  EXPECT_EQ(reply->Wait().reuse.tokens_reused, 600);
  EXPECT_EQ(reply->tokens(), WithoutStore(other, 10));
}

TEST_F(RestartTest, ShutdownSavesWhatAutosaveHasNot) {
  const auto prompt = RandomTokens(36, 500);
  std::vector<TokenId> reply_tokens;
  {
    auto engine = Start(Autosave::kOff);
    auto first = Ask(engine.get(), prompt, 5);
    first->Wait();
    reply_tokens = first->tokens();
    engine->Shutdown(std::chrono::seconds(20));
    EXPECT_FALSE(engine->Submit({.prompt = prompt}, std::make_shared<Reply>()).ok());
  }
  auto engine = Start();
  auto reply = Ask(engine.get(), prompt + reply_tokens + RandomTokens(37, 10), 5);
  EXPECT_EQ(reply->Wait().reuse.source, ReuseSource::kDisk);
  EXPECT_EQ(reply->Wait().reuse.tokens_reused, 504);
}

TEST_F(RestartTest, ADamagedSegmentIsNeverServed) {
  const auto prompt = RandomTokens(38, 700), more = RandomTokens(39, 10);
  {
    auto engine = Start();
    Ask(engine.get(), prompt, 5)->Wait();
  }
  int n_damaged = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path() + "/store/segments")) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    const auto size = std::filesystem::file_size(entry.path());
    for (uint64_t at = 8192; at < size; at += 65536) {  // in every part
      file.seekp(static_cast<std::streamoff>(at));
      file.put('\x5a');
    }
    ++n_damaged;
  }
  ASSERT_GT(n_damaged, 0);
  auto engine = Start();
  auto reply = Ask(engine.get(), prompt + more, 10);
  EXPECT_EQ(reply->Wait().reuse.source, ReuseSource::kNone);
  EXPECT_EQ(reply->tokens(), WithoutStore(prompt + more, 10));
}

}  // namespace
}  // namespace holdfast

// A conversation is never read twice: the stories of issue B at the level of the engine.

#include <gtest/gtest.h>

#include "tests/support/engine_client.h"
#include "tests/support/random_tokens.h"

namespace holdfast {
namespace {

// The reply of an engine that has never seen anything else.
std::vector<TokenId> Alone(const std::vector<TokenId>& prompt, int64_t max_tokens) {
  auto engine = StartEngine({.ctx = 8192});
  auto reply = Ask(engine.get(), prompt, max_tokens);
  reply->Wait();
  return reply->tokens();
}

TEST(ReuseTest, ASideRequestCostsTheConversationNothing) {
  auto engine = StartEngine({.ctx = 8192, .n_slots = 1});
  const auto a = RandomTokens(1, 1500), b = RandomTokens(2, 300), more = RandomTokens(3, 40);
  auto first = Ask(engine.get(), a, 16);
  EXPECT_EQ(first->Wait().reuse.tokens_reused, 0);
  Ask(engine.get(), b, 8)->Wait();
  const auto follow_up = a + first->tokens() + more;
  auto second = Ask(engine.get(), follow_up, 16);
  const GenerateResult& result = second->Wait();
  // The last reply token was never a row: it is read with the new ones.
  EXPECT_EQ(result.reuse.tokens_reused, 1500 + 15);
  EXPECT_EQ(result.reuse.tokens_read, 41);
  EXPECT_EQ(result.reuse.source, ReuseSource::kLive);
  EXPECT_EQ(second->tokens(), Alone(follow_up, 16));
}

TEST(ReuseTest, ACommonBeginningIsSharedAndTheDonorIsNotChanged) {
  auto engine = StartEngine({.ctx = 8192});
  const auto system = RandomTokens(4, 700);
  const auto a = system + RandomTokens(5, 90), b = system + RandomTokens(6, 70);
  auto reply_a = Ask(engine.get(), a, 12, {700});
  reply_a->Wait();
  auto reply_b = Ask(engine.get(), b, 12, {700});
  EXPECT_NE(reply_b->Wait().reuse.source, ReuseSource::kNone);
  EXPECT_EQ(reply_b->Wait().reuse.tokens_reused, 700);
  EXPECT_EQ(reply_b->tokens(), Alone(b, 12));
  const auto follow_up = a + reply_a->tokens() + RandomTokens(7, 20);
  auto second = Ask(engine.get(), follow_up, 12);
  EXPECT_EQ(second->Wait().reuse.tokens_reused, 790 + 11);
  EXPECT_EQ(second->tokens(), Alone(follow_up, 12));
}

TEST(ReuseTest, AReplyThatTheClientDropsIsReadAgainOnlyFromWhereItBegan) {
  auto engine = StartEngine({.ctx = 8192});
  const auto prompt = RandomTokens(8, 900);
  auto reply = Ask(engine.get(), prompt, 30, {200, 896});
  reply->Wait();
  auto again = Ask(engine.get(), prompt + RandomTokens(9, 25), 8, {200, 896});
  const GenerateResult& result = again->Wait();
  EXPECT_GE(result.reuse.tokens_reused, 896);
  EXPECT_EQ(again->tokens(), Alone(prompt + RandomTokens(9, 25), 8));
}

// Like a date in a system prompt.
TEST(ReuseTest, WhereASystemBlockDiffersAStateIsKeptFromThenOn) {
  auto engine = StartEngine({.ctx = 8192});
  const auto before = RandomTokens(12, 1300), behind = RandomTokens(13, 200);
  const auto ask = [&](TokenId day, int64_t question) {
    const auto prompt = before + std::vector<TokenId>{day} + behind + RandomTokens(question, 40);
    auto reply = std::make_shared<Reply>();
    EXPECT_TRUE(engine
                    ->Submit({.prompt = prompt,
                              .max_tokens = 6,
                              .ignore_eos = true,
                              .checkpoints = {{1501, CheckpointKind::kSystem}}},
                             reply)
                    .ok());
    reply->Wait();
    EXPECT_EQ(reply->tokens(), Alone(prompt, 6));
    return reply->Wait().reuse;
  };
  EXPECT_EQ(ask(21, 14).tokens_reused, 0);
  const ReuseInfo second = ask(22, 15);
  EXPECT_EQ(second.tokens_reused, 0);
  EXPECT_EQ(second.first_difference, 1300);
  EXPECT_NE(second.reason.find("from now on one is kept there"), std::string::npos)
      << second.reason;
  EXPECT_EQ(ask(23, 16).tokens_reused, 1300);
  EXPECT_EQ(ask(23, 17).tokens_reused, 1501);
}

TEST(ReuseTest, IdenticalRequestsAtOnceReadThePromptOnce) {
  auto engine = StartEngine({.ctx = 8192, .n_slots = 4});
  const auto prompt = RandomTokens(10, 2000);
  std::vector<std::shared_ptr<Reply>> replies;
  for (int i = 0; i < 3; ++i) replies.push_back(Ask(engine.get(), prompt, 10, {1990}));
  int64_t read = 0;
  for (auto& reply : replies) {
    read += reply->Wait().reuse.tokens_read;
    EXPECT_EQ(reply->tokens(), replies[0]->tokens());
  }
  EXPECT_LE(read, 2000 + 2 * 10);
}

TEST(ReuseTest, ACancelledReadIsKept) {
  auto engine = StartEngine({.ctx = 8192});
  const auto prompt = RandomTokens(11, 6000);
  auto reply = std::make_shared<Reply>();
  auto id = engine->Submit({.prompt = prompt, .max_tokens = 4}, reply);
  ASSERT_TRUE(id.ok());
  while (true) {
    const auto slots = engine->status().scheduler.slots;
    if (!slots.empty() && slots[0].n_computed > 1000) break;
  }
  engine->Cancel(*id);
  EXPECT_EQ(reply->Wait().reason, FinishReason::kCancelled);
  auto again = Ask(engine.get(), prompt, 4);
  EXPECT_GT(again->Wait().reuse.tokens_reused, 1000);
  EXPECT_EQ(again->tokens(), Alone(prompt, 4));
}

TEST(ReuseTest, ManyAtOnceAnswerAsIfAlone) {
  auto engine = StartEngine({.ctx = 8192, .n_slots = 4});
  std::vector<std::shared_ptr<Reply>> replies;
  std::vector<std::vector<TokenId>> prompts;
  for (int i = 0; i < 6; ++i) {
    prompts.push_back(RandomTokens(20 + i, 50 + 180 * i));
    replies.push_back(Ask(engine.get(), prompts.back(), 24));
  }
  for (size_t i = 0; i < replies.size(); ++i) {
    EXPECT_EQ(replies[i]->Wait().reason, FinishReason::kMaxTokens);
    EXPECT_EQ(replies[i]->tokens(), Alone(prompts[i], 24)) << i;
  }
}

}  // namespace
}  // namespace holdfast

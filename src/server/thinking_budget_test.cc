#include "server/thinking_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api_fixture.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

TEST(ThinkingLimitTest, LeavesHalfOfAReplyToTheAnswer) {
  EXPECT_EQ(ThinkingLimit({}, 400), 200);
  EXPECT_EQ(ThinkingLimit({}, 8192), 4096);
  EXPECT_EQ(ThinkingLimit({}, 100000), 100000 - kAnswerRoom);
  EXPECT_EQ(ThinkingLimit({.tokens = 50}, 400), 50);
  EXPECT_EQ(ThinkingLimit({.tokens = 1000}, 400), 200);
  EXPECT_EQ(ThinkingLimit({.tokens = 0}, 400), 0);
  EXPECT_EQ(ThinkingLimit({}, 1), 1);
  EXPECT_EQ(ThinkingLimit({.answer_room = false}, 400), -1);
  EXPECT_EQ(ThinkingLimit({.tokens = 1000, .answer_room = false}, 400), 1000);
}

class ThinkingTest : public ApiFixture {
 protected:
  // Thinks for ever, and answers once its thinking has been closed.
  ThinkingTest() {
    think_end_ = *fake_.tokenizer().FindToken("</think>");
    thought_ = fake_.tokenizer().Encode(" so", AddedTokens::kNone);
    EXPECT_EQ(thought_.size(), 1u);
    fake_.generator.script = [this](const GenerateRequest& request) {
      const std::vector<TokenId>& prompt = request.prompt;
      const bool closed = std::find(prompt.begin(), prompt.end(), think_end_) != prompt.end();
      if (closed) return fake_.tokenizer().Encode("Four.", AddedTokens::kAll);
      return std::vector<TokenId>(3000, thought_[0]);
    };
  }
  Json Ask(Json extra) {
    Json body = {{"messages", Json::array({{{"role", "user"}, {"content", "2+2?"}}})},
                 {"chat_template_kwargs", {{"enable_thinking", true}}}};
    body.update(extra);
    return PostJson("/v1/chat/completions", body);
  }
  static int64_t Reasoning(const Json& reply) {
    return reply["usage"]["completion_tokens_details"]["reasoning_tokens"];
  }

  TokenId think_end_ = 0;
  std::vector<TokenId> thought_;
};

TEST_F(ThinkingTest, ABudgetIsKeptAndTheAnswerFollows) {
  fake_.generator.reuse.tokens_reused = 2;
  const Json reply = Ask({{"thinking_budget", 20}});
  EXPECT_EQ(reply["choices"][0]["message"]["content"], "Four.");
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "stop");
  const std::vector<GenerateRequest> requests = fake_.generator.requests();
  ASSERT_EQ(requests.size(), 2u);
  // The second prompt is the first, the thinking and its end; the engine goes on where it stopped.
  std::vector<TokenId> expected = requests[0].prompt;
  expected.insert(expected.end(), 20, thought_[0]);
  const std::vector<TokenId> end = fake_.tokenizer().Encode("\n</think>\n\n", AddedTokens::kAll);
  expected.insert(expected.end(), end.begin(), end.end());
  EXPECT_EQ(requests[1].prompt, expected);
  EXPECT_EQ(requests[1].sampling.seed, requests[0].sampling.seed);
  // One reply: prompt and reuse of the first request, all tokens of both.
  const int64_t n_answer =
      static_cast<int64_t>(fake_.tokenizer().Encode("Four.", AddedTokens::kAll).size()) + 1;
  EXPECT_EQ(reply["usage"]["prompt_tokens"], requests[0].prompt.size());
  EXPECT_EQ(reply["usage"]["completion_tokens"], 20 + static_cast<int64_t>(end.size()) + n_answer);
  EXPECT_EQ(reply["usage"]["prompt_tokens_details"]["cached_tokens"], 2);
}

TEST_F(ThinkingTest, ACapLeavesRoomForTheAnswer) {
  const Json reply = Ask({{"max_tokens", 400}});
  EXPECT_EQ(reply["choices"][0]["message"]["content"], "Four.");
  EXPECT_NEAR(Reasoning(reply), 200, 3);
  const std::vector<GenerateRequest> requests = fake_.generator.requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_NEAR(requests[1].max_tokens, 200, 4);

  const Json cut = Ask({{"max_tokens", 400}, {"answer_room", false}});
  EXPECT_EQ(Reasoning(cut), 400);
  EXPECT_EQ(cut["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(cut["usage"]["completion_tokens"], 400);
}

TEST_F(ThinkingTest, TheCapHoldsForTheWholeReply) {
  fake_.generator.script = [this](const GenerateRequest&) {
    return std::vector<TokenId>(3000, thought_[0]);
  };
  for (const int cap : {1, 2, 3, 4, 5, 6, 7, 8, 9, 64}) {
    const Json reply = Ask({{"max_tokens", cap}});
    EXPECT_EQ(reply["choices"][0]["finish_reason"], "length") << cap;
    EXPECT_EQ(reply["usage"]["completion_tokens"], cap);
  }
}

TEST_F(ThinkingTest, TheContextIsACapToo) {
  fake_.generator.context = 100;
  const Json reply = Ask(Json::object());
  EXPECT_EQ(reply["choices"][0]["message"]["content"], "Four.");
  EXPECT_LT(Reasoning(reply), 60);
}

TEST_F(ThinkingTest, NoBudgetMeansNoThinkingEvenWhereTheTemplateInsists) {
  Json reply = Ask({{"thinking_budget", 0}});  // enable_thinking of the kwargs is stronger
  EXPECT_EQ(reply["choices"][0]["message"]["content"], "Four.");
  EXPECT_EQ(fake_.generator.requests().size(), 1u);
  EXPECT_LE(Reasoning(reply), 2);  // the end of the thinking
  EXPECT_THAT(PromptText(), ::testing::EndsWith("<think>\n\n</think>\n\n"));
}

TEST_F(ThinkingTest, EffortsAndNumbersAreBudgets) {
  fake_.generator.context = 100000;
  const auto n_thought = [&](Json extra) {
    extra["chat_template_kwargs"] = Json::object();
    return Reasoning(Ask(std::move(extra)));
  };
  EXPECT_NEAR(n_thought({{"reasoning_effort", "low"}}), 2048, 3);
  EXPECT_NEAR(n_thought({{"reasoning_effort", 7}}), 7, 3);
  EXPECT_NEAR(n_thought({{"thinking_budget_tokens", 11}}), 11, 3);
  EXPECT_NEAR(n_thought({{"reasoning_effort", "high"}, {"thinking_budget", 9}}), 9, 3);
  EXPECT_EQ(n_thought({{"reasoning_effort", "off"}}), 0);
  EXPECT_EQ(n_thought({{"reasoning_effort", 0}}), 0);
}

TEST_F(ThinkingTest, AClosedThoughtComesBackAsItWas) {
  RememberReplies();
  const Json extra = {{"thinking_budget", 12}};
  const Json reply = Ask(extra);
  const std::vector<TokenId> second = fake_.generator.last_request().prompt;
  Json messages = Json::array({{{"role", "user"}, {"content", "2+2?"}},
                               reply["choices"][0]["message"],
                               {{"role", "user"}, {"content", "Sure?"}}});
  Ask({{"messages", messages}, {"thinking_budget", 12}});
  const std::vector<TokenId> third = fake_.generator.requests()[2].prompt;
  ASSERT_GT(third.size(), second.size());
  EXPECT_TRUE(std::equal(second.begin(), second.end(), third.begin()));
}

TEST_F(ThinkingTest, AFullQueueBehindTheThinkingEndsTheReply) {
  fake_.generator.script = [this](const GenerateRequest&) {
    fake_.generator.submit_status = UnavailableError("the engine is shutting down");
    return std::vector<TokenId>(3000, thought_[0]);
  };
  const HttpResponse response = Post(
      "/v1/chat/completions", {{"messages", Json::array({{{"role", "user"}, {"content", "2+2?"}}})},
                               {"thinking_budget", 5}});
  EXPECT_EQ(response.status, 503);
  EXPECT_THAT(response.body, HasSubstr("shutting down"));
}

TEST_F(ThinkingTest, OneStreamForBothRequests) {
  const HttpResponse response =
      Post("/v1/messages", {{"max_tokens", 100},
                            {"stream", true},
                            {"thinking", {{"type", "enabled"}, {"budget_tokens", 10}}},
                            {"messages", Json::array({{{"role", "user"}, {"content", "2+2?"}}})}});
  std::vector<std::string> names;
  for (const NamedEvent& event : NamedEvents(response)) {
    if (names.empty() || names.back() != event.name) names.push_back(event.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{
                       "message_start", "ping", "content_block_start", "content_block_delta",
                       "content_block_stop", "content_block_start", "content_block_delta",
                       "content_block_stop", "message_delta", "message_stop"}));
}

}  // namespace
}  // namespace holdfast

// Replies under a grammar: the same whoever guesses ahead and whoever else is being served.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "grammar/grammar_cache.h"
#include "tests/support/engine_client.h"
#include "tests/support/random_tokens.h"

namespace holdfast {
namespace {

using Json = ReplyFormat::Json;

constexpr const char* kSchemas[] = {
    R"({"type":"object"})",
    R"({"properties":{"name":{"type":"string","maxLength":20},"age":{"type":"integer","minimum":0,
        "maximum":150},"tags":{"items":{"enum":["red","green","blue"]},"minItems":1,"maxItems":5}},
        "required":["name","age","tags"]})",
    R"({"items":{"type":"string","pattern":"^[a-z]{2,9}$"},"minItems":3,"maxItems":6})",
    R"({"properties":{"v":{"type":["number","null"]},"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},
        "required":["v","next"]})",
};

struct Outcome {
  std::vector<std::vector<TokenId>> tokens;
  std::vector<std::string> texts;
  std::vector<FinishReason> reasons;
  int64_t n_drafted = 0, n_accepted = 0;
};

// One stream for each schema, half of them nearly random. `together` false: one after the other.
Outcome RunStreams(int max_drafts, bool together) {
  auto engine = StartEngine({.mtp_path = SourcePath("models/demo/holdfast-demo-mtp.gguf"),
                             .ctx = 4096,
                             .max_drafts = max_drafts});
  GrammarCache grammars(&engine->tokenizer());
  Outcome outcome;
  std::vector<std::shared_ptr<Reply>> replies;
  for (size_t i = 0; i < std::size(kSchemas); ++i) {
    ReplyFormat format{.text = ReplyFormat::Text::kJson, .schema = Json::parse(kSchemas[i])};
    std::string where;
    GenerateRequest request{.prompt = RandomTokens(static_cast<unsigned>(60 + i), 40),
                            .max_tokens = 120,
                            .grammar = grammars.Get(format, &where).value()};
    if (i % 2 != 0) request.sampling = {.top_k = 200, .temperature = 50.0f, .seed = 11 + i};
    replies.push_back(std::make_shared<Reply>());
    EXPECT_TRUE(engine->Submit(std::move(request), replies.back()).ok());
    if (!together) replies.back()->Wait();
  }
  for (auto& reply : replies) {
    const GenerateResult& result = reply->Wait();
    EXPECT_TRUE(result.status.ok()) << result.status.ToString();
    outcome.n_drafted += result.timings.n_drafted;
    outcome.n_accepted += result.timings.n_accepted;
    outcome.reasons.push_back(result.reason);
    outcome.tokens.push_back(reply->tokens());
    outcome.texts.push_back(engine->tokenizer().Decode(reply->tokens(), false));
  }
  return outcome;
}

TEST(GrammarStreamsTest, NeitherGuessesNorCompanyChangeAReply) {
  const Outcome alone = RunStreams(0, /*together=*/false);
  int n_ended = 0;
  for (size_t i = 0; i < alone.texts.size(); ++i) {
    const bool ended = alone.reasons[i] == FinishReason::kEndOfTurn;
    n_ended += ended ? 1 : 0;
    EXPECT_TRUE(ended || alone.reasons[i] == FinishReason::kMaxTokens);
    if (ended) {
      EXPECT_TRUE(Json::accept(alone.texts[i])) << alone.texts[i];
    }
  }
  EXPECT_GE(n_ended, 2);
  int64_t n_drafted = 0;
  for (const int depth : {0, 1, 3, 7}) {
    const Outcome together = RunStreams(depth, /*together=*/true);
    EXPECT_EQ(together.tokens, alone.tokens) << "depth " << depth;
    n_drafted += together.n_drafted;
    std::printf("depth %d: %lld of %lld guesses accepted\n", depth,
                static_cast<long long>(together.n_accepted),
                static_cast<long long>(together.n_drafted));
  }
  EXPECT_GT(n_drafted, 0);
}

TEST(GrammarStreamsTest, BansThatLeaveNothingAreAnErrorOfThatRequest) {
  auto engine = StartEngine({.ctx = 2048});
  GrammarCache grammars(&engine->tokenizer());
  std::string where;
  const auto grammar =
      grammars
          .Get({.text = ReplyFormat::Text::kJson, .schema = Json::parse(R"({"const":1})")}, &where)
          .value();
  GenerateRequest request{.prompt = RandomTokens(3, 10), .max_tokens = 5, .grammar = grammar};
  const TokenId one = engine->tokenizer().Encode("1", AddedTokens::kNone).front();
  request.sampling.logit_bias = {{one, -std::numeric_limits<float>::infinity()}};
  auto reply = std::make_shared<Reply>();
  ASSERT_TRUE(engine->Submit(request, reply).ok());
  EXPECT_EQ(reply->Wait().status.code(), StatusCode::kInvalidArgument);
  request.sampling.logit_bias.clear();
  auto next = std::make_shared<Reply>();
  ASSERT_TRUE(engine->Submit(request, next).ok());
  EXPECT_EQ(next->Wait().reason, FinishReason::kEndOfTurn);
  EXPECT_EQ(engine->tokenizer().Decode(next->tokens(), false), "1");
}

}  // namespace
}  // namespace holdfast

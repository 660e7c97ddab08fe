// Log-probabilities of the prompt's own tokens are those of the rows that `holdfast logits` writes,
// whatever else the engine does.

#include <gtest/gtest.h>

#include <bit>

#include "engine/logits_row.h"
#include "model/model.h"
#include "model/sequence.h"
#include "ops/cpu/cpu_backend.h"
#include "tests/support/engine_client.h"
#include "tests/support/random_tokens.h"

namespace holdfast {
namespace {

class Scores : public Reply {
 public:
  void OnPromptTokens(std::span<const TokenEvent> tokens) override {
    prompt.insert(prompt.end(), tokens.begin(), tokens.end());
  }
  SinkAnswer OnToken(const TokenEvent& event) override {
    generated.push_back(event);
    return Reply::OnToken(event);
  }
  // Whole after Wait().
  std::vector<TokenEvent> prompt, generated;
};

std::shared_ptr<Scores> Score(Engine* engine, std::vector<TokenId> prompt, int n_top,
                              int64_t max_tokens) {
  auto scores = std::make_shared<Scores>();
  auto id = engine->Submit({.prompt = std::move(prompt),
                            .max_tokens = max_tokens,
                            .ignore_eos = true,
                            .n_top_logprobs = n_top,
                            .prompt_logprobs = true},
                           scores);
  EXPECT_TRUE(id.ok()) << id.status().ToString();
  return scores;
}

// The rows as a model without cache and scheduler gives them, all at once.
std::vector<RowLogprobs> Reference(const std::vector<TokenId>& prompt, int n_top) {
  auto backend = CpuBackend::Create({});
  auto model = Model::Load(DemoModelPath(), {}, backend->get());
  EXPECT_TRUE(model.ok()) << model.status().ToString();
  auto sequence = Sequence::Create(model->get());
  std::vector<RowLogprobs> rows;
  const auto add = [&](int64_t position, std::span<const float> logits) {
    if (position + 1 == static_cast<int64_t>(prompt.size())) return;
    auto row = ComputeLogprobs(logits, prompt[position + 1], n_top);
    EXPECT_TRUE(row.ok()) << row.status().ToString();
    rows.push_back(*row);
  };
  EXPECT_TRUE(sequence->Read(prompt, 0, 0, add).ok());
  return rows;
}

void ExpectSame(const TokenEvent& event, float logprob, const std::vector<TokenLogprob>& top) {
  EXPECT_EQ(std::bit_cast<uint32_t>(event.logprob), std::bit_cast<uint32_t>(logprob))
      << event.position;
  ASSERT_EQ(event.top.size(), top.size()) << event.position;
  for (size_t i = 0; i < top.size(); ++i) {
    EXPECT_EQ(event.top[i].id, top[i].id) << event.position;
    EXPECT_EQ(event.top[i].logprob, top[i].logprob) << event.position;
  }
}

void ExpectRows(const Scores& scores, const std::vector<TokenId>& prompt,
                const std::vector<RowLogprobs>& rows) {
  ASSERT_EQ(scores.prompt.size(), prompt.size());
  for (size_t i = 0; i < prompt.size(); ++i) {
    EXPECT_EQ(scores.prompt[i].id, prompt[i]);
    EXPECT_EQ(scores.prompt[i].position, static_cast<int64_t>(i));
    if (i > 0) ExpectSame(scores.prompt[i], rows[i - 1].logprob, rows[i - 1].top);
  }
}

TEST(PromptLogprobsTest, AreThoseOfTheRowsWhateverTheStepsAndTheCompany) {
  const std::vector<TokenId> prompt = RandomTokens(7, 300);
  const std::vector<RowLogprobs> rows = Reference(prompt, 5);
  for (const int64_t max_rows : {20, 33, 512}) {
    auto engine = StartEngine({.ctx = 2048, .max_rows = max_rows});
    const auto story = Ask(engine.get(), RandomTokens(8, 40), 120);
    const auto long_read = Ask(engine.get(), RandomTokens(9, 700), 1);
    const auto scores = Score(engine.get(), prompt, 5, 0);
    EXPECT_EQ(scores->Wait().reason, FinishReason::kMaxTokens);
    EXPECT_TRUE(scores->generated.empty());
    ExpectRows(*scores, prompt, rows);
    story->Wait();
    long_read->Wait();
    const auto alone = Ask(engine.get(), RandomTokens(8, 40), 120);
    EXPECT_EQ(alone->Wait().reason, FinishReason::kMaxTokens);
    EXPECT_EQ(alone->tokens(), story->tokens());
  }
}

TEST(PromptLogprobsTest, WhatIsKeptIsNotReusedForThemAndLaterRequestsReuseWhatWasRead) {
  const std::vector<TokenId> prompt = RandomTokens(7, 600);
  auto engine = StartEngine({.ctx = 2048});
  Ask(engine.get(), prompt, 1)->Wait();
  const auto scores = Score(engine.get(), prompt, 0, 1);
  const ReuseInfo& reuse = scores->Wait().reuse;
  EXPECT_EQ(reuse.source, ReuseSource::kNone);
  EXPECT_EQ(reuse.tokens_reused, 0);
  EXPECT_EQ(reuse.tokens_read, 600);
  EXPECT_EQ(reuse.tokens_known, 600);
  EXPECT_EQ(reuse.limit, "prompt_logprobs");
  EXPECT_EQ(scores->prompt.size(), 600u);
  ASSERT_EQ(scores->generated.size(), 1u);
  std::vector<TokenId> longer = prompt;
  longer.push_back(scores->generated.front().id);
  longer.push_back(5);
  EXPECT_GE(Ask(engine.get(), longer, 1)->Wait().reuse.tokens_reused, 600);
}

// A harness that scores a reply sees what the reply said of itself.
TEST(PromptLogprobsTest, OfAReplyAreThoseItWasGivenWith) {
  std::vector<TokenId> text = RandomTokens(11, 50);
  auto engine = StartEngine({.ctx = 2048});
  const auto said = Score(engine.get(), text, 3, 40);
  said->Wait();
  for (const TokenEvent& event : said->generated) text.push_back(event.id);
  const auto scored = Score(engine.get(), text, 3, 0);
  scored->Wait();
  ASSERT_EQ(scored->prompt.size(), 90u);
  for (const TokenEvent& event : said->generated) {
    ExpectSame(scored->prompt[event.position], event.logprob, event.top);
  }
}

TEST(PromptLogprobsTest, OneTokenAloneHasNone) {
  auto engine = StartEngine({.ctx = 2048});
  const auto scores = Score(engine.get(), {9}, 2, 1);
  EXPECT_EQ(scores->Wait().reason, FinishReason::kMaxTokens);
  ASSERT_EQ(scores->prompt.size(), 1u);
  EXPECT_TRUE(scores->prompt.front().top.empty());
}

}  // namespace
}  // namespace holdfast

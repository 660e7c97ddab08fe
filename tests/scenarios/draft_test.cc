// Guessing ahead never changes an answer.

#include <gtest/gtest.h>

#include "tests/support/engine_client.h"
#include "tests/support/random_tokens.h"

namespace holdfast {
namespace {

std::vector<TokenId> DemoPrompt(const std::string& name) {
  const nlohmann::json conversation = ReadJson(SourcePath("tests/demo/prompts/" + name));
  return conversation["reference"].back()["prompt_ids"].get<std::vector<TokenId>>();
}

struct Outcome {
  std::vector<std::vector<TokenId>> replies;
  int64_t n_drafted = 0, n_accepted = 0;
};

// Four streams, two of them sampled, that begin at once.
Outcome RunStreams(int max_drafts, DraftSource source = DraftSource::kMtp, bool has_head = true) {
  EngineOptions options{.ctx = 4096, .max_drafts = max_drafts, .draft_source = source};
  if (has_head) options.mtp_path = SourcePath("models/demo/holdfast-demo-mtp.gguf");
  auto engine = StartEngine(options);
  const std::vector<std::vector<TokenId>> prompts = {
      DemoPrompt("11-long-note.json"), DemoPrompt("09-story.json"), DemoPrompt("10-table.json"),
      RandomTokens(51, 300)};
  std::vector<std::shared_ptr<Reply>> replies;
  for (size_t i = 0; i < prompts.size(); ++i) {
    GenerateRequest request{.prompt = prompts[i], .max_tokens = 60, .ignore_eos = i % 2 == 0};
    if (i >= 2)
      request.sampling = {.repeat_penalty = 1.1f, .top_k = 40, .temperature = 0.8f, .seed = 7};
    replies.push_back(std::make_shared<Reply>());
    EXPECT_TRUE(engine->Submit(std::move(request), replies.back()).ok());
  }
  Outcome outcome;
  for (auto& reply : replies) {
    const GenerateTimings& timings = reply->Wait().timings;
    outcome.n_drafted += timings.n_drafted;
    outcome.n_accepted += timings.n_accepted;
    int64_t n_accepted = 0;
    for (const DraftCounts::Depth& depth : timings.drafts.depths) n_accepted += depth.n_accepted;
    EXPECT_EQ(n_accepted, timings.n_accepted);
    outcome.replies.push_back(reply->tokens());
  }
  return outcome;
}

TEST(DraftTest, EveryDepthGivesTheSameReplies) {
  const Outcome off = RunStreams(0);
  EXPECT_EQ(off.n_drafted, 0);
  for (int depth : {1, 3, 7, -1}) {
    const Outcome on = RunStreams(depth);
    EXPECT_EQ(on.replies, off.replies) << "depth " << depth;
    if (depth > 0) {
      EXPECT_GT(on.n_accepted, 0);
    }
    RecordProperty("depth" + std::to_string(depth),
                   std::to_string(on.n_accepted) + " of " + std::to_string(on.n_drafted));
    std::printf("depth %d: %lld of %lld guesses accepted\n", depth,
                static_cast<long long>(on.n_accepted), static_cast<long long>(on.n_drafted));
  }
}

TEST(DraftTest, GuessesFromTheConversationGiveTheSameReplies) {
  const Outcome off = RunStreams(0);
  for (int depth : {3, 7, -1}) {
    const Outcome on = RunStreams(depth, DraftSource::kLookup);
    EXPECT_EQ(on.replies, off.replies) << "depth " << depth;
    EXPECT_GT(on.n_drafted, 0);
    EXPECT_GT(on.n_accepted, 0);
    // Not every guess is right, so windows were cut as well.
    EXPECT_LT(on.n_accepted, on.n_drafted);
  }
}

TEST(DraftTest, AModelWithoutADraftHeadGuessesFromTheConversation) {
  const Outcome off = RunStreams(0, DraftSource::kAuto, /*has_head=*/false);
  const Outcome on = RunStreams(4, DraftSource::kAuto, /*has_head=*/false);
  EXPECT_EQ(on.replies, off.replies);
  EXPECT_GT(on.n_accepted, 0);
  EXPECT_EQ(RunStreams(4, DraftSource::kMtp, /*has_head=*/false).n_drafted, 0);
}

TEST(DraftTest, AConversationIsContinuedAfterADraftedReply) {
  auto engine = StartEngine(
      {.mtp_path = SourcePath("models/demo/holdfast-demo-mtp.gguf"), .ctx = 4096, .max_drafts = 4});
  const auto prompt = DemoPrompt("09-story.json");
  auto first = Ask(engine.get(), prompt, 40);
  first->Wait();
  const auto follow_up = prompt + first->tokens() + RandomTokens(52, 20);
  auto second = Ask(engine.get(), follow_up, 30);
  EXPECT_EQ(second->Wait().reuse.tokens_reused, static_cast<int64_t>(prompt.size()) + 39);
  auto plain = StartEngine({.ctx = 4096});
  auto alone = Ask(plain.get(), follow_up, 30);
  alone->Wait();
  EXPECT_EQ(second->tokens(), alone->tokens());
}

}  // namespace
}  // namespace holdfast

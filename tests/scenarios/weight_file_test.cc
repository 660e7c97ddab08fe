// A file of weights that cannot be read any more costs the requests of that step, and no state.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/temp_folder.h"
#include "tests/support/engine_client.h"
#include "tests/support/random_tokens.h"

namespace holdfast {
namespace {

TEST(WeightFileTest, ItsLossFailsRequestsAndNothingWrongIsKept) {
  const TempFolder dir = TempFolder::Create("weight_file").value();
  const std::string model = dir.path() + "/model.gguf";
  std::filesystem::copy_file(DemoModelPath(), model);
  const auto start = [&] {
    return StartEngine({.model_path = model, .ctx = 4096, .store_dir = dir.path() + "/store"});
  };
  const std::vector<TokenId> prompt = RandomTokens(71, 300);
  std::vector<TokenId> follow_up;
  {
    auto engine = start();
    auto reply = Ask(engine.get(), prompt, 10);
    ASSERT_EQ(reply->Wait().reason, FinishReason::kMaxTokens);
    follow_up = prompt + reply->tokens() + RandomTokens(72, 20);

    std::filesystem::resize_file(model, std::filesystem::file_size(model) / 2);
    for (const auto& tokens : {follow_up, RandomTokens(73, 50)}) {
      auto failed = Ask(engine.get(), tokens, 10);
      const GenerateResult& result = failed->Wait();
      EXPECT_EQ(result.reason, FinishReason::kError);
      EXPECT_EQ(result.status.code(), StatusCode::kDataLoss) << result.status.ToString();
      EXPECT_NE(result.status.message().find(model), std::string::npos);
      EXPECT_TRUE(failed->tokens().empty());
    }
    EXPECT_FALSE(engine->weights_status().ok());
  }
  EXPECT_FALSE(Engine::Create({.model_path = model}).ok());

  std::filesystem::copy_file(DemoModelPath(), model,
                             std::filesystem::copy_options::overwrite_existing);
  auto engine = start();
  EXPECT_TRUE(engine->weights_status().ok());
  auto reply = Ask(engine.get(), follow_up, 10);
  EXPECT_EQ(reply->Wait().reuse.source, ReuseSource::kDisk);
  EXPECT_EQ(reply->Wait().reuse.tokens_reused, 300 + 9);
  auto alone = StartEngine({.ctx = 4096});
  auto expected = Ask(alone.get(), follow_up, 10);
  expected->Wait();
  EXPECT_EQ(reply->tokens(), expected->tokens());
}

TEST(WeightFileTest, ATableThatIsReadRowByRowAnswersTheSameUntilItIsWrittenTo) {
  const TempFolder dir = TempFolder::Create("weight_file").value();
  const std::string model = dir.path() + "/model.gguf";
  std::filesystem::copy_file(DemoModelPath(), model);
  const std::vector<TokenId> prompt = RandomTokens(74, 200);
  const auto mapped = StartEngine({.model_path = model, .ctx = 2048});
  auto expected = Ask(mapped.get(), prompt, 20);
  expected->Wait();
  EXPECT_FALSE(mapped->status().ngram.has_value());

  const auto engine = StartEngine(
      {.model_path = model,
       .ctx = 2048,
       .ngram_memory = {.kind = NgramMemory::Kind::kSize, .bytes = uint64_t{20} << 20}});
  EXPECT_LE(engine->plan().weights.ngram_bytes, uint64_t{20} << 20);
  EXPECT_NE(engine->plan().table.find("n-gram rows in memory"), std::string::npos);
  auto reply = Ask(engine.get(), prompt, 20);
  ASSERT_EQ(reply->Wait().reason, FinishReason::kMaxTokens);
  EXPECT_EQ(reply->tokens(), expected->tokens());
  const NgramTierStats stats = engine->status().ngram.value();
  EXPECT_GT(stats.n_read, 0);
  EXPECT_GT(engine->weight_bytes_read(), 0u);
  EXPECT_TRUE(engine->weights_status().ok());

  using std::filesystem::last_write_time;
  last_write_time(model, last_write_time(model) + std::chrono::seconds(1));
  auto failed = Ask(engine.get(), RandomTokens(75, 50), 10);
  const GenerateResult& result = failed->Wait();
  EXPECT_EQ(result.reason, FinishReason::kError);
  EXPECT_EQ(result.status.code(), StatusCode::kDataLoss);
  EXPECT_NE(result.status.message().find(model), std::string::npos);
  EXPECT_NE(result.status.message().find("per_layer_token_embd.weight"), std::string::npos);
  EXPECT_TRUE(failed->tokens().empty());
  EXPECT_FALSE(engine->weights_status().ok());
}

TEST(WeightFileTest, WarmReadsEverythingBeforeItIsReady) {
  std::vector<double> fractions;
  const auto engine = Engine::Create({.model_path = DemoModelPath(), .ctx = 1024, .warm = true},
                                     [&](std::string_view phase, double fraction) {
                                       if (phase == "reading the weights")
                                         fractions.push_back(fraction);
                                     });
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  ASSERT_FALSE(fractions.empty());
  EXPECT_TRUE(std::ranges::is_sorted(fractions));
  EXPECT_EQ(fractions.back(), 1.0);
  for (const std::string& note : (*engine)->plan().notes) EXPECT_FALSE(note.starts_with("--warm"));
}

}  // namespace
}  // namespace holdfast

// What an engine has learned of experts is what the next one begins with.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/temp_folder.h"
#include "tests/support/engine_client.h"
#include "tests/support/random_tokens.h"

namespace holdfast {
namespace {

TEST(ExpertProfileScenarioTest, TheNextEngineReadsInWhatWasUsedBeforeAnybodyAsks) {
  const TempFolder dir = TempFolder::Create("expert_profile").value();
  const auto start = [&] {
    return StartEngine({.model_path = DemoModelPath(),
                        .ctx = 2048,
                        .expert_memory = {.kind = ExpertMemory::Kind::kSize, .bytes = 8 << 20},
                        .store_dir = dir.path() + "/store"});
  };
  const auto note = [](Engine* engine) {
    const auto& notes = engine->plan().notes;
    return std::ranges::any_of(notes, [](const std::string& text) {
      return text.find("known from earlier runs") != std::string::npos;
    });
  };
  const std::vector<TokenId> prompt = RandomTokens(81, 60);
  {
    auto engine = start();
    EXPECT_FALSE(note(engine.get()));
    auto reply = Ask(engine.get(), prompt, 10);
    ASSERT_EQ(reply->Wait().reason, FinishReason::kMaxTokens);
  }
  auto engine = start();
  EXPECT_TRUE(note(engine.get()));
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  for (auto experts = engine->status().experts; experts->n_resident < experts->n_slots;
       experts = engine->status().experts) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << experts->n_resident;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  auto again = Ask(engine.get(), prompt + RandomTokens(82, 1), 10);
  EXPECT_EQ(again->Wait().reason, FinishReason::kMaxTokens);
}

}  // namespace
}  // namespace holdfast

// Requests that find just the memory the plan gives them, or less.

#include <gtest/gtest.h>

#include <memory>

#include "ops/cpu/cpu_backend.h"
#include "tests/support/engine_client.h"
#include "tests/support/random_tokens.h"
#include "verify/rig.h"
#include "verify/stage.h"

namespace holdfast {
namespace {

class LittleMemoryTest : public ::testing::Test {
 protected:
  LittleMemoryTest()
      : backend_(*CpuBackend::Create({})),
        model_(*Model::Load(DemoModelPath(), {}, backend_.get())),
        tokenizer_(*TokenizerOf(*model_)) {}

  uint64_t Bytes(int64_t n_tokens, uint64_t n_running) const {
    const StateLayout& layout = model_->layout();
    return layout.PagesFor(n_tokens) * layout.page_bytes() + n_running * layout.running_bytes();
  }
  std::unique_ptr<Stage> MakeStage(int n_slots, uint64_t work_bytes) {
    return *Stage::Create(model_.get(), tokenizer_.get(),
                          {.ctx = 4096, .n_slots = n_slots, .work_bytes = work_bytes});
  }
  static GenerateRequest Request(std::vector<TokenId> prompt, int64_t max_tokens) {
    return {.prompt = std::move(prompt), .max_tokens = max_tokens, .ignore_eos = true};
  }

  const std::unique_ptr<CpuBackend> backend_;
  const std::unique_ptr<Model> model_;
  const std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(LittleMemoryTest, OneSlotNeedsNoMoreThanItsFiveStates) {
  GenerateRequest request = Request(RandomTokens(1, 700), 12);
  for (int64_t at = 100; at <= 690; at += 50) {
    request.checkpoints.push_back({at, CheckpointKind::kMark});
  }
  request.checkpoints.push_back({695, CheckpointKind::kBeforeReply});
  const auto roomy = MakeStage(1, Bytes(712, 40));
  const AskedPtr expected = roomy->Ask(request);
  ASSERT_TRUE(roomy->RunAll().ok());
  const auto stage = MakeStage(1, Bytes(712, 5));
  const AskedPtr asked = stage->Ask(request);
  ASSERT_TRUE(stage->RunAll().ok());
  EXPECT_EQ(asked->result.reason, FinishReason::kMaxTokens) << asked->result.status.ToString();
  EXPECT_EQ(asked->tokens, expected->tokens);
  EXPECT_LE(stage->cache().stats().peak_bytes, Bytes(712, 5));
}

TEST_F(LittleMemoryTest, ARequestWithoutRoomWaitsForOthersToEnd) {
  // The first one leaves one page for the second, which needs two.
  const auto stage = MakeStage(2, Bytes(768, 5) + Bytes(256, 3));
  const AskedPtr first = stage->Ask(Request(RandomTokens(2, 600), 40));
  ASSERT_TRUE(stage->RunUntil([&] { return first->tokens.size() > 1; }).ok());
  const AskedPtr second = stage->Ask(Request(RandomTokens(3, 400), 4));
  ASSERT_TRUE(stage->RunAll().ok());
  EXPECT_EQ(first->result.reason, FinishReason::kMaxTokens) << first->result.status.ToString();
  EXPECT_EQ(second->result.reason, FinishReason::kMaxTokens) << second->result.status.ToString();
}

TEST_F(LittleMemoryTest, WhatCannotFitAloneIsAnError) {
  ASSERT_GT(Bytes(3900, 1), Bytes(1, 2));
  const auto stage = MakeStage(1, Bytes(1, 2));
  const AskedPtr asked = stage->Ask(Request(RandomTokens(4, 3900), 4));
  ASSERT_TRUE(stage->RunAll().ok());
  EXPECT_EQ(asked->result.reason, FinishReason::kError);
  EXPECT_EQ(asked->result.status.code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace holdfast

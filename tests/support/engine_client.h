#ifndef HOLDFAST_TESTS_SUPPORT_ENGINE_CLIENT_H_
#define HOLDFAST_TESTS_SUPPORT_ENGINE_CLIENT_H_

// Requests to an engine and their answers, for tests.

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/engine.h"
#include "tests/support/fixtures.h"

namespace holdfast {

// Collects one reply; the test's thread waits for its end.
class Reply : public RequestSink {
 public:
  // Called on the engine's thread after each token.
  std::function<SinkAnswer(const std::vector<TokenId>&)> on_token;

  SinkAnswer OnToken(const TokenEvent& event) override {
    const std::lock_guard lock(mutex_);
    tokens_.push_back(event.id);
    return on_token ? on_token(tokens_) : SinkAnswer::kContinue;
  }
  void OnFinish(const GenerateResult& result) override {
    {
      const std::lock_guard lock(mutex_);
      result_ = result;
      done_ = true;
    }
    changed_.notify_all();
  }
  const GenerateResult& Wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::minutes(5), [&] { return done_; }));
    return result_;
  }
  std::vector<TokenId> tokens() {
    const std::lock_guard lock(mutex_);
    return tokens_;
  }
  bool ended() {
    const std::lock_guard lock(mutex_);
    return done_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TokenId> tokens_;
  GenerateResult result_;
  bool done_ = false;
};

inline std::string DemoModelPath() { return SourcePath("models/demo/holdfast-demo-Q4_K_M.gguf"); }

inline std::unique_ptr<Engine> StartEngine(EngineOptions options) {
  if (options.model_path.empty()) options.model_path = DemoModelPath();
  auto engine = Engine::Create(options);
  EXPECT_TRUE(engine.ok()) << engine.status().ToString();
  return engine.ok() ? std::move(*engine) : nullptr;
}

// `checkpoints`: the last one is before the reply, the first of several ends the system block.
inline std::shared_ptr<Reply> Ask(Engine* engine, std::vector<TokenId> prompt, int64_t max_tokens,
                                  std::vector<int64_t> checkpoints = {}) {
  auto reply = std::make_shared<Reply>();
  std::vector<CheckpointMark> marks;
  for (int64_t position : checkpoints) marks.push_back({position, CheckpointKind::kMark});
  if (!marks.empty()) {
    marks.front().kind = CheckpointKind::kSystem;
    marks.back().kind = CheckpointKind::kBeforeReply;
  }
  auto id = engine->Submit({.prompt = std::move(prompt),
                            .max_tokens = max_tokens,
                            .ignore_eos = true,
                            .checkpoints = std::move(marks)},
                           reply);
  EXPECT_TRUE(id.ok()) << id.status().ToString();
  return reply;
}

}  // namespace holdfast

#endif  // HOLDFAST_TESTS_SUPPORT_ENGINE_CLIENT_H_

#ifndef HOLDFAST_SERVER_FAKE_GENERATOR_H_
#define HOLDFAST_SERVER_FAKE_GENERATOR_H_

// For tests of this folder: a Generator that says what it is told, and the demo model's tokenizer
// and template around it.

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/generator.h"
#include "grammar/grammar_cache.h"
#include "server/model_service.h"
#include "token/vocabulary.h"
#include "weights/gguf.h"

namespace holdfast {

class FakeGenerator : public Generator {
 public:
  // The ids of the reply to a request, without an end token, which is added.
  using Script = std::function<std::vector<TokenId>(const GenerateRequest&)>;

  FakeGenerator(int64_t vocab_size, TokenId end_token)
      : vocab_size_(vocab_size), end_token_(end_token) {}
  ~FakeGenerator() override {
    Release();
    for (auto& thread : threads_) thread.join();
  }

  Script script = [](const GenerateRequest&) { return std::vector<TokenId>(); };
  std::chrono::milliseconds delay{0};  // before each token
  int error_after = -1;                // tokens before a kInternal error; -1: none
  Status submit_status;                // not OK: Submit fails with it
  int64_t context = 4096;
  ReuseInfo reuse;

  // Requests wait before their first token until Release().
  void Hold() {
    std::lock_guard lock(mutex_);
    held_ = true;
  }
  void Release() {
    std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }

  std::vector<GenerateRequest> requests() {
    std::lock_guard lock(mutex_);
    return requests_;
  }
  GenerateRequest last_request() { return requests().back(); }
  int n_tokens_given() {
    std::lock_guard lock(mutex_);
    return n_tokens_given_;
  }
  // Waits until `n` requests have ended because of Cancel() or kStop; false after five seconds.
  bool WaitForCancelled(int n) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(5), [&] { return n_cancelled_ >= n; });
  }
  bool WaitForRequests(size_t n) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(5), [&] { return requests_.size() >= n; });
  }

  Result<RequestId> Submit(GenerateRequest request, std::shared_ptr<RequestSink> sink) override {
    if (!submit_status.ok()) return submit_status;
    if (static_cast<int64_t>(request.prompt.size()) > context) {
      return OutOfRangeError("the prompt has " + std::to_string(request.prompt.size()) +
                             " tokens, the context holds " + std::to_string(context));
    }
    std::lock_guard lock(mutex_);
    const RequestId id = next_id_++;
    requests_.push_back(request);
    changed_.notify_all();
    threads_.emplace_back([this, id, request = std::move(request), sink = std::move(sink)] {
      Run(id, request, *sink);
    });
    return id;
  }

  void Cancel(RequestId id) override {
    std::lock_guard lock(mutex_);
    cancelled_[id] = true;
    changed_.notify_all();
  }

  int64_t context_length() const override { return context; }
  int64_t vocab_size() const override { return vocab_size_; }

 private:
  void Run(RequestId id, const GenerateRequest& request, RequestSink& sink) {
    GenerateResult result;
    result.seed = request.sampling.seed.value_or(99);
    result.timings.n_prompt = static_cast<int64_t>(request.prompt.size());
    result.reuse = reuse;
    result.reuse.tokens_read = result.timings.n_prompt - reuse.tokens_reused;
    result.timings.prompt_ms = 10.0;
    result.timings.predict_ms = 20.0;
    std::vector<TokenId> ids = script(request);
    ids.push_back(end_token_);
    result.reason = FinishReason::kEndOfTurn;
    sink.OnPromptProgress(result.timings.n_prompt, result.timings.n_prompt, reuse.tokens_reused);
    if (request.prompt_logprobs) GivePrompt(request, sink);
    if (request.max_tokens == 0) {
      ids.clear();
      result.reason = FinishReason::kMaxTokens;
    }
    for (const TokenId token : ids) {
      if (!WaitTurn(id)) {
        result.reason = FinishReason::kCancelled;
        break;
      }
      if (result.timings.n_predicted == error_after) {
        result.reason = FinishReason::kError;
        result.status = InternalError("the model gave the logit nan for token 7");
        break;
      }
      TokenEvent event{.id = token,
                       .position = result.timings.n_prompt + result.timings.n_predicted};
      if (request.n_top_logprobs >= 0) {
        event.logprob = -0.25f;
        for (int i = 0; i < request.n_top_logprobs; ++i) {
          event.top.push_back({token + i, -0.25f - static_cast<float>(i)});
        }
      }
      ++result.timings.n_predicted;
      {
        std::lock_guard lock(mutex_);
        ++n_tokens_given_;
      }
      if (sink.OnToken(event) == SinkAnswer::kStop) {
        result.reason = FinishReason::kStopped;
        break;
      }
      if (result.timings.n_predicted == request.max_tokens) {
        result.reason = FinishReason::kMaxTokens;
        break;
      }
    }
    sink.OnFinish(result);
    std::lock_guard lock(mutex_);
    if (result.reason == FinishReason::kCancelled || result.reason == FinishReason::kStopped) {
      ++n_cancelled_;
    }
    changed_.notify_all();
  }

  // The tokens of the prompt in two parts, each with -1 and as its best alternative the next id.
  static void GivePrompt(const GenerateRequest& request, RequestSink& sink) {
    std::vector<TokenEvent> tokens;
    for (const TokenId id : request.prompt) {
      TokenEvent event{.id = id, .position = static_cast<int64_t>(tokens.size()), .logprob = -1.0f};
      if (request.n_top_logprobs > 0) event.top.push_back({id + 1, -0.5f});
      tokens.push_back(std::move(event));
    }
    tokens.front().top.clear();
    const std::span<const TokenEvent> all(tokens);
    sink.OnPromptTokens(all.first((all.size() + 1) / 2));
    if (all.size() > 1) sink.OnPromptTokens(all.subspan((all.size() + 1) / 2));
  }

  // False when the request has been cancelled.
  bool WaitTurn(RequestId id) {
    std::unique_lock lock(mutex_);
    if (delay.count() > 0) {
      changed_.wait_for(lock, delay, [&] { return cancelled_[id]; });
    }
    changed_.wait(lock, [&] { return !held_ || cancelled_[id]; });
    return !cancelled_[id];
  }

  const int64_t vocab_size_;
  const TokenId end_token_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  bool held_ = false;
  RequestId next_id_ = 1;
  std::map<RequestId, bool> cancelled_;
  std::vector<GenerateRequest> requests_;
  int n_cancelled_ = 0, n_tokens_given_ = 0;
  std::vector<std::thread> threads_;
};

// The demo model without its weights.
struct DemoVocabulary {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat_template;

  static const DemoVocabulary& Get() {
    static const DemoVocabulary* const demo = [] {
      auto* made = new DemoVocabulary;
      const auto file =
          GgufFile::Open(HOLDFAST_SOURCE_DIR "/models/demo/holdfast-demo-Q4_K_M.gguf");
      EXPECT_TRUE(file.ok()) << file.status().ToString();
      made->tokenizer = Tokenizer::Create(*ReadVocabulary(**file)).value();
      made->chat_template = std::make_unique<ChatTemplate>(
          ChatTemplate::Create(made->tokenizer->chat_template()).value());
      return made;
    }();
    return *demo;
  }
};

// A service of the demo vocabulary and a FakeGenerator that answers `reply` (with added tokens).
class FakeService {
 public:
  FakeService() : generator(tokenizer().vocab_size(), *tokenizer().eos()) {
    auto made = std::make_shared<ModelService>();
    made->generator = &generator;
    made->tokenizer = &tokenizer();
    made->grammars = std::make_shared<GrammarCache>(&tokenizer());
    made->chat_template = DemoVocabulary::Get().chat_template.get();
    made->model_id = "holdfast-demo";
    made->created_s = 1700000000;
    service = made;
    generator.script = [this](const GenerateRequest&) {
      return tokenizer().Encode(reply, AddedTokens::kAll);
    };
  }

  static const Tokenizer& tokenizer() { return *DemoVocabulary::Get().tokenizer; }

  std::string reply = "Hello there.";
  FakeGenerator generator;
  std::shared_ptr<const ModelService> service;
};

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_FAKE_GENERATOR_H_

#include "engine/engine.h"
#include "holdfast/holdfast.h"
#include "token/detokenizer.h"

namespace holdfast::api {
namespace {

// Turns tokens into text for one request.
class TextSink : public RequestSink {
 public:
  TextSink(const Tokenizer* tokenizer, Callbacks callbacks)
      : text_(tokenizer), callbacks_(std::move(callbacks)) {}

  SinkAnswer OnToken(const TokenEvent& event) override {
    return Deliver(text_.Push(event.id)) ? SinkAnswer::kContinue : SinkAnswer::kStop;
  }

  void OnFinish(const GenerateResult& result) override {
    Deliver(text_.Flush());
    if (!callbacks_.on_done) return;
    const double seconds = result.timings.predict_ms / 1000;
    callbacks_.on_done(
        {.error = result.reason == FinishReason::kError ? result.status.ToString() : "",
         .cancelled = result.reason == FinishReason::kCancelled,
         .prompt_tokens = result.timings.n_prompt,
         .reused_tokens = result.reuse.tokens_reused,
         .reply_tokens = result.timings.n_predicted,
         // The first token belongs to the prompt's time.
         .tokens_per_second = seconds > 0 ? (result.timings.n_predicted - 1) / seconds : 0.0});
  }

 private:
  bool Deliver(std::string_view text) {
    return text.empty() || !callbacks_.on_text || callbacks_.on_text(text);
  }

  Detokenizer text_;
  Callbacks callbacks_;
};

class EngineImpl : public Engine {
 public:
  explicit EngineImpl(std::unique_ptr<holdfast::Engine> engine) : engine_(std::move(engine)) {}

  RequestId Submit(const Request& request, Callbacks callbacks, std::string* error) override {
    ChatTemplate::Input input{.enable_thinking = request.thinking};
    for (const Message& message : request.messages) {
      input.messages.push_back({{"role", message.role}, {"content", message.content}});
    }
    const Result<MarkedText> prompt = engine_->chat_template().Render(input);
    if (!prompt.ok()) return Refuse(prompt.status(), error);
    const Result<holdfast::RequestId> id =
        engine_->Submit({.prompt = engine_->tokenizer().Encode(*prompt),
                         .sampling = {.top_k = request.top_k,
                                      .top_p = request.top_p,
                                      .temperature = request.temperature,
                                      .seed = request.seed},
                         .max_tokens = request.max_tokens},
                        std::make_shared<TextSink>(&engine_->tokenizer(), std::move(callbacks)));
    return id.ok() ? *id : Refuse(id.status(), error);
  }

  void Cancel(RequestId id) override { engine_->Cancel(id); }
  int64_t context_length() const override { return engine_->context_length(); }

 private:
  static RequestId Refuse(const Status& status, std::string* error) {
    if (error != nullptr) *error = status.ToString();
    return 0;
  }

  std::unique_ptr<holdfast::Engine> engine_;
};

}  // namespace

std::unique_ptr<Engine> Engine::Load(const LoadOptions& options, std::string* error) {
  auto engine = holdfast::Engine::Create({.model_path = options.model_path,
                                          .mtp_path = options.mtp_path,
                                          .ctx = options.ctx,
                                          .n_threads = options.threads,
                                          .n_slots = options.slots,
                                          .store_dir = options.store_dir});
  if (!engine.ok()) {
    if (error != nullptr) *error = engine.status().ToString();
    return nullptr;
  }
  return std::make_unique<EngineImpl>(*std::move(engine));
}

}  // namespace holdfast::api

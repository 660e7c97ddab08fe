#include "cli/run.h"

#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "cli/interrupt.h"
#include "cli/loaded_model.h"
#include "cli/reply_waiter.h"
#include "cli/thinking.h"
#include "cli/token_file.h"
#include "server/chat_request.h"
#include "server/openai_common.h"

namespace holdfast::cli {
namespace {

// What is generated from, and how its reply is read.
struct Prompt {
  GenerateRequest request;
  std::optional<ReplyParser::Options> parser;  // none: raw text
};

Result<Prompt> MakePrompt(const RunOptions& options, const ModelService& model) {
  Prompt prompt;
  if (!options.tokens_path.empty()) {
    HF_ASSIGN_OR_RETURN(prompt.request.prompt, ReadTokenFile(options.tokens_path));
    return prompt;
  }
  if (options.raw) {
    prompt.request.prompt = model.tokenizer->Encode(*options.prompt, AddedTokens::kAll);
    if (const auto bos = model.tokenizer->leading_bos()) {
      prompt.request.prompt.insert(prompt.request.prompt.begin(), *bos);
    }
    return prompt;
  }
  ChatRequest chat;
  if (!options.system.empty()) {
    chat.input.messages.push_back({{"role", "system"}, {"content", options.system}});
  }
  chat.input.messages.push_back({{"role", "user"}, {"content", *options.prompt}});
  HF_RETURN_IF_ERROR(SetThinking(options.think, &chat.input));
  HF_ASSIGN_OR_RETURN(PreparedChat prepared, PrepareChat(model, chat));
  prompt.request = std::move(prepared.request);
  prompt.parser.emplace();
  prompt.parser->starts_in_think = prepared.starts_in_think;
  return prompt;
}

void SetSampling(const RunOptions& options, SamplingParams* params) {
  if (options.temp) params->temperature = *options.temp;
  if (options.top_k) params->top_k = *options.top_k;
  if (options.top_p) params->top_p = *options.top_p;
  if (options.min_p) params->min_p = *options.min_p;
  params->seed = options.seed;
}

// Keeps the generated ids beside what Generation makes of them.
class Recorder : public RequestSink {
 public:
  Recorder(std::shared_ptr<RequestSink> next, std::vector<TokenId>* ids)
      : next_(std::move(next)), ids_(ids) {}
  SinkAnswer OnToken(const TokenEvent& event) override {
    ids_->push_back(event.id);
    return next_->OnToken(event);
  }
  void OnPromptProgress(int64_t processed, int64_t total, int64_t reused) override {
    next_->OnPromptProgress(processed, total, reused);
  }
  void OnFinish(const GenerateResult& result) override { next_->OnFinish(result); }

 private:
  const std::shared_ptr<RequestSink> next_;
  std::vector<TokenId>* const ids_;
};

// An engine whose requests are recorded. The ids may be read once a request has finished.
class RecordingGenerator : public Generator {
 public:
  explicit RecordingGenerator(Generator* engine) : engine_(engine) {}
  Result<RequestId> Submit(GenerateRequest request, std::shared_ptr<RequestSink> sink) override {
    return engine_->Submit(std::move(request), std::make_shared<Recorder>(std::move(sink), &ids_));
  }
  void Cancel(RequestId id) override { engine_->Cancel(id); }
  int64_t context_length() const override { return engine_->context_length(); }
  int64_t vocab_size() const override { return engine_->vocab_size(); }
  const std::vector<TokenId>& ids() const { return ids_; }

 private:
  Generator* const engine_;
  std::vector<TokenId> ids_;
};

// Thinking, answer and calls as text, as they come.
void PrintEvent(const GenerationEvent& event, std::ostream& out) {
  const auto* reply = std::get_if<ReplyEvent>(&event);
  if (reply == nullptr) return;
  if (reply->kind == ReplyEvent::Kind::kToolCallBegin) {
    out << "\n" << reply->name << " ";
  } else {
    out << reply->text;
  }
  out.flush();
}

Json ResultJson(const FinishedReply& finished, const std::vector<TokenId>& ids,
                const Tokenizer& tokenizer) {
  Json json;
  json["tokens"] = ids;
  json["text"] = tokenizer.Decode(ids, /*include_control=*/false);
  json["finish_reason"] =
      finished.result.reason == FinishReason::kCancelled ? "cancelled" : FinishReasonText(finished);
  json["seed"] = finished.result.seed;
  json["timings"] = TimingsJson(finished.result);
  json["reuse"] = ReuseJson(finished.result.reuse);
  return json;
}

}  // namespace

Status RunRun(const RunOptions& options, std::ostream& out) {
  if (options.prompt.has_value() == !options.tokens_path.empty()) {
    return InvalidArgumentError("give either --prompt or --tokens");
  }
  HF_ASSIGN_OR_RETURN(EngineOptions engine_options, ToEngineOptions(options.model));
  engine_options.profile = options.profile.Make();
  HF_ASSIGN_OR_RETURN(const LoadedModel loaded, LoadModel(engine_options, TerminalProgress()));
  PrintNotes(*loaded.engine);
  HF_ASSIGN_OR_RETURN(Prompt prompt, MakePrompt(options, *loaded.service));
  prompt.request.sampling = loaded.service->default_sampling;
  SetSampling(options, &prompt.request.sampling);
  prompt.request.max_tokens = options.n;
  prompt.request.ignore_eos = options.ignore_eos;

  RecordingGenerator recorder(loaded.engine.get());
  auto service = std::make_shared<ModelService>(*loaded.service);
  service->generator = &recorder;
  ReplyAssembler assembler = prompt.parser
                                 ? ReplyAssembler(service->tokenizer, std::move(*prompt.parser), {})
                                 : ReplyAssembler(service->tokenizer, {});
  const InterruptCatcher catcher;
  HF_ASSIGN_OR_RETURN(const FinishedReply finished,
                      RunToEnd(
                          service, std::move(prompt.request), std::move(assembler),
                          [&](const GenerationEvent& event) {
                            if (!options.json) PrintEvent(event, out);
                          },
                          &InterruptCatcher::pressed));
  if (finished.result.reason == FinishReason::kError) return ReplyStatus(finished);
  if (options.json) {
    out << ToText(ResultJson(finished, recorder.ids(), *service->tokenizer));
  }
  out << std::endl;
  if (!engine_options.profile) return OkStatus();
  return options.profile.Report(*engine_options.profile, /*with_table=*/true, std::cerr);
}

}  // namespace holdfast::cli

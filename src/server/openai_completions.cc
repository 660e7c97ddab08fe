#include "server/openai_completions.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>

#include "server/conversation_name.h"
#include "server/generation_response.h"
#include "server/openai_common.h"
#include "server/request_id.h"
#include "token/detokenizer.h"
#include "token/utf8.h"

namespace holdfast {
namespace {

struct ParsedCompletion {
  std::vector<TokenId> prompt;
  bool echo = false;  // the reply begins with the prompt
  GenerationOptions options;
  StreamOptions stream;

  bool ScoresPrompt() const { return echo && options.n_top_logprobs >= 0; }
};

// Log-probabilities in a response that is sent as a whole, and so is kept until it is complete.
constexpr int64_t kMaxKeptLogprobs = 1'000'000;

// Ids of an array of integers; false when it is not one.
bool ReadIds(const Json& array, std::vector<TokenId>* ids) {
  for (const Json& id : array) {
    // Ids outside the vocabulary are the engine's to refuse; these would not even fit.
    if (!id.is_number_integer() || id < 0 || id > 0x7fffffff) return false;
    ids->push_back(id.get<TokenId>());
  }
  return true;
}

// A string, token ids, or an array with one of these.
void ReadPrompt(FieldReader& in, const Tokenizer& tokenizer, std::vector<TokenId>* prompt) {
  const Json* value = in.Find("prompt");
  if (value == nullptr) return in.Fail("prompt", InvalidArgumentError("prompt is missing"));
  if (value->is_array() && !value->empty() && !value->front().is_number()) {
    if (value->size() != 1) {
      return in.Fail("prompt", UnimplementedError(fmt::format(
                                   "prompt holds {} prompts, this server takes one per request",
                                   value->size())));
    }
    value = &value->front();
  }
  if (value->is_string()) {
    *prompt = tokenizer.Encode(value->get_ref<const std::string&>(), AddedTokens::kAll);
    const auto bos = tokenizer.leading_bos();
    if (bos && (prompt->empty() || prompt->front() != *bos)) prompt->insert(prompt->begin(), *bos);
  } else if (!value->is_array() || !ReadIds(*value, prompt)) {
    return in.Refuse("prompt", *value, "a string or an array of token ids");
  }
  if (prompt->empty()) in.Fail("prompt", InvalidArgumentError("prompt is empty"));
}

void RefuseUnsupported(FieldReader& in) {
  std::string suffix;
  int best_of = 1;
  in.Read("suffix", &suffix);
  in.Read("best_of", &best_of, 1, 1);
  if (!suffix.empty()) in.Fail("suffix", UnimplementedError("suffix is not supported"));
}

void CheckSize(FieldReader& in, const ParsedCompletion& parsed) {
  const int64_t n_tokens = static_cast<int64_t>(parsed.prompt.size());
  const int64_t n_each = parsed.options.n_top_logprobs + 1;
  if (n_tokens * n_each <= kMaxKeptLogprobs) return;
  in.Fail("logprobs",
          InvalidArgumentError(fmt::format(
              "logprobs is {}: {} prompt tokens with {} log-probabilities each are more than {} "
              "in one response, ask for fewer or with stream true",
              n_each - 1, n_tokens, n_each, kMaxKeptLogprobs)));
}

ApiError ParseCompletion(const ModelService& model, const Json& body, ParsedCompletion* parsed) {
  parsed->options.sampling = model.default_sampling;
  FieldReader in(body);
  ReadGenerationOptions(in, model.generator->vocab_size(), &parsed->options);
  // `true` is what chat clients send; OpenAI's completions want a count.
  const Json* logprobs = in.Find("logprobs");
  if (logprobs != nullptr && logprobs->is_boolean()) {
    parsed->options.n_top_logprobs = logprobs->get<bool>() ? 0 : -1;
  } else {
    in.Read("logprobs", &parsed->options.n_top_logprobs, 0, 20);
  }
  RefuseUnsupported(in);
  ReadStreamOptions(in, &parsed->stream);
  ReadPrompt(in, *model.tokenizer, &parsed->prompt);
  in.Read("echo", &parsed->echo);
  if (in.ok() && parsed->ScoresPrompt() && !parsed->stream.stream) CheckSize(in, *parsed);
  return in.error();
}

// OpenAI's older logprobs object, filled token by token.
class LegacyLogprobs {
 public:
  void Add(const TokenDetail& detail, bool has_logprob = true) {
    const std::string text = RepairUtf8(detail.chosen.bytes);
    tokens_.push_back(text);
    token_logprobs_.push_back(has_logprob ? Number(detail.chosen.logprob) : Json());
    top_logprobs_.push_back(has_logprob ? Alternatives(detail, text) : Json());
    text_offset_.push_back(offset_);
    offset_ += CountUtf8(text);
  }

  // What was added since the last call; null if nothing.
  Json Take() {
    if (tokens_.empty()) return {};
    Json json;
    json["tokens"] = std::exchange(tokens_, Json::array());
    json["token_logprobs"] = std::exchange(token_logprobs_, Json::array());
    json["top_logprobs"] = std::exchange(top_logprobs_, Json::array());
    json["text_offset"] = std::exchange(text_offset_, Json::array());
    return json;
  }

 private:
  // JSON has no infinity; OpenAI's word for a token that cannot come.
  static Json Number(float logprob) { return std::isinf(logprob) ? Json(-9999.0) : Json(logprob); }

  // The token itself is always there: one more than asked for when it is not among the best. Of
  // tokens with the same text the best counts.
  static Json Alternatives(const TokenDetail& detail, const std::string& text) {
    Json top = Json::object();
    const auto add = [&](const std::string& key, float logprob) {
      if (!top.contains(key)) top[key] = Number(logprob);
    };
    for (const TokenDetail::Choice& choice : detail.top) {
      add(RepairUtf8(choice.bytes), choice.logprob);
    }
    add(text, detail.chosen.logprob);
    return top;
  }

  Json tokens_ = Json::array(), token_logprobs_ = Json::array();
  Json top_logprobs_ = Json::array(), text_offset_ = Json::array();
  int64_t offset_ = 0;  // in characters of the reply
};

// text_completion objects, streamed or one at the end: both have the same shape.
class CompletionFormatter : public ReplyFormatter {
 public:
  CompletionFormatter(const std::shared_ptr<const ModelService>& model, ParsedCompletion parsed)
      : model_(model), parsed_(std::move(parsed)), prompt_text_(model->tokenizer, true) {
    if (parsed_.echo && !parsed_.ScoresPrompt()) {
      text_ = model->tokenizer->Decode(parsed_.prompt, true);
    }
  }

  bool streaming() const override { return options().stream; }

  std::string Begin() override {
    return text_.empty() ? std::string() : ServerSentEvent(ToText(Object(text_, Json())));
  }

  std::string Add(const GenerationEvent& event) override {
    if (const auto* detail = std::get_if<TokenDetail>(&event)) {
      logprobs_.Add(*detail);
    } else if (const auto* prompt = std::get_if<PromptDetails>(&event)) {
      const std::string text = AddPrompt(*prompt);
      if (options().stream) return ServerSentEvent(ToText(Object(text, Json())));
      text_ += text;
    } else if (const auto* finished = std::get_if<FinishedReply>(&event)) {
      finished_ = *finished;
      if (options().stream) return End();
    } else if (const auto* reply = std::get_if<ReplyEvent>(&event)) {
      if (options().stream) return ServerSentEvent(ToText(Object(reply->text, Json())));
      text_ += reply->text;
    } else if (options().stream) {
      Json chunk = Head();
      chunk["choices"] = Json::array();
      chunk["prompt_progress"] = PromptProgressJson(std::get<PromptProgress>(event));
      return ServerSentEvent(ToText(chunk));
    }
    return {};
  }

  HttpResponse Whole() override {
    if (const Status status = ReplyStatus(finished_); !status.ok()) {
      return OpenAiErrorResponse({.status = status});
    }
    Json object = Object(text_, FinishReasonText(finished_));
    AddSummary(finished_, /*with_usage=*/true, &object);
    HttpResponse response;
    response.body = ToText(object);
    return response;
  }

  std::string Heartbeat() override { return ": still here\n\n"; }

 private:
  const StreamOptions& options() const { return parsed_.stream; }

  // The text of prompt tokens whose log-probabilities are there.
  std::string AddPrompt(const PromptDetails& details) {
    std::string text;
    int64_t position = details.first_position;
    for (const TokenDetail& detail : details.tokens) {
      logprobs_.Add(detail, /*has_logprob=*/position > 0);
      text += prompt_text_.Push(detail.chosen.id);
      ++position;
    }
    if (position == static_cast<int64_t>(parsed_.prompt.size())) text += prompt_text_.Flush();
    return text;
  }

  Json Head() const { return ObjectHead(id_, "text_completion", created_s_, model_->model_id); }

  Json Object(const std::string& text, Json finish_reason) {
    Json object = Head();
    Json choice;
    choice["index"] = 0;
    choice["text"] = text;
    choice["logprobs"] = logprobs_.Take();
    choice["finish_reason"] = std::move(finish_reason);
    object["choices"] = Json::array({std::move(choice)});
    return object;
  }

  std::string End() {
    std::string out;
    if (const Status status = ReplyStatus(finished_); !status.ok()) {
      out = ServerSentEvent(OpenAiErrorBody({.status = status}));
    } else {
      Json last = Object("", FinishReasonText(finished_));
      AddSummary(finished_, options().include_usage, &last);
      out = ServerSentEvent(ToText(last));
    }
    return out + ServerSentEvent("[DONE]");
  }

  const std::string id_ = MakeId("cmpl-");
  const int64_t created_s_ = UnixTime();
  const std::shared_ptr<const ModelService> model_;
  const ParsedCompletion parsed_;
  Detokenizer prompt_text_;
  std::string text_;  // of the whole object; streaming: what it begins with
  LegacyLogprobs logprobs_;
  FinishedReply finished_;
};

}  // namespace

HttpReply HandleCompletions(const std::shared_ptr<const ModelService>& model,
                            const HttpRequest& request) {
  const Result<Json> body = ParseJson(request.body);
  if (!body.ok()) return OpenAiErrorResponse({.status = body.status()});
  ParsedCompletion parsed;
  if (const ApiError error = ParseCompletion(*model, *body, &parsed); !error.status.ok()) {
    return OpenAiErrorResponse(error);
  }
  GenerateRequest generate;
  generate.prompt = parsed.prompt;
  generate.sampling = std::move(parsed.options.sampling);
  generate.max_tokens = parsed.options.max_tokens;
  generate.ignore_eos = parsed.options.ignore_eos;
  generate.n_top_logprobs = parsed.options.n_top_logprobs;
  generate.prompt_logprobs = parsed.ScoresPrompt();
  generate.conversation = ConversationName(request);
  Generation::Options options;
  options.progress = parsed.stream.stream && parsed.stream.progress;
  options.slot = parsed.options.slot;
  Result<std::shared_ptr<Generation>> generation =
      Generation::Start(model, std::move(generate),
                        ReplyAssembler(model->tokenizer, std::move(parsed.options.stop)), options);
  if (!generation.ok()) return OpenAiErrorResponse(SubmitError(generation.status()));
  return HttpReply(std::make_unique<GenerationResponse>(
      *generation, std::make_unique<CompletionFormatter>(model, std::move(parsed))));
}

}  // namespace holdfast

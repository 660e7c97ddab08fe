#include "server/openai_common.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>

#include "base/version.h"
#include "engine/reuse.h"

namespace holdfast {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();

// "-1" and "0" both mean all tokens in one engine or another.
void ReadTopK(FieldReader& in, SamplingParams* params) {
  in.Read("top_k", &params->top_k, -1, static_cast<int>(kMaxInt));
  if (params->top_k == -1) params->top_k = 0;
}

// OpenAI allows 0; the fewest tokens that reach it is one token, as for any tiny probability.
void ReadTopP(FieldReader& in, SamplingParams* params) {
  in.Read("top_p", &params->top_p, 0.0, 1.0);
  if (params->top_p == 0.0f) params->top_p = std::numeric_limits<float>::min();
}

// Any 64-bit integer; -1 asks for a random seed, as in llama.cpp.
void ReadSeed(FieldReader& in, SamplingParams* params) {
  const Json* seed = in.Find("seed");
  if (seed == nullptr) return;
  if (!seed->is_number_integer()) return in.Refuse("seed", *seed, "an integer");
  if (!seed->is_number_unsigned() && seed->get<int64_t>() == -1) {
    params->seed.reset();
  } else if (seed->is_number_unsigned()) {
    params->seed = seed->get<uint64_t>();
  } else {
    params->seed = static_cast<uint64_t>(seed->get<int64_t>());
  }
}

void AddBias(FieldReader& in, const Json& id, const Json& bias, SamplingParams* params) {
  int64_t token = -1;
  if (id.is_string()) {
    const std::string& text = id.get_ref<const std::string&>();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), token);
    if (error != std::errc() || end != text.data() + text.size()) token = -1;
  } else if (id.is_number_integer()) {
    token = id.get<int64_t>();
  }
  if (token < 0 || token > kMaxInt) {
    return in.Fail("logit_bias",
                   InvalidArgumentError(fmt::format("logit_bias has the key {}, must be a token id",
                                                    ShortText(id))));
  }
  float value = -std::numeric_limits<float>::infinity();
  if (bias.is_number()) {
    value = bias.get<float>();
  } else if (!(bias.is_boolean() && !bias.get<bool>())) {  // llama.cpp: false bans the token
    return in.Fail("logit_bias", InvalidArgumentError(fmt::format(
                                     "logit_bias of token {} is {}, must be a number or false",
                                     token, ShortText(bias))));
  }
  params->logit_bias.emplace_back(static_cast<TokenId>(token), value);
}

// {"id": bias} of OpenAI, or [[id, bias]] of llama.cpp.
void ReadLogitBias(FieldReader& in, SamplingParams* params) {
  const Json* bias = in.Find("logit_bias");
  if (bias == nullptr) return;
  if (bias->is_object()) {
    for (const auto& [key, value] : bias->items()) AddBias(in, Json(key), value, params);
    return;
  }
  if (!bias->is_array())
    return in.Refuse("logit_bias", *bias, "an object of token ids and numbers");
  for (const Json& pair : *bias) {
    if (!pair.is_array() || pair.size() != 2) {
      return in.Refuse("logit_bias", pair, "pairs of a token id and a number");
    }
    AddBias(in, pair[0], pair[1], params);
  }
}

void ReadMaxTokens(FieldReader& in, GenerationOptions* options) {
  // The newer name wins where a client sends both; -1 is llama.cpp's "no limit".
  for (const char* key : {"n_predict", "max_tokens", "max_completion_tokens"}) {
    in.Read(key, &options->max_tokens, -1, kMaxInt);
  }
}

}  // namespace

void ReadGenerationOptions(FieldReader& in, int64_t vocab_size, GenerationOptions* options) {
  SamplingParams& params = options->sampling;
  in.Read("temperature", &params.temperature, 0.0, 1e3);
  ReadTopK(in, &params);
  ReadTopP(in, &params);
  in.Read("min_p", &params.min_p, 0.0, 1.0);
  in.Read("repetition_penalty", &params.repeat_penalty, 1e-3, 1e3);  // vLLM
  in.Read("repeat_penalty", &params.repeat_penalty, 1e-3, 1e3);      // llama.cpp
  in.Read("frequency_penalty", &params.frequency_penalty, -2.0, 2.0);
  in.Read("presence_penalty", &params.presence_penalty, -2.0, 2.0);
  in.Read("repeat_last_n", &params.penalty_last_n, -1, static_cast<int>(kMaxInt));
  in.Read("penalty_last_n", &params.penalty_last_n, -1, static_cast<int>(kMaxInt));
  ReadSeed(in, &params);
  ReadLogitBias(in, &params);
  ReadMaxTokens(in, options);
  in.Read("ignore_eos", &options->ignore_eos);
  in.Read("id_slot", &options->slot, -1, static_cast<int>(kMaxInt));
  in.Read("stop", &options->stop);
  if (const Status status = ValidateStopStrings(options->stop); !status.ok()) {
    in.Fail("stop", status);
  }
  int n = 1;
  in.Read("n", &n, 1, 1);
  // Fields are in range one by one; this checks what is left (ids, infinities).
  if (const Status status = params.Validate(vocab_size); !status.ok()) {
    const std::string& message = status.message();  // begins with the field's name
    in.Fail(message.substr(0, message.find(' ')), status);
  }
}

void ReadStreamOptions(FieldReader& in, StreamOptions* options) {
  in.Read("stream", &options->stream);
  in.Read("return_progress", &options->progress);
  if (const Json* stream_options = in.Object("stream_options")) {
    FieldReader inner(*stream_options, "stream_options.");
    inner.Read("include_usage", &options->include_usage);
    if (!inner.ok()) in.Fail("stream_options", inner.error().status);
  }
}

std::string_view FinishReasonText(const FinishedReply& finished) {
  switch (finished.result.reason) {
    case FinishReason::kMaxTokens:
    case FinishReason::kContextFull:
      return "length";
    default:
      return finished.has_tool_calls ? "tool_calls" : "stop";
  }
}

Status ReplyStatus(const FinishedReply& finished) {
  const GenerateResult& result = finished.result;
  if (result.reason == FinishReason::kError) {
    return result.status.ok() ? InternalError("the reply ended with an unknown error")
                              : result.status;
  }
  if (result.reason == FinishReason::kCancelled) {
    return result.status.ok() ? CancelledError("the request was cancelled") : result.status;
  }
  return OkStatus();
}

ApiError SubmitError(Status status) {
  ApiError error;
  if (status.code() == StatusCode::kOutOfRange) error.code = "context_length_exceeded";
  if (status.code() == StatusCode::kUnavailable ||
      status.code() == StatusCode::kResourceExhausted) {
    error.retry_after_s = 1;
  }
  error.status = std::move(status);
  return error;
}

Json UsageJson(const FinishedReply& finished) {
  const GenerateTimings& timings = finished.result.timings;
  Json usage;
  usage["prompt_tokens"] = timings.n_prompt;
  usage["completion_tokens"] = timings.n_predicted;
  usage["total_tokens"] = timings.n_prompt + timings.n_predicted;
  usage["prompt_tokens_details"] = {{"cached_tokens", finished.result.reuse.tokens_reused}};
  usage["completion_tokens_details"] = {{"reasoning_tokens", finished.n_reasoning_tokens}};
  return usage;
}

Json TimingsJson(const GenerateResult& result) {
  const GenerateTimings& timings = result.timings;
  const auto per_token = [](double ms, int64_t n) {
    return n > 0 ? ms / static_cast<double>(n) : 0;
  };
  const auto per_second = [](double ms, int64_t n) {
    return ms > 0 ? 1000.0 * static_cast<double>(n) / ms : 0;
  };
  const int64_t n_read = result.reuse.tokens_read;
  Json json;
  json["cache_n"] = result.reuse.tokens_reused;
  json["prompt_n"] = n_read;
  json["prompt_ms"] = timings.prompt_ms;
  json["prompt_per_token_ms"] = per_token(timings.prompt_ms, n_read);
  json["prompt_per_second"] = per_second(timings.prompt_ms, n_read);
  json["predicted_n"] = timings.n_predicted;
  json["predicted_ms"] = timings.predict_ms;
  json["predicted_per_token_ms"] = per_token(timings.predict_ms, timings.n_predicted);
  json["predicted_per_second"] = per_second(timings.predict_ms, timings.n_predicted);
  if (timings.n_drafted > 0) {
    json["draft_n"] = timings.n_drafted;
    json["draft_n_accepted"] = timings.n_accepted;
    Json& depths = json["drafts"] = Json::array();
    for (const DraftCounts::Depth& depth : timings.drafts.depths) {
      if (depth.n_drafted == 0) break;
      depths.push_back({{"drafted", depth.n_drafted}, {"accepted", depth.n_accepted}});
    }
  }
  json["queue_ms"] = timings.queue_ms;
  return json;
}

Json ReuseJson(const ReuseInfo& reuse) {
  Json json;
  json["source"] = ReuseSourceName(reuse.source);
  json["tokens_reused"] = reuse.tokens_reused;
  json["tokens_read"] = reuse.tokens_read;
  json["tokens_known"] = reuse.tokens_known;
  json["restore_ms"] = reuse.restore_ms;
  json["first_difference"] = reuse.first_difference < 0 ? Json() : Json(reuse.first_difference);
  json["reason"] = reuse.reason;
  json["limit"] = reuse.limit.empty() ? Json() : Json(std::string(reuse.limit));
  json["conversation"] = reuse.conversation.empty() ? Json() : Json(reuse.conversation);
  return json;
}

Json PromptProgressJson(const PromptProgress& progress) {
  Json json;
  json["total"] = progress.total;
  json["cache"] = progress.reused;
  json["processed"] = progress.processed;
  return json;
}

Json ObjectHead(std::string_view id, std::string_view object, int64_t created_s,
                std::string_view model_id) {
  Json head;
  head["id"] = id;
  head["object"] = object;
  head["created"] = created_s;
  head["model"] = model_id;
  head["system_fingerprint"] = std::string("holdfast-") + kVersion;
  return head;
}

void AddSummary(const FinishedReply& finished, bool with_usage, Json* object) {
  if (with_usage) (*object)["usage"] = UsageJson(finished);
  (*object)["seed"] = finished.result.seed;
  (*object)["timings"] = TimingsJson(finished.result);
  (*object)["reuse"] = ReuseJson(finished.result.reuse);
  (*object)["conversation"] = finished.result.conversation;
}

int64_t UnixTime() {
  using std::chrono::duration_cast;
  using std::chrono::seconds;
  return duration_cast<seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace holdfast

#include "server/llama_api.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "base/version.h"
#include "engine/engine.h"
#include "server/api_error.h"
#include "server/field_reader.h"
#include "server/json.h"
#include "server/openai_chat.h"
#include "token/utf8.h"

namespace holdfast {
namespace {

using Service = std::shared_ptr<const ModelService>;

HttpResponse JsonResponse(const Json& body) {
  HttpResponse response;
  response.body = ToText(body);
  return response;
}

Json SamplingJson(const SamplingParams& params) {
  Json json;
  json["temperature"] = params.temperature;
  json["top_k"] = params.top_k;
  json["top_p"] = params.top_p;
  json["min_p"] = params.min_p;
  json["repeat_penalty"] = params.repeat_penalty;
  json["frequency_penalty"] = params.frequency_penalty;
  json["presence_penalty"] = params.presence_penalty;
  json["repeat_last_n"] = params.penalty_last_n;
  return json;
}

std::string TokenText(const Tokenizer& tokenizer, std::optional<TokenId> id) {
  return id ? std::string(tokenizer.TokenBytes(*id, /*include_control=*/true)) : std::string();
}

// A piece as text, or as its bytes where it is only part of a character.
Json PieceJson(std::string_view bytes) {
  if (RepairUtf8(bytes) == bytes) return Json(std::string(bytes));
  Json array = Json::array();
  for (const char byte : bytes) array.push_back(static_cast<unsigned char>(byte));
  return array;
}

// The body of a request, or an error response.
std::optional<HttpResponse> ReadBody(const HttpRequest& request, Json* body) {
  Result<Json> parsed = ParseJson(request.body);
  if (!parsed.ok()) return OpenAiErrorResponse({.status = parsed.status()});
  *body = *std::move(parsed);
  return std::nullopt;
}

}  // namespace

HttpReply HandleProps(const Service& model, const HttpRequest&) {
  const Tokenizer& tokenizer = *model->tokenizer;
  Json body;
  Json& settings = body["default_generation_settings"];
  settings["n_ctx"] = model->generator->context_length();
  settings["params"] = SamplingJson(model->default_sampling);
  if (model->engine != nullptr) body["total_slots"] = model->engine->plan().n_slots;
  body["model_alias"] = model->model_id;
  body["model_path"] = model->model_id;  // where it lies is nobody's business
  body["chat_template"] = model->chat_template->source();
  body["bos_token"] = TokenText(tokenizer, tokenizer.bos());
  body["eos_token"] = TokenText(tokenizer, tokenizer.eos());
  body["modalities"] = {{"vision", false}, {"audio", false}};
  body["build_info"] = fmt::format("holdfast-{}", kVersion);
  return JsonResponse(body);
}

HttpReply HandleTokenize(const Service& model, const HttpRequest& request) {
  Json body;
  if (auto error = ReadBody(request, &body)) return *std::move(error);
  FieldReader in(body);
  std::string content;
  bool add_special = false, parse_special = true, with_pieces = false;
  in.Read("content", &content);
  in.Read("add_special", &add_special);
  in.Read("parse_special", &parse_special);
  in.Read("with_pieces", &with_pieces);
  if (in.ok() && in.Find("content") == nullptr) {
    in.Fail("content", InvalidArgumentError("content is missing"));
  }
  if (!in.ok()) return OpenAiErrorResponse(in.error());
  std::vector<TokenId> ids = model->tokenizer->Encode(
      content, parse_special ? AddedTokens::kAll : AddedTokens::kUserDefinedOnly);
  if (const auto bos = model->tokenizer->leading_bos(); add_special && bos) {
    ids.insert(ids.begin(), *bos);
  }
  Json reply;
  Json& tokens = reply["tokens"] = Json::array();
  for (const TokenId id : ids) {
    if (with_pieces) {
      tokens.push_back({{"id", id}, {"piece", PieceJson(model->tokenizer->TokenBytes(id, true))}});
    } else {
      tokens.push_back(id);
    }
  }
  return JsonResponse(reply);
}

HttpReply HandleDetokenize(const Service& model, const HttpRequest& request) {
  Json body;
  if (auto error = ReadBody(request, &body)) return *std::move(error);
  FieldReader in(body);
  std::vector<TokenId> ids;
  const Json* tokens = in.Find("tokens");
  if (tokens == nullptr) {
    in.Fail("tokens", InvalidArgumentError("tokens is missing"));
  } else if (!tokens->is_array()) {
    in.Refuse("tokens", *tokens, "an array of token ids");
  }
  for (size_t i = 0; in.ok() && i < tokens->size(); ++i) {
    const Json& id = (*tokens)[i];
    if (!id.is_number_integer() || id < 0 || id >= model->tokenizer->vocab_size()) {
      in.Refuse(fmt::format("tokens[{}]", i), id,
                fmt::format("a token id below {}", model->tokenizer->vocab_size()));
    } else {
      ids.push_back(id.get<TokenId>());
    }
  }
  if (!in.ok()) return OpenAiErrorResponse(in.error());
  Json reply;
  reply["content"] = model->tokenizer->Decode(ids, /*include_control=*/true);
  return JsonResponse(reply);
}

HttpReply HandleApplyTemplate(const Service& model, const HttpRequest& request) {
  ApiError error;
  const std::optional<ChatRequest> chat = ParseOpenAiChat(*model, request, &error);
  if (!chat) return OpenAiErrorResponse(error);
  const Result<MarkedText> prompt = model->chat_template->Render(chat->input);
  if (!prompt.ok()) return OpenAiErrorResponse({.status = prompt.status(), .param = "messages"});
  Json reply;
  reply["prompt"] = prompt->text;
  return JsonResponse(reply);
}

HttpReply Unsupported(std::string_view what, const HttpRequest& request) {
  ApiError error;
  error.status = UnimplementedError(fmt::format("{} is not supported ({})", request.path, what));
  error.code = "unsupported";
  return ErrorResponseFor(request, error);
}

}  // namespace holdfast

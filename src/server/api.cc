#include "server/api.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/anthropic_api.h"
#include "server/api_error.h"
#include "server/conversation_name.h"
#include "server/json.h"
#include "server/llama_api.h"
#include "server/openai_chat.h"
#include "server/openai_completions.h"
#include "server/responses_api.h"
#include "server/session_api.h"
#include "server/slots_api.h"
#include "server/state_api.h"
#include "server/status_api.h"
#include "server/store_api.h"
#include "server/web_page.h"

namespace holdfast {
namespace {

using Service = std::shared_ptr<const ModelService>;

HttpResponse JsonResponse(const Json& body, int status = 200) {
  HttpResponse response;
  response.status = status;
  response.body = ToText(body);
  return response;
}

// 503: still loading (with how far), or why there will be no model.
HttpResponse NotReady(const ModelState& state, const HttpRequest& request) {
  ApiError error;
  if (const Status failure = state.failure(); !failure.ok()) {
    error.status = UnavailableError("the model could not be loaded: " + failure.message());
    error.code = "model_failed";
  } else {
    const ModelState::Progress progress = state.progress();
    error.status = UnavailableError(
        fmt::format("the model is loading: {}, {:.0f}%", progress.phase, 100 * progress.fraction));
    error.code = "model_loading";
    error.retry_after_s = 1;
  }
  return ErrorResponseFor(request, error);
}

HttpResponse Health(const ModelState& state) {
  Json body;
  if (const Service service = state.service()) {
    body["status"] = "ok";
    body["model"] = service->model_id;
    body["engine_restarts"] = service->n_restarts;
    return JsonResponse(body);
  }
  if (const Status failure = state.failure(); !failure.ok()) {
    body["status"] = "failed";
    body["reason"] = failure.message();
  } else {
    const ModelState::Progress progress = state.progress();
    body["status"] = "loading";
    body["phase"] = progress.phase;
    body["progress"] = progress.fraction;
  }
  HttpResponse response = JsonResponse(body, 503);
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

// "2026-09-01T12:00:00Z"
std::string Rfc3339(int64_t unix_s) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(unix_s)));
}

// The names of OpenAI's and of Anthropic's API together; they do not collide.
Json ModelJson(const ModelService& service) {
  Json model;
  model["id"] = service.model_id;
  model["object"] = "model";
  model["created"] = service.created_s;
  model["owned_by"] = "holdfast";
  model["type"] = "model";
  model["display_name"] = service.model_id;
  model["created_at"] = Rfc3339(service.created_s);
  model["context_length"] = service.generator->context_length();
  model["max_model_len"] = service.generator->context_length();  // vLLM's name
  model["meta"] = {{"n_vocab", service.generator->vocab_size()},
                   {"n_ctx", service.generator->context_length()}};
  return model;
}

HttpReply ListModels(const Service& service, const HttpRequest&) {
  Json body;
  body["object"] = "list";
  body["data"] = Json::array({ModelJson(*service)});
  body["first_id"] = body["last_id"] = service->model_id;
  body["has_more"] = false;
  return JsonResponse(body);
}

HttpReply GetModel(const Service& service, const HttpRequest& request) {
  const std::string id = request.path.substr(std::string_view("/v1/models/").size());
  if (id != service->model_id) {
    return OpenAiErrorResponse(
        {.status = NotFoundError(
             fmt::format("there is no model with this id; this server has {}", service->model_id)),
         .param = "model",
         .code = "model_not_found"});
  }
  return JsonResponse(ModelJson(*service));
}

constexpr char kImportPath[] = "/v1/conversations/import";

HttpReply GetConversation(const Service& service, const HttpRequest& request,
                          SessionApi* sessions) {
  constexpr std::string_view kExport = "/export";
  const std::string rest = request.path.substr(std::string_view("/v1/conversations/").size());
  if (!rest.ends_with(kExport)) return HandleShowConversation(service, rest);
  return sessions->Export(service, rest.substr(0, rest.size() - kExport.size()), request);
}

// One route that needs the model.
struct Route {
  const char* method;
  const char* path;  // a trailing '*' stands for anything that follows
  std::function<HttpReply(const Service&, const HttpRequest&)> handle;
};

// What the handler of all requests consists of.
struct Api {
  explicit Api(ModelState* model_state);

  ModelState& state;
  ResponsesApi responses;
  SessionApi sessions;
  std::vector<Route> routes;
};

Api::Api(ModelState* model_state) : state(*model_state) {
  routes = {
      {"POST", "/v1/chat/completions", HandleChatCompletions},
      {"POST", "/chat/completions", HandleChatCompletions},
      {"POST", "/v1/completions", HandleCompletions},
      {"POST", "/v1/responses", [this](auto& m, auto& r) { return responses.Create(m, r); }},
      {"POST", "/v1/responses/input_tokens",
       [this](auto& m, auto& r) { return responses.CountInput(m, r); }},
      {"GET", "/v1/responses/*", [this](auto&, auto& r) { return responses.Get(r); }},
      {"DELETE", "/v1/responses/*", [this](auto&, auto& r) { return responses.Delete(r); }},
      {"POST", "/v1/messages", HandleMessages},
      {"POST", "/v1/messages/count_tokens", HandleCountTokens},
      {"GET", "/v1/models", ListModels},
      {"GET", "/models", ListModels},
      {"GET", "/v1/models/*", GetModel},
      {"GET", "/props", HandleProps},
      {"POST", "/tokenize", HandleTokenize},
      {"POST", "/detokenize", HandleDetokenize},
      {"POST", "/apply-template", HandleApplyTemplate},
      {"POST", "/v1/cache/explain", HandleExplain},
      {"GET", "/v1/conversations", HandleConversations},
      {"DELETE", "/v1/conversations/*", HandleDeleteConversation},
      {"POST", kImportPath, [this](auto& m, auto& r) { return sessions.Import(m, r); }},
      {"POST", "/v1/conversations/restore", HandleRestore},
      {"GET", "/v1/conversations/*",
       [this](auto& m, auto& r) { return GetConversation(m, r, &sessions); }},
      {"POST", "/v1/conversations/*", HandleConversationAction},
      {"GET", "/v1/store", HandleStoreUsage},
      {"POST", "/v1/store/gc", HandleStoreGc},
      {"POST", "/v1/store/verify", HandleStoreVerify},
      {"GET", "/slots", HandleSlots},
      {"POST", "/slots/*", HandleSlotAction},
      {"GET", "/v1/status", HandleStatus},
      {"GET", "/metrics", HandleMetrics},
  };
  for (const auto& [path, why] : kUnsupportedPaths) {
    routes.push_back({"POST", path, [why = why](auto&, auto& r) { return Unsupported(why, r); }});
  }
}

bool Matches(std::string_view pattern, std::string_view path) {
  if (!pattern.ends_with('*')) return pattern == path;
  pattern.remove_suffix(1);
  return path.size() > pattern.size() && path.starts_with(pattern);
}

HttpResponse WrongMethod(const std::string& allowed, const HttpRequest& request) {
  HttpResponse response =
      ErrorResponseFor(request, {.status = InvalidArgumentError(fmt::format(
                                     "{} takes {}, not {}", request.path, allowed, request.method)),
                                 .http_status = 405});
  response.headers.emplace_back("Allow", allowed);
  return response;
}

HttpReply Dispatch(Api& api, const HttpRequest& request) {
  ModelState& state = api.state;
  // HEAD is GET without the body, which the connection leaves out.
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  if (request.path == "/health" || request.path == "/v1/health") {
    return method == "GET" ? Health(state) : WrongMethod("GET", request);
  }
  if (IsWebPagePath(request.path)) {
    std::optional<HttpResponse> page = WebPage(request);
    return page ? *std::move(page) : WrongMethod("GET", request);
  }
  std::string allowed;
  for (const Route& route : api.routes) {
    if (!Matches(route.path, request.path)) continue;
    if (method != route.method) {
      allowed = route.method;
      continue;
    }
    const Service service = state.service();
    if (service == nullptr) return NotReady(state, request);
    const Status name = CheckConversationName(request);
    if (!name.ok()) return ErrorResponseFor(request, {.status = name});
    return route.handle(service, request);
  }
  if (!allowed.empty()) return WrongMethod(allowed, request);
  return ErrorResponseFor(
      request,
      {.status = NotFoundError(fmt::format("there is no {} {}", request.method, request.path))});
}

}  // namespace

std::function<Result<std::shared_ptr<BodySink>>(const HttpRequest& head)> MakeBodyOpener(
    ModelState* state) {
  return [state](const HttpRequest& head) -> Result<std::shared_ptr<BodySink>> {
    if (head.method != "POST" || head.path != kImportPath) return std::shared_ptr<BodySink>();
    const Service service = state->service();
    if (service == nullptr) return UnavailableError("the model is loading");
    return SessionApi::OpenImport(*service);
  };
}

HttpHandler MakeApi(ModelState* state) {
  return [api = std::make_shared<Api>(state)](const HttpRequest& request) {
    return Dispatch(*api, request);
  };
}

}  // namespace holdfast

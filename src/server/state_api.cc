#include "server/state_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/api_error.h"
#include "server/chat_request.h"
#include "server/field_reader.h"
#include "server/generation.h"
#include "server/json.h"
#include "server/openai_chat.h"
#include "server/openai_common.h"
#include "server/session_api.h"

namespace holdfast {
namespace {

constexpr std::string_view kConversations = "/v1/conversations/";

HttpResponse JsonResponse(const Json& body) {
  HttpResponse response;
  response.body = ToText(body);
  return response;
}

HttpResponse NoEngine() {
  return OpenAiErrorResponse(
      {.status = UnimplementedError("this server has no engine of its own to ask")});
}

int64_t UnixTimeMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Json EmptyEntry(const std::string& id) {
  Json entry;
  entry["id"] = id;
  entry["in_ram"] = false;
  entry["bound"] = false;
  entry["pinned"] = false;
  entry["n_tokens"] = 0;
  entry["ram_bytes"] = 0;
  entry["shared_bytes"] = 0;
  entry["checkpoints"] = Json::array();
  entry["durable_tokens"] = 0;
  entry["disk_bytes"] = 0;
  return entry;
}

std::vector<Json> ListInRam(Engine* engine) {
  std::vector<Json> entries;
  const double now_ms = static_cast<double>(UnixTimeMs());
  engine->RunBetweenSteps([&](Scheduler&, StateCache& cache) {
    for (const Conversation* c : cache.List()) {
      Json entry = EmptyEntry(c->id());
      entry["in_ram"] = true;
      entry["bound"] = c->bound();
      entry["pinned"] = c->pinned();
      entry["n_tokens"] = c->n_computed();
      entry["ram_bytes"] = cache.ExclusiveBytes(*c);
      entry["shared_bytes"] = cache.SharedBytes(*c);
      entry["used_ms"] = static_cast<int64_t>(now_ms - 1000 * cache.AgeSeconds(*c));
      for (const Checkpoint& checkpoint : c->checkpoints()) {
        entry["checkpoints"].push_back(
            {{"position", checkpoint.position}, {"kind", CheckpointKindName(checkpoint.kind)}});
      }
      entries.push_back(std::move(entry));
    }
  });
  return entries;
}

Status AddFromDisk(Store* store, std::vector<Json>* entries) {
  HF_ASSIGN_OR_RETURN(const std::vector<ConversationInfo> stored, store->List());
  std::map<std::string, size_t> by_id;
  for (size_t i = 0; i < entries->size(); ++i) by_id[(*entries)[i]["id"]] = i;
  for (const ConversationInfo& info : stored) {
    auto [it, is_new] = by_id.try_emplace(info.id, entries->size());
    if (is_new) {
      entries->push_back(EmptyEntry(info.id));
      entries->back()["n_tokens"] = info.n_tokens;
    }
    Json& entry = (*entries)[it->second];
    entry["durable_tokens"] = info.durable_tokens;
    entry["disk_bytes"] = info.bytes;
    entry["used_ms"] = std::max(entry.value("used_ms", int64_t{0}), info.used_ms);
    if (info.pinned) entry["pinned"] = true;
    if (!info.title.empty()) entry["title"] = info.title;
    if (!info.quarantined.empty()) entry["quarantined"] = info.quarantined;
    entry["usable"] = info.usable;
  }
  return OkStatus();
}

// OK in RAM or on disk is OK; kNotFound only when neither knows the conversation.
Status Either(const Status& ram, const Status& disk) {
  if (ram.ok() || disk.ok()) {
    for (const Status* status : {&ram, &disk}) {
      if (!status->ok() && status->code() != StatusCode::kNotFound) return *status;
    }
    return OkStatus();
  }
  return ram.code() == StatusCode::kNotFound ? disk : ram;
}

Status OnEngine(Engine* engine, const std::function<Status(StateCache&)>& fn) {
  Status status = UnavailableError("the engine is shutting down");
  engine->RunBetweenSteps([&](Scheduler&, StateCache& cache) { status = fn(cache); });
  return status;
}

Status OnDisk(Engine* engine, const std::function<Status(Store*)>& fn) {
  if (engine->persistence() == nullptr) return NotFoundError("nothing is kept on disk");
  return fn(engine->persistence()->store());
}

HttpReply Outcome(const Status& status, const std::string& id) {
  if (!status.ok()) return OpenAiErrorResponse({.status = status});
  Json body;
  body["id"] = id;
  body["ok"] = true;
  return JsonResponse(body);
}

Status Pin(Engine* engine, const std::string& id, bool pinned) {
  return Either(OnEngine(engine, [&](StateCache& cache) { return cache.SetPinned(id, pinned); }),
                OnDisk(engine, [&](Store* store) { return store->Pin(id, pinned); }));
}

Status Fork(Engine* engine, const std::string& id, const std::string& body) {
  HF_ASSIGN_OR_RETURN(const Json json, ParseJson(body));
  if (!json.is_object() || !json.contains("id") || !json["id"].is_string()) {
    return InvalidArgumentError("the body must be {\"id\": the new conversation's name}");
  }
  const std::string new_id = json["id"];
  FieldReader in(json);
  int64_t position = -1;
  in.Read("position", &position, -1, std::numeric_limits<int64_t>::max());
  if (!in.ok()) return in.error().status;
  if (position >= 0) {  // where it was before only the store knows
    HF_RETURN_IF_ERROR(SaveWhatIsInRam(engine, id));
    return OnDisk(engine, [&](Store* store) { return store->Fork(id, new_id, position); });
  }
  return Either(
      OnEngine(engine, [&](StateCache& cache) { return cache.Fork(id, new_id).status(); }),
      OnDisk(engine, [&](Store* store) { return store->Fork(id, new_id); }));
}

// With {"filename": NAME} also to a session file of that name.
HttpReply Save(Engine* engine, const std::string& id, const std::string& body) {
  Result<Json> json(Json::object());
  if (!body.empty()) json = ParseJson(body);
  if (json.ok() && json->is_object() && !json->contains("filename")) {
    return Outcome(engine->SaveConversation(id), id);
  }
  const Result<std::string> filename = ReadFilename(body);
  if (!filename.ok()) {
    return OpenAiErrorResponse({.status = filename.status(), .param = "filename"});
  }
  const Result<NamedSession> saved = SaveNamed(engine, id, *filename);
  if (!saved.ok()) return OpenAiErrorResponse({.status = saved.status()});
  return JsonResponse(NamedSessionJson(*filename, *saved));
}

}  // namespace

HttpReply HandleExplain(const ServicePtr& model, const HttpRequest& request) {
  if (model->engine == nullptr) return NoEngine();
  ApiError error;
  const std::optional<PreparedChat> prepared = PrepareOpenAiChat(*model, request, &error);
  if (!prepared) return OpenAiErrorResponse(error);
  Json body;
  body["prompt_tokens"] = prepared->request.prompt.size();
  ReuseInfo reuse = model->engine->Explain(prepared->request.prompt);
  AddReuseNote(prepared->note, &reuse.reason);
  body["reuse"] = ReuseJson(reuse);
  return JsonResponse(body);
}

HttpReply HandleConversations(const ServicePtr& model, const HttpRequest&) {
  if (model->engine == nullptr) return NoEngine();
  std::vector<Json> entries = ListInRam(model->engine);
  if (Persistence* persistence = model->engine->persistence()) {
    const Status status = AddFromDisk(persistence->store(), &entries);
    if (!status.ok()) return OpenAiErrorResponse({.status = status});
  }
  Json body;
  body["object"] = "list";
  body["data"] = std::move(entries);
  return JsonResponse(body);
}

Status DeleteConversation(Engine* engine, const std::string& id) {
  const Status in_ram = OnEngine(engine, [&](StateCache& cache) -> Status {
    Conversation* c = cache.FindById(id);
    if (c == nullptr) return NotFoundError(fmt::format("there is no conversation {}", id));
    if (c->bound()) {
      return FailedPreconditionError(fmt::format("conversation {} is being computed", id));
    }
    cache.Discard(c);
    cache.UnregisterDisk(id);
    return OkStatus();
  });
  if (in_ram.code() == StatusCode::kFailedPrecondition) return in_ram;
  return Either(in_ram, OnDisk(engine, [&](Store* store) { return store->Remove(id); }));
}

HttpReply HandleDeleteConversation(const ServicePtr& model, const HttpRequest& request) {
  if (model->engine == nullptr) return NoEngine();
  const std::string id = request.path.substr(kConversations.size());
  return Outcome(DeleteConversation(model->engine, id), id);
}

HttpReply HandleConversationAction(const ServicePtr& model, const HttpRequest& request) {
  if (model->engine == nullptr) return NoEngine();
  const std::string rest = request.path.substr(kConversations.size());
  const size_t slash = rest.rfind('/');
  const std::string id = rest.substr(0, slash);
  const std::string action = slash == std::string::npos ? "" : rest.substr(slash + 1);
  if (action == "pin" || action == "unpin")
    return Outcome(Pin(model->engine, id, action == "pin"), id);
  if (action == "fork") return Outcome(Fork(model->engine, id, request.body), id);
  if (action == "save") return Save(model->engine, id, request.body);
  return OpenAiErrorResponse(
      {.status = NotFoundError("a conversation can be told pin, unpin, fork or save")});
}

}  // namespace holdfast

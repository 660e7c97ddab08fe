#include "server/status_api.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <string>

#include "base/host_memory.h"
#include "base/version.h"
#include "engine/engine.h"
#include "engine/reuse.h"
#include "server/api_error.h"
#include "server/json.h"
#include "server/openai_common.h"
#include "server/request_history.h"

namespace holdfast {
namespace {

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

int64_t NowMs() {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return duration_cast<milliseconds>(now).count();
}

Json ModelJson(const ModelService& model) {
  const ModelConfig& config = model.engine->config();
  Json json;
  json["id"] = model.model_id;
  json["name"] = config.name.empty() ? Json() : Json(config.name);
  json["n_layers"] = config.n_layers;
  json["n_mtp_layers"] = config.n_mtp_layers;
  json["n_experts"] = config.n_experts;
  json["n_experts_used"] = config.n_experts_used;
  json["n_vocab"] = config.vocab_size;
  json["n_ctx"] = model.engine->context_length();
  json["n_ctx_train"] = config.context_length;
  json["file_bytes"] = model.engine->file().file_bytes();
  json["loaded_s"] = model.created_s;
  return json;
}

Json ComputeJson(const Engine& engine) {
  Json json;
  json["backend"] = engine.backend().name();
  json["kernels"] = engine.backend().kernels().name;
  json["n_threads"] = engine.backend().n_threads();
  json["kv_format"] = KvFormatName(engine.options().kv_format);
  json["checkpoint_ratio"] = engine.checkpoint_policy().ratio;
  json["checkpoint_min_gap"] = engine.checkpoint_policy().min_gap;
  return json;
}

Json SettingsJson(const ModelService& model) {
  Json list = Json::array();
  for (const Setting& setting : model.settings) {
    list.push_back({{"name", setting.name}, {"value", setting.value}, {"source", setting.source}});
  }
  return list;
}

Json PlanJson(const MemoryPlan& plan) {
  Json json;
  json["n_slots"] = plan.n_slots;
  json["n_ctx"] = plan.ctx;
  json["weight_bytes"] = plan.weights.mapped_bytes;
  json["expert_bytes"] = plan.weights.arena_bytes;
  json["ngram_bytes"] = plan.weights.ngram_bytes;
  json["repacked_bytes"] = plan.weights.repacked_bytes;
  json["scratch_bytes"] = plan.scratch_bytes;
  json["work_bytes"] = plan.work_bytes;
  json["cache_bytes"] = plan.cache_bytes;
  json["min_free_bytes"] = plan.min_free_bytes;
  json["available_bytes"] = OrNull(plan.available_bytes);
  json["notes"] = plan.notes;
  return json;
}

// Read now: the guard's last reading may be old.
Json HostJson() {
  const HostMemory host = ReadHostMemory();
  Json json;
  json["total_bytes"] = OrNull(host.total_bytes);
  json["available_bytes"] = OrNull(host.available_bytes);
  json["limited_by"] = host.limited_by;
  json["resident_bytes"] = OrNull(ReadProcessResidentBytes());
  return json;
}

Json StateJson(const StateCacheStats& stats) {
  Json json;
  json["limit_bytes"] = stats.limit_bytes;
  json["taken_bytes"] = stats.taken_bytes;
  json["parked_bytes"] = stats.parked_bytes;
  json["page_bytes"] = stats.pages.in_use_bytes;
  json["running_bytes"] = stats.running.in_use_bytes;
  json["n_bound"] = stats.n_bound;
  json["n_parked"] = stats.n_parked;
  json["n_on_disk"] = stats.n_on_disk;
  json["n_checkpoints"] = stats.n_checkpoints;
  json["n_evicted"] = stats.n_evicted;
  json["tokens_reused"] = stats.n_tokens_reused;
  return json;
}

Json SlotsJson(const SchedulerStatus& status) {
  Json list = Json::array();
  for (const SlotStatus& slot : status.slots) {
    Json json;
    json["request"] = slot.request;
    json["conversation"] = slot.conversation;
    json["state"] = slot.reading ? "reading" : "decoding";
    json["n_tokens"] = slot.n_tokens;
    json["n_computed"] = slot.n_computed;
    json["n_decoded"] = slot.n_generated;
    json["tokens_per_s"] = slot.reading ? Json() : Json(slot.tokens_per_s);
    list.push_back(std::move(json));
  }
  return list;
}

Json StepsJson(const EngineStatus& status) {
  const SchedulerStatus& scheduler = status.scheduler;
  Json json;
  json["n"] = scheduler.n_steps;
  json["last_ms"] = scheduler.n_steps > 0 ? Json(scheduler.last_step_ms) : Json();
  json["age_ms"] = status.scheduler_age_ms;
  json["n_waiting"] = scheduler.n_waiting;
  Json& drafts = json["drafts"] = Json::array();
  for (const DraftCounts::Depth& depth : scheduler.drafts.depths) {
    drafts.push_back({{"drafted", depth.n_drafted}, {"accepted", depth.n_accepted}});
  }
  return json;
}

std::string_view AutosaveName(Autosave autosave) {
  switch (autosave) {
    case Autosave::kTurn:
      return "turn";
    case Autosave::kIdle:
      return "idle";
    case Autosave::kOff:
      return "off";
  }
  return "off";
}

Json StoreJson(Persistence* persistence) {
  if (persistence == nullptr) return Json();
  const PersistenceStats stats = persistence->stats();
  Json json;
  json["autosave"] = AutosaveName(persistence->autosave());
  json["n_saves"] = stats.n_saves;
  json["n_failed_saves"] = stats.n_failed_saves;
  json["n_pending"] = stats.n_pending;
  json["n_restores"] = stats.n_restores;
  json["n_failed_proofs"] = stats.n_failed_proofs;
  json["bytes_written"] = stats.bytes_written;
  json["bytes_read"] = stats.bytes_read;
  json["last_error"] = stats.last_error.empty() ? Json() : Json(stats.last_error);
  Json& usage = json["usage"];
  if (const Result<DiskUsage> du = persistence->store()->Du(); du.ok()) {
    usage["segment_bytes"] = du->segment_bytes;
    usage["live_bytes"] = du->live_bytes;
    usage["catalogue_bytes"] = du->catalogue_bytes;
    usage["quarantine_bytes"] = du->quarantine_bytes;
    usage["n_conversations"] = du->n_conversations;
  }
  return json;
}

std::string_view EndName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEndOfTurn:
      return "end_of_turn";
    case FinishReason::kMaxTokens:
      return "max_tokens";
    case FinishReason::kContextFull:
      return "context_full";
    case FinishReason::kStopped:
      return "stopped";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "error";
}

Json RequestJson(const RequestHistory::Entry& entry) {
  const GenerateResult& result = entry.result;
  Json json;
  json["number"] = entry.number;
  json["finished_ms"] = entry.finished_ms;
  json["conversation"] = result.conversation;
  json["end"] = EndName(result.reason);
  json["prompt_tokens"] = result.timings.n_prompt;
  json["generated"] = result.timings.n_predicted;
  json["queue_ms"] = result.timings.queue_ms;
  json["prompt_ms"] = result.timings.prompt_ms;
  json["predict_ms"] = result.timings.predict_ms;
  json["drafted"] = result.timings.n_drafted;
  json["accepted"] = result.timings.n_accepted;
  json["reuse"] = ReuseJson(result.reuse);
  return json;
}

Json RequestsJson(const ModelService& model, int64_t after) {
  Json list = Json::array();
  if (model.history == nullptr) return list;
  for (const RequestHistory::Entry& entry : model.history->After(after)) {
    list.push_back(RequestJson(entry));
  }
  return list;
}

// N of "after=N"; 0 without. None: not a number.
std::optional<int64_t> ReadAfter(const HttpRequest& request) {
  const std::string_view text = request.query_value("after").value_or("0");
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

}  // namespace

HttpReply HandleStatus(const ServicePtr& model, const HttpRequest& request) {
  if (model->engine == nullptr) {
    return OpenAiErrorResponse(
        {.status = UnimplementedError("this server has no engine of its own to ask")});
  }
  const std::optional<int64_t> after = ReadAfter(request);
  if (!after) {
    return OpenAiErrorResponse(
        {.status = InvalidArgumentError("after is not a whole number of 0 or more"),
         .param = "after"});
  }
  Engine& engine = *model->engine;
  const EngineStatus status = engine.status();
  Json body;
  body["version"] = kVersion;
  body["time_ms"] = NowMs();
  body["model"] = ModelJson(*model);
  body["compute"] = ComputeJson(engine);
  body["settings"] = SettingsJson(*model);
  body["plan"] = PlanJson(engine.plan());
  body["host"] = HostJson();
  body["state"] = StateJson(status.cache);
  body["steps"] = StepsJson(status);
  body["slots"] = SlotsJson(status.scheduler);
  body["store"] = StoreJson(engine.persistence());
  body["last_request"] = model->history != nullptr ? Json(model->history->last_number()) : Json();
  body["requests"] = RequestsJson(*model, *after);
  HttpResponse response;
  response.headers = {{"Cache-Control", "no-store"}};
  response.body = ToText(body);
  return response;
}

}  // namespace holdfast

#include "server/slots_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "server/api_error.h"
#include "server/json.h"
#include "server/session_api.h"
#include "server/slot_names.h"
#include "server/state_api.h"

namespace holdfast {
namespace {

using Clock = std::chrono::steady_clock;

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

HttpReply NoSlots() {
  return OpenAiErrorResponse(
      {.status = UnimplementedError("this server has no engine of its own to ask")});
}

// One action on one slot.
class SlotAction {
 public:
  SlotAction(const ModelService& model, int slot) : model_(model), slot_(slot) {}

  Result<Json> Save(const std::string& filename) {
    const auto start = Clock::now();
    HF_RETURN_IF_ERROR(StoreOf(*model_.engine).status());
    const std::string id = Conversation();
    if (id.empty()) return InvalidArgumentError(fmt::format("slot {} has no conversation", slot_));
    HF_ASSIGN_OR_RETURN(const NamedSession saved, SaveNamed(model_.engine, id, filename));
    Json json = Head(filename);
    json["n_saved"] = saved.n_tokens;
    json["n_written"] = saved.bytes;
    json["timings"]["save_ms"] = MsSince(start);
    json["conversation"] = id;
    return json;
  }

  Result<Json> Restore(const std::string& filename) {
    const auto start = Clock::now();
    HF_ASSIGN_OR_RETURN(const NamedSession restored, RestoreNamed(model_.engine, filename));
    model_.slots->Use(restored.conversation, slot_);
    Json json = Head(filename);
    json["n_restored"] = restored.n_tokens;
    json["n_read"] = restored.bytes;
    json["timings"]["restore_ms"] = MsSince(start);
    json["conversation"] = restored.conversation;
    json["notes"] = restored.notes;
    return json;
  }

  Result<Json> Erase() {
    const std::string id = Conversation();
    int64_t n_tokens = 0;
    if (!id.empty()) {
      n_tokens = CountTokens(id);
      const Status deleted = DeleteConversation(model_.engine, id);
      if (!deleted.ok() && deleted.code() != StatusCode::kNotFound) return deleted;
    }
    model_.slots->Clear(slot_);
    Json json;
    json["id_slot"] = slot_;
    json["n_erased"] = n_tokens;
    return json;
  }

 private:
  std::string Conversation() const { return model_.slots->All().at(static_cast<size_t>(slot_)); }

  Json Head(const std::string& filename) const {
    Json json;
    json["id_slot"] = slot_;
    json["filename"] = filename;
    return json;
  }

  int64_t CountTokens(const std::string& id) const {
    int64_t n = 0;
    model_.engine->RunBetweenSteps([&](Scheduler&, StateCache& cache) {
      if (const auto* c = cache.FindById(id)) n = c->n_computed();
    });
    if (model_.engine->persistence() == nullptr) return n;
    const auto stored = model_.engine->persistence()->store()->Tokens(id);
    return stored.ok() ? std::max(n, stored->n_live) : n;
  }

  const ModelService& model_;
  const int slot_;
};

// N of "/slots/N".
Result<int> ReadSlot(const std::string& path, int n_slots) {
  const std::string_view text = std::string_view(path).substr(std::string_view("/slots/").size());
  int slot = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slot);
  if (error == std::errc() && end == text.data() + text.size() && slot >= 0 && slot < n_slots) {
    return slot;
  }
  return InvalidArgumentError(
      fmt::format("there is no such slot, this server has 0 to {}", n_slots - 1));
}

}  // namespace

HttpReply HandleSlots(const std::shared_ptr<const ModelService>& model, const HttpRequest&) {
  if (model->engine == nullptr || model->slots == nullptr) return NoSlots();
  const std::vector<SlotStatus> busy = model->engine->status().scheduler.slots;
  // What is being computed has a number from its beginning; there are no more of them than numbers.
  for (const SlotStatus& status : busy) model->slots->Use(status.conversation);
  Json body = Json::array();
  for (const std::string& conversation : model->slots->All()) {
    Json entry;
    entry["id"] = body.size();
    const auto it = std::ranges::find(busy, conversation, &SlotStatus::conversation);
    entry["is_processing"] = it != busy.end();
    entry["n_ctx"] = model->engine->context_length();
    entry["conversation"] = conversation.empty() ? Json() : Json(conversation);
    if (it != busy.end()) {
      entry["state"] = it->reading ? "reading" : "decoding";
      entry["n_tokens"] = it->n_tokens;
      entry["n_computed"] = it->n_computed;
      entry["n_decoded"] = it->n_generated;
      entry["tokens_per_s"] = it->tokens_per_s;
    }
    body.push_back(std::move(entry));
  }
  HttpResponse response;
  response.body = ToText(body);
  return response;
}

HttpReply HandleSlotAction(const std::shared_ptr<const ModelService>& model,
                           const HttpRequest& request) {
  if (model->engine == nullptr || model->slots == nullptr) return NoSlots();
  const Result<int> slot = ReadSlot(request.path, model->slots->size());
  if (!slot.ok()) return OpenAiErrorResponse({.status = slot.status(), .param = "id_slot"});
  const std::string_view action = request.query_value("action").value_or("");
  if (action != "save" && action != "restore" && action != "erase") {
    return OpenAiErrorResponse(
        {.status = InvalidArgumentError("action must be save, restore or erase"),
         .param = "action"});
  }
  SlotAction on(*model, *slot);
  Result<Json> done = InternalError("no action");
  if (action == "erase") {
    done = on.Erase();
  } else {
    const Result<std::string> filename = ReadFilename(request.body);
    if (!filename.ok()) {
      return OpenAiErrorResponse({.status = filename.status(), .param = "filename"});
    }
    done = action == "save" ? on.Save(*filename) : on.Restore(*filename);
  }
  if (!done.ok()) return OpenAiErrorResponse({.status = done.status()});
  HttpResponse response;
  response.body = ToText(*done);
  return response;
}

}  // namespace holdfast

#include "store/session_manifest.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace holdfast {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxTokens = std::numeric_limits<int32_t>::max();
constexpr size_t kMaxStates = 1 << 16;

std::string Hex64(uint64_t value) { return fmt::format("{:016x}", value); }

Json StateToJson(const SaveState& state) {
  Json json;
  json["position"] = state.position;
  json["kind"] = StateKindName(state.kind);
  json["has_draft"] = state.has_draft;
  json["next_token"] = state.proof ? Json(state.proof->next_token) : Json();
  json["next_row"] = state.proof ? Json(state.proof->row.Hex()) : Json();
  return json;
}

Json MessageToJson(const StoredMessage& message) {
  Json json;
  json["role"] = message.role;
  json["content"] = message.content;
  json["tool_call_ids"] = message.tool_call_ids;
  json["hash"] = message.hash.Hex();
  json["token_begin"] = message.token_begin;
  json["token_end"] = message.token_end;
  return json;
}

// Reads typed fields of one object and remembers the first thing that is wrong.
class FieldReader {
 public:
  FieldReader(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) Fail("is not an object");
  }

  const Status& status() const { return status_; }

  std::string Text(const char* name) {
    const Json* field = Field(name);
    if (field == nullptr) return "";
    if (!field->is_string()) return Fail(fmt::format("{} is not a string", name)), "";
    return field->get<std::string>();
  }

  int64_t Int(const char* name, int64_t low, int64_t high) {
    const Json* field = Field(name);
    if (field == nullptr) return low;
    const bool fits = field->is_number_integer() &&
                      !(field->is_number_unsigned() &&
                        field->get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()});
    const int64_t value = fits ? field->get<int64_t>() : low;
    if (!fits || value < low || value > high) {
      Fail(fmt::format("{} is not an integer from {} to {}", name, low, high));
      return low;
    }
    return value;
  }

  bool Bool(const char* name) {
    const Json* field = Field(name);
    if (field == nullptr) return false;
    if (!field->is_boolean()) return Fail(fmt::format("{} is not true or false", name)), false;
    return field->get<bool>();
  }

  Hash128 Hash(const char* name) {
    const std::optional<Hash128> hash = Hash128::FromHex(Text(name));
    if (!hash) Fail(fmt::format("{} is not 32 hex digits", name));
    return hash.value_or(Hash128{});
  }

  uint64_t Key(const char* name) {
    const std::optional<Hash128> hash = Hash128::FromHex(std::string(16, '0') + Text(name));
    if (!hash) Fail(fmt::format("{} is not 16 hex digits", name));
    return hash.value_or(Hash128{}).low;
  }

  bool IsNull(const char* name) {
    const Json* field = Field(name);
    return field == nullptr || field->is_null();
  }

  std::vector<std::string> Texts(const char* name) {
    std::vector<std::string> texts;
    for (const Json& item : Array(name, std::numeric_limits<size_t>::max())) {
      if (!item.is_string()) return Fail(fmt::format("{} holds no strings", name)), texts;
      texts.push_back(item.get<std::string>());
    }
    return texts;
  }

  const Json& Array(const char* name, size_t max_size) {
    static const Json kEmpty = Json::array();
    const Json* field = Field(name);
    if (field == nullptr) return kEmpty;
    if (!field->is_array() || field->size() > max_size) {
      Fail(fmt::format("{} is not an array of at most {}", name, max_size));
      return kEmpty;
    }
    return *field;
  }

  const Json& Object(const char* name) {
    static const Json kEmpty = Json::object();
    const Json* field = Field(name);
    return field == nullptr ? kEmpty : *field;
  }

  void Take(const Status& status) {
    if (status_.ok()) status_ = status;
  }

 private:
  const Json* Field(const char* name) {
    if (!status_.ok()) return nullptr;
    const auto found = object_.find(name);
    if (found == object_.end()) return Fail(fmt::format("{} is missing", name)), nullptr;
    return &*found;
  }

  void Fail(const std::string& what) { Take(DataLossError(where_ + ": " + what)); }

  const Json& object_;
  std::string where_;
  Status status_;
};

Result<StateKind> ParseStateKind(const std::string& name) {
  for (int kind = 0; kind <= static_cast<int>(StateKind::kLiveEnd); ++kind) {
    if (StateKindName(static_cast<StateKind>(kind)) == name) return static_cast<StateKind>(kind);
  }
  return DataLossError("session manifest: unknown kind of state");
}

Result<SaveState> ParseState(const Json& json, const SessionManifest& manifest) {
  FieldReader fields(json, "session manifest: state");
  SaveState state;
  state.position = fields.Int("position", 1, manifest.n_live);
  const std::string kind = fields.Text("kind");
  state.has_draft = fields.Bool("has_draft");
  if (!fields.IsNull("next_token")) {
    const int64_t max_token = std::max<int64_t>(manifest.keys.vocab_size - 1, 0);
    state.proof = StateProof{static_cast<int32_t>(fields.Int("next_token", 0, max_token)),
                             fields.Hash("next_row")};
  }
  HF_RETURN_IF_ERROR(fields.status());
  HF_ASSIGN_OR_RETURN(state.kind, ParseStateKind(kind));
  return state;
}

Result<StoredMessage> ParseMessage(const Json& json, const SessionManifest& manifest) {
  FieldReader fields(json, "session manifest: message");
  StoredMessage message;
  message.role = fields.Text("role");
  message.content = fields.Text("content");
  message.tool_call_ids = fields.Texts("tool_call_ids");
  message.hash = fields.Hash("hash");
  message.token_begin = fields.Int("token_begin", 0, manifest.n_tokens);
  message.token_end = fields.Int("token_end", message.token_begin, manifest.n_tokens);
  HF_RETURN_IF_ERROR(fields.status());
  return message;
}

Result<ModelIdentity> ParseModel(const Json& json) {
  FieldReader fields(json, "session manifest: model");
  ModelIdentity model;
  model.name = fields.Text("name");
  model.config = fields.Hash("config");
  model.vocabulary = fields.Hash("vocabulary");
  model.provisional = fields.Hash("provisional");
  if (!fields.IsNull("full")) model.full = fields.Hash("full");
  model.draft = fields.Hash("draft");
  HF_RETURN_IF_ERROR(fields.status());
  return model;
}

Result<StoreKeys> ParseKeys(const Json& json) {
  constexpr int64_t kMaxSize = std::numeric_limits<int64_t>::max();
  FieldReader fields(json, "session manifest");
  StoreKeys keys;
  keys.trunk_layout_key = fields.Key("trunk_layout_key");
  keys.draft_layout_key = fields.Key("draft_layout_key");
  keys.kv_format = fields.Text("kv_format");
  keys.numerics_key = fields.Text("numerics_key");
  keys.page_tokens = static_cast<int>(fields.Int("page_tokens", 1, kMaxTokens));
  keys.page_bytes = static_cast<size_t>(fields.Int("page_bytes", 1, kMaxSize));
  keys.running_bytes = static_cast<size_t>(fields.Int("running_bytes", 0, kMaxSize));
  keys.draft_page_bytes = static_cast<size_t>(fields.Int("draft_page_bytes", 0, kMaxSize));
  keys.draft_running_bytes = static_cast<size_t>(fields.Int("draft_running_bytes", 0, kMaxSize));
  keys.vocab_size = fields.Int("vocab_size", 0, kMaxTokens);
  HF_RETURN_IF_ERROR(fields.status());
  HF_ASSIGN_OR_RETURN(keys.model, ParseModel(fields.Object("model")));
  const Status valid = keys.Validate();
  if (!valid.ok()) return DataLossError("session manifest: " + valid.message());
  return keys;
}

}  // namespace

std::string SessionManifestToText(const SessionManifest& manifest) {
  const StoreKeys& keys = manifest.keys;
  Json json;
  json["conversation"] = manifest.conversation;
  json["title"] = manifest.title;
  json["tags"] = manifest.tags;
  json["created_ms"] = manifest.created_ms;
  Json& model = json["model"];
  model["name"] = keys.model.name;
  model["config"] = keys.model.config.Hex();
  model["vocabulary"] = keys.model.vocabulary.Hex();
  model["provisional"] = keys.model.provisional.Hex();
  model["full"] = keys.model.full ? Json(keys.model.full->Hex()) : Json();
  model["draft"] = keys.model.draft.Hex();
  json["trunk_layout_key"] = Hex64(keys.trunk_layout_key);
  json["draft_layout_key"] = Hex64(keys.draft_layout_key);
  json["kv_format"] = keys.kv_format;
  json["numerics_key"] = keys.numerics_key;
  json["page_tokens"] = keys.page_tokens;
  json["page_bytes"] = keys.page_bytes;
  json["running_bytes"] = keys.running_bytes;
  json["draft_page_bytes"] = keys.draft_page_bytes;
  json["draft_running_bytes"] = keys.draft_running_bytes;
  json["vocab_size"] = keys.vocab_size;
  json["n_tokens"] = manifest.n_tokens;
  json["n_live"] = manifest.n_live;
  json["has_content"] = manifest.has_content;
  json["has_draft"] = manifest.has_draft;
  json["states"] = Json::array();
  for (const SaveState& state : manifest.states) json["states"].push_back(StateToJson(state));
  json["messages"] = Json::array();
  for (const StoredMessage& message : manifest.messages) {
    json["messages"].push_back(MessageToJson(message));
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<SessionManifest> ParseSessionManifest(std::span<const std::byte> text) {
  const auto* begin = reinterpret_cast<const char*>(text.data());
  const Json json = Json::parse(begin, begin + text.size(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return DataLossError("session manifest: is not JSON");
  FieldReader fields(json, "session manifest");
  SessionManifest manifest;
  manifest.conversation = fields.Text("conversation");
  manifest.title = fields.Text("title");
  manifest.tags = fields.Texts("tags");
  manifest.created_ms = fields.Int("created_ms", 0, std::numeric_limits<int64_t>::max());
  manifest.n_tokens = fields.Int("n_tokens", 1, kMaxTokens);
  manifest.n_live = fields.Int("n_live", 1, manifest.n_tokens);
  manifest.has_content = fields.Bool("has_content");
  manifest.has_draft = fields.Bool("has_draft");
  HF_RETURN_IF_ERROR(fields.status());
  HF_ASSIGN_OR_RETURN(manifest.keys, ParseKeys(json));
  if (manifest.has_draft && manifest.keys.draft_layout_key == 0) {
    return DataLossError("session manifest: a draft part without a draft layout");
  }
  const Json& states = fields.Array("states", kMaxStates);
  for (const Json& state : states) {
    HF_ASSIGN_OR_RETURN(SaveState parsed, ParseState(state, manifest));
    if (parsed.has_draft && !manifest.has_draft) {
      return DataLossError("session manifest: a state with a draft part, pages without");
    }
    manifest.states.push_back(std::move(parsed));
  }
  const Json& messages = fields.Array("messages", static_cast<size_t>(kMaxTokens));
  for (const Json& message : messages) {
    HF_ASSIGN_OR_RETURN(StoredMessage parsed, ParseMessage(message, manifest));
    manifest.messages.push_back(std::move(parsed));
  }
  HF_RETURN_IF_ERROR(fields.status());
  return manifest;
}

}  // namespace holdfast

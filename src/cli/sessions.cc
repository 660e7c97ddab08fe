#include "cli/sessions.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "store/store.h"

namespace holdfast::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string SizeText(uint64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 1024 ? fmt::format("{:.2f} MiB", mib) : fmt::format("{:.2f} GiB", mib / 1024);
}

std::string TimeText(int64_t unix_ms) {
  const auto seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm local = {};
  if (::localtime_r(&seconds, &local) == nullptr) return "?";
  char text[32];
  const size_t n = std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &local);
  return std::string(text, n);
}

// Titles come from clients: nothing in them may steer the terminal.
std::string Printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? ' ' : c;
  }
  return out;
}

std::string Dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json InfoToJson(const ConversationInfo& info) {
  Json json;
  json["id"] = info.id;
  json["title"] = info.title;
  json["tags"] = info.tags;
  json["pinned"] = info.pinned;
  json["quarantined"] = info.quarantined.empty() ? Json() : Json(info.quarantined);
  json["forked_from"] = info.forked_from.empty() ? Json() : Json(info.forked_from);
  json["fork_position"] = info.fork_position;
  json["n_tokens"] = info.n_tokens;
  json["durable_tokens"] = info.durable_tokens;
  json["n_states"] = info.n_states;
  json["n_messages"] = info.n_messages;
  json["created_ms"] = info.created_ms;
  json["used_ms"] = info.used_ms;
  json["bytes"] = info.bytes;
  json["model"] = info.model;
  json["numerics_key"] = info.numerics_key;
  return json;
}

Status List(Store* store, const SessionsOptions& options, std::ostream& out) {
  HF_ASSIGN_OR_RETURN(const std::vector<ConversationInfo> list, store->List());
  if (options.json) {
    Json json = Json::array();
    for (const ConversationInfo& info : list) json.push_back(InfoToJson(info));
    out << Dump(json);
    return OkStatus();
  }
  if (list.empty()) {
    out << "no conversations\n";
    return OkStatus();
  }
  fmt::print(out, "{:<24} {:>9} {:>9} {:>11}  {:<16}  {}\n", "id", "tokens", "durable", "size",
             "last used", "title");
  for (const ConversationInfo& info : list) {
    fmt::print(out, "{:<24} {:>9} {:>9} {:>11}  {:<16}  {}{}{}\n", info.id, info.n_tokens,
               info.durable_tokens, SizeText(info.bytes), TimeText(info.used_ms),
               info.pinned ? "[pinned] " : "", info.quarantined.empty() ? "" : "[quarantined] ",
               Printable(info.title));
  }
  return OkStatus();
}

Json DetailToJson(const ConversationDetail& detail) {
  Json json = InfoToJson(detail.info);
  json["states"] = Json::array();
  for (const StateInfo& state : detail.states) {
    Json item;
    item["position"] = state.position;
    item["kind"] = StateKindName(state.kind);
    item["has_draft"] = state.has_draft;
    item["has_proof"] = state.has_proof;
    item["quarantined"] = state.quarantined.empty() ? Json() : Json(state.quarantined);
    json["states"].push_back(std::move(item));
  }
  json["messages"] = Json::array();
  for (const StoredMessage& message : detail.messages) {
    Json item;
    item["role"] = message.role;
    item["content"] = message.content;
    item["tool_call_ids"] = message.tool_call_ids;
    item["token_begin"] = message.token_begin;
    item["token_end"] = message.token_end;
    json["messages"].push_back(std::move(item));
  }
  return json;
}

// At most `n` bytes, not within a character.
std::string Cut(const std::string& text, size_t n) {
  if (text.size() <= n) return text;
  while (n > 0 && (static_cast<unsigned char>(text[n]) & 0xc0) == 0x80) --n;
  return text.substr(0, n);
}

// The text of a message, which is kept as JSON.
std::string MessageText(const std::string& content) {
  const Json json = Json::parse(content, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("content")) return content;
  std::string text;
  if (json["content"].is_string()) text = json["content"].get<std::string>();
  if (json.contains("tool_calls"))
    text += (text.empty() ? "" : " ") +
            json["tool_calls"].dump(-1, ' ', false, Json::error_handler_t::replace);
  return text;
}

Status Show(Store* store, const SessionsOptions& options, std::ostream& out) {
  HF_ASSIGN_OR_RETURN(const ConversationDetail detail, store->Show(options.id));
  if (options.json) {
    out << Dump(DetailToJson(detail));
    return OkStatus();
  }
  const ConversationInfo& info = detail.info;
  fmt::print(out, "id         {}\ntitle      {}\nmodel      {}\nnumerics   {}\n", info.id,
             Printable(info.title), Printable(info.model), Printable(info.numerics_key));
  fmt::print(out, "tokens     {}, {} of them durable\nsize       {}\nlast used  {}\n",
             info.n_tokens, info.durable_tokens, SizeText(info.bytes), TimeText(info.used_ms));
  if (info.pinned) out << "pinned\n";
  if (!info.forked_from.empty()) {
    fmt::print(out, "forked     from {} at {}\n", info.forked_from, info.fork_position);
  }
  if (!info.quarantined.empty()) {
    fmt::print(out, "quarantined: {}\n", Printable(info.quarantined));
  }
  out << "states\n";
  for (const StateInfo& state : detail.states) {
    fmt::print(out, "  {:>9}  {:<13}{}{}\n", state.position, StateKindName(state.kind),
               state.has_draft ? " draft" : "",
               state.quarantined.empty() ? "" : " quarantined: " + Printable(state.quarantined));
  }
  out << "messages\n";
  constexpr size_t kShown = 80;
  for (const StoredMessage& message : detail.messages) {
    const std::string text = Printable(MessageText(message.content));
    fmt::print(out, "  [{}, {})  {}: {}{}\n", message.token_begin, message.token_end,
               Printable(message.role), Cut(text, kShown), text.size() > kShown ? "…" : "");
  }
  return OkStatus();
}

Status DiskUse(Store* store, const SessionsOptions& options, std::ostream& out) {
  HF_ASSIGN_OR_RETURN(const DiskUsage usage, store->Du());
  if (options.json) {
    Json json;
    json["segment_bytes"] = usage.segment_bytes;
    json["live_bytes"] = usage.live_bytes;
    json["catalogue_bytes"] = usage.catalogue_bytes;
    json["quarantine_bytes"] = usage.quarantine_bytes;
    json["conversation_bytes"] = usage.conversation_bytes;
    json["n_segments"] = usage.n_segments;
    json["n_conversations"] = usage.n_conversations;
    json["n_pages"] = usage.n_pages;
    json["n_states"] = usage.n_states;
    out << Dump(json);
    return OkStatus();
  }
  fmt::print(out, "segments       {:>11}  in {} files\n", SizeText(usage.segment_bytes),
             usage.n_segments);
  fmt::print(out, "  needed       {:>11}  {} pages, {} running states\n",
             SizeText(usage.live_bytes), usage.n_pages, usage.n_states);
  fmt::print(out, "  quarantined  {:>11}\n", SizeText(usage.quarantine_bytes));
  fmt::print(out, "catalogue      {:>11}\n", SizeText(usage.catalogue_bytes));
  fmt::print(out, "conversations  {:>11}  of {}, as if nothing were shared\n",
             SizeText(usage.conversation_bytes), usage.n_conversations);
  return OkStatus();
}

Status Collect(Store* store, std::ostream& out) {
  HF_ASSIGN_OR_RETURN(const GcReport report, store->Gc());
  fmt::print(out, "{} freed: {} segments deleted, {} rewritten, {} leftovers removed\n",
             SizeText(report.bytes_freed), report.segments_deleted, report.segments_rewritten,
             report.orphans_removed);
  return OkStatus();
}

Status Verify(Store* store, std::ostream& out) {
  HF_ASSIGN_OR_RETURN(const VerifyReport report, store->Verify());
  for (const std::string& problem : report.problems) fmt::print(out, "{}\n", problem);
  fmt::print(out, "{} parts, {} read\n", report.parts_checked, SizeText(report.bytes_checked));
  if (report.problems.empty()) return OkStatus();
  return DataLossError(
      fmt::format("{} parts do not verify; they are quarantined", report.problems.size()));
}

Status Import(Store* store, const SessionsOptions& options, std::ostream& out) {
  HF_ASSIGN_OR_RETURN(const ImportReport report, store->Import(options.file, {options.id}));
  fmt::print(out, "{}: {} tokens, {} written\n", report.conversation, report.n_tokens,
             SizeText(report.bytes_written));
  for (const std::string& note : report.notes) fmt::print(out, "note: {}\n", note);
  return OkStatus();
}

Status EachId(const SessionsOptions& options, const std::function<Status(std::string_view)>& run) {
  for (const std::string& id : options.ids) HF_RETURN_IF_ERROR(run(id));
  return OkStatus();
}

Status RunAction(Store* store, const SessionsOptions& options, std::ostream& out) {
  const std::string& action = options.action;
  if (action == "list") return List(store, options, out);
  if (action == "show") return Show(store, options, out);
  if (action == "rm") return EachId(options, [&](auto id) { return store->Remove(id); });
  if (action == "pin") return EachId(options, [&](auto id) { return store->Pin(id, true); });
  if (action == "unpin") return EachId(options, [&](auto id) { return store->Pin(id, false); });
  if (action == "fork") return store->Fork(options.id, options.new_id, options.position);
  if (action == "export") return store->Export(options.id, options.file);
  if (action == "import") return Import(store, options, out);
  if (action == "gc") return Collect(store, out);
  if (action == "du") return DiskUse(store, options, out);
  if (action == "verify") return Verify(store, out);
  return InvalidArgumentError(fmt::format("sessions: unknown action {}", action));
}

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Status RunSessions(const SessionsOptions& options, std::ostream& out) {
  StoreOptions store_options;
  store_options.dir = options.store;
  if (options.store.empty()) {
    return InvalidArgumentError("sessions: no store directory; give --store DIR");
  }
  HF_ASSIGN_OR_RETURN(const bool there,
                      PosixFileSystem()->Exists(store_options.dir + "/catalogue.sqlite"));
  // Looking must not make one; importing may.
  if (!there && options.action != "import") {
    return NotFoundError(fmt::format("{}: there is no store", store_options.dir));
  }
  auto store = Store::Open(store_options, std::nullopt);
  if (store.status().code() == StatusCode::kUnavailable) {
    return UnavailableError(store.status().message() +
                            "; a running server answers /v1/conversations, or stop it first");
  }
  HF_RETURN_IF_ERROR(store.status());
  for (const std::string& notice : (*store)->notices()) fmt::print(out, "note: {}\n", notice);
  return RunAction(store->get(), options, out);
}

Command SessionsCommand(CLI::App* parent) {
  const auto options = std::make_shared<SessionsOptions>();
  options->store = DefaultStoreDir(FromEnvironment("XDG_STATE_HOME"), FromEnvironment("HOME"));
  CLI::App* app = parent->add_subcommand("sessions", "list and tend the kept conversations");
  app->add_option("--store", options->store, "folder of kept conversations")->capture_default_str();
  app->require_subcommand(1);
  const auto add = [&](const char* name, const char* help) {
    CLI::App* action = app->add_subcommand(name, help);
    action->callback([options, name] { options->action = name; });
    return action;
  };
  for (CLI::App* action : {add("list", "print all, most recently used first"),
                           add("du", "print what the store takes on disk")}) {
    action->add_flag("--json", options->json, "print JSON");
  }
  CLI::App* show = add("show", "print one with its states and messages");
  show->add_option("id", options->id, "conversation")->required();
  show->add_flag("--json", options->json, "print JSON");
  add("rm", "remove conversations")->add_option("ids", options->ids)->required();
  add("pin", "never remove these for want of room")->add_option("ids", options->ids)->required();
  add("unpin", "the reverse")->add_option("ids", options->ids)->required();
  CLI::App* fork = add("fork", "begin a new conversation that shares a beginning");
  fork->add_option("id", options->id, "conversation")->required();
  fork->add_option("new_id", options->new_id, "id of the new one")->required();
  fork->add_option("--at", options->position, "tokens to share; -1: all")->capture_default_str();
  CLI::App* export_ = add("export", "write one to a session file");
  export_->add_option("id", options->id, "conversation")->required();
  export_->add_option("file", options->file, "the file; replaced if it exists")->required();
  CLI::App* import = add("import", "take a session file into the store");
  import->add_option("file", options->file, "the file")->required();
  import->add_option("--as", options->id, "id to give it; default: the one in the file");
  add("gc", "free the room that nothing needs");
  add("verify", "read everything and compare checksums");
  return {app, false, [options] { return RunSessions(*options, std::cout); }};
}

}  // namespace holdfast::cli

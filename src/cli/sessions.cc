#include "cli/sessions.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <iostream>
#include <memory>
#include <string_view>
#include <utility>

#include "cli/server_client.h"
#include "server/json.h"
#include "server/store_json.h"
#include "store/store.h"

namespace holdfast::cli {
namespace {

constexpr char kDefaultServer[] = "http://127.0.0.1:8080";

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

Status List(Store* store, const SessionsOptions& options, std::ostream& out) {
  HF_ASSIGN_OR_RETURN(const std::vector<ConversationInfo> list, store->List());
  if (options.json) {
    Json json = Json::array();
    for (const ConversationInfo& info : list) json.push_back(ConversationJson(info));
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
    out << Dump(ConversationJson(detail));
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
    out << Dump(DiskUsageJson(usage));
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

Status ProblemsFound(size_t n) {
  if (n == 0) return OkStatus();
  return DataLossError(fmt::format("{} parts do not verify; they are quarantined", n));
}

Status Verify(Store* store, std::ostream& out) {
  HF_ASSIGN_OR_RETURN(const VerifyReport report, store->Verify());
  for (const std::string& problem : report.problems) fmt::print(out, "{}\n", problem);
  fmt::print(out, "{} parts, {} read\n", report.parts_checked, SizeText(report.bytes_checked));
  return ProblemsFound(report.problems.size());
}

void PrintReport(const ImportReport& report, std::ostream& out) {
  fmt::print(out, "{}: {} tokens, {} written\n", report.conversation, report.n_tokens,
             SizeText(report.bytes_written));
  for (const std::string& note : report.notes) fmt::print(out, "note: {}\n", note);
}

Status Import(Store* store, const SessionsOptions& options, std::ostream& out) {
  HF_ASSIGN_OR_RETURN(const ImportReport report, store->Import(options.file, {options.id}));
  PrintReport(report, out);
  return OkStatus();
}

// What `save` keeps under a name lies in the store; `restore` takes it from there.
Status SaveNamed(Store* store, const SessionsOptions& options) {
  HF_ASSIGN_OR_RETURN(const std::string path, store->ExportPath(options.file));
  return store->Export(options.id, path);
}

Status RestoreNamed(Store* store, const SessionsOptions& options, std::ostream& out) {
  HF_ASSIGN_OR_RETURN(const std::string path, store->ExportPath(options.file));
  ImportOptions import;
  import.beside_others = true;
  HF_ASSIGN_OR_RETURN(const ImportReport report, store->Import(path, import));
  PrintReport(report, out);
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
  if (action == "save") return SaveNamed(store, options);
  if (action == "restore") return RestoreNamed(store, options, out);
  if (action == "export") return store->Export(options.id, options.file);
  if (action == "import") return Import(store, options, out);
  if (action == "gc") return Collect(store, out);
  if (action == "du") return DiskUse(store, options, out);
  if (action == "verify") return Verify(store, out);
  return InvalidArgumentError(fmt::format("sessions: unknown action {}", action));
}

std::string PathOf(const std::string& id, std::string_view action = "") {
  return fmt::format("/v1/conversations/{}{}{}", id, action.empty() ? "" : "/", action);
}

// The same by a running server, which also has what is in memory. Reports are printed as JSON.
class OnServer {
 public:
  OnServer(const ServerClient& server, const SessionsOptions& options, std::ostream& out)
      : server_(server), options_(options), out_(out) {}

  Status Run() {
    const std::string& action = options_.action;
    if (action != "import" && !options_.id.empty()) {
      HF_RETURN_IF_ERROR(CheckConversationId(options_.id));
    }
    for (const std::string& id : options_.ids) HF_RETURN_IF_ERROR(CheckConversationId(id));
    if (action == "list") return Print("GET", "/v1/conversations");
    if (action == "show") return Print("GET", PathOf(options_.id));
    if (action == "du") return Print("GET", "/v1/store");
    if (action == "gc") return Print("POST", "/v1/store/gc");
    if (action == "verify") return Verify();
    if (action == "save") return Named(PathOf(options_.id, "save"));
    if (action == "restore") return Named("/v1/conversations/restore");
    if (action == "fork") return Fork();
    if (action == "export") return server_.Download(PathOf(options_.id, "export"), options_.file);
    if (action == "import") return Import();
    const char* method = action == "rm" ? "DELETE" : "POST";
    const std::string_view suffix = action == "rm" ? "" : std::string_view(action);
    return EachId(options_, [&](std::string_view id) {
      return server_.Call(method, PathOf(std::string(id), suffix)).status();
    });
  }

 private:
  Status Named(const std::string& path) {
    Json body = Json::object();
    if (!options_.file.empty()) {
      HF_RETURN_IF_ERROR(CheckPlainFileName(options_.file));
      body["filename"] = options_.file;
    }
    HF_ASSIGN_OR_RETURN(const Json json, server_.Call("POST", path, ToText(body)));
    out_ << Dump(json);
    return OkStatus();
  }
  Status Print(const char* method, const std::string& path) {
    HF_ASSIGN_OR_RETURN(const Json json, server_.Call(method, path));
    out_ << Dump(json.contains("data") ? json["data"] : json);
    return OkStatus();
  }
  Status Verify() {
    HF_ASSIGN_OR_RETURN(const Json json, server_.Call("POST", "/v1/store/verify"));
    out_ << Dump(json);
    return ProblemsFound(json.value("problems", Json::array()).size());
  }
  Status Fork() {
    Json body;
    body["id"] = options_.new_id;
    if (options_.position >= 0) body["position"] = options_.position;
    return server_.Call("POST", PathOf(options_.id, "fork"), ToText(body)).status();
  }
  Status Import() {
    std::string path = "/v1/conversations/import";
    if (!options_.id.empty()) {
      HF_RETURN_IF_ERROR(CheckConversationId(options_.id));
      path += "?id=" + options_.id;
    }
    HF_ASSIGN_OR_RETURN(const Json json, server_.Upload(path, options_.file));
    out_ << Dump(json);
    return OkStatus();
  }

  const ServerClient& server_;
  const SessionsOptions& options_;
  std::ostream& out_;
};

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Status RunSessions(const SessionsOptions& options, std::ostream& out) {
  // What is in memory only a server has.
  const bool of_memory = options.action == "save" && options.file.empty();
  if (of_memory || !options.server.empty()) {
    HF_ASSIGN_OR_RETURN(
        const ServerClient server,
        ServerClient::Create(options.server.empty() ? kDefaultServer : options.server,
                             options.api_key));
    return OnServer(server, options, out).Run();
  }
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
                            "; ask the running server with --server URL, or stop it first");
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
  app->add_option("--server", options->server,
                  fmt::format("ask a running server instead: http://HOST:PORT. save without a "
                              "name always does, by default {}",
                              kDefaultServer));
  options->api_key = FromEnvironment("HOLDFAST_API_KEY");
  app->add_option("--api-key", options->api_key, "key for that (HOLDFAST_API_KEY)");
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
  CLI::App* save = add("save", "make one of a running server durable now");
  save->add_option("id", options->id, "conversation")->required();
  save->add_option("name", options->file,
                   "also keep it as a session file of this name in the store (exports/NAME)");
  add("restore", "take back what save kept under a name")
      ->add_option("name", options->file, "the name")
      ->required();
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

#include "server/session_api.h"

#include <fmt/format.h>

#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "server/api_error.h"
#include "server/field_reader.h"
#include "server/store_json.h"
#include "server/streamed_file.h"

namespace holdfast {
namespace {

// Each takes a thread and a few megabytes.
constexpr int kMaxExports = 8;

HttpReply ErrorReply(const Status& status) { return OpenAiErrorResponse({.status = status}); }

Status NoEngine() { return UnimplementedError("this server has no engine of its own to ask"); }

uint64_t FileBytes(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  return error ? 0 : bytes;
}

class ImportSink : public BodySink {
 public:
  explicit ImportSink(std::unique_ptr<SessionUpload> upload) : upload_(std::move(upload)) {}
  Status Write(std::string_view bytes) override {
    return OfClient(upload_->Write(std::as_bytes(std::span(bytes))));
  }
  SessionUpload* upload() { return upload_.get(); }

 private:
  const std::unique_ptr<SessionUpload> upload_;
};

// One of the exports that may run at once, until it is destroyed.
class ExportPlace {
 public:
  explicit ExportPlace(std::shared_ptr<std::atomic<int>> n) : n_(std::move(n)), place_(++*n_) {}
  ~ExportPlace() { --*n_; }
  ExportPlace(const ExportPlace&) = delete;
  ExportPlace& operator=(const ExportPlace&) = delete;
  bool ok() const { return place_ <= kMaxExports; }

 private:
  const std::shared_ptr<std::atomic<int>> n_;
  const int place_;
};

}  // namespace

Result<Store*> StoreOf(const Engine& engine) {
  if (engine.persistence() != nullptr) return engine.persistence()->store();
  return FailedPreconditionError("nothing is kept on disk (--store off)");
}

Status SaveWhatIsInRam(Engine* engine, const std::string& id) {
  HF_RETURN_IF_ERROR(StoreOf(*engine).status());
  const Status status = engine->SaveConversation(id);
  return status.code() == StatusCode::kNotFound ? OkStatus() : status;
}

bool IsOnlyInRam(Engine* engine, const std::string& id) {
  bool in_ram = false;
  engine->RunBetweenSteps(
      [&](Scheduler&, StateCache& cache) { in_ram = cache.FindById(id) != nullptr; });
  return in_ram && !SaveWhatIsInRam(engine, id).ok();
}

Result<NamedSession> SaveNamed(Engine* engine, const std::string& id, const std::string& filename) {
  HF_ASSIGN_OR_RETURN(Store* const store, StoreOf(*engine));
  HF_ASSIGN_OR_RETURN(const std::string path, store->ExportPath(filename));
  HF_RETURN_IF_ERROR(SaveWhatIsInRam(engine, id));
  HF_RETURN_IF_ERROR(store->Export(id, path));
  HF_ASSIGN_OR_RETURN(const ConversationTokens tokens, store->Tokens(id));
  return NamedSession{id, tokens.n_live, FileBytes(path), {}};
}

Result<NamedSession> RestoreNamed(Engine* engine, const std::string& filename) {
  HF_ASSIGN_OR_RETURN(Store* const store, StoreOf(*engine));
  HF_ASSIGN_OR_RETURN(const std::string path, store->ExportPath(filename));
  const Result<std::string> id = store->SessionId(path, filename);
  if (id.status().code() == StatusCode::kNotFound) {
    return NotFoundError(fmt::format("the store has no session file {}", filename));
  }
  if (!id.ok()) return OfClient(id.status());
  ImportOptions options;
  options.beside_others = true;
  options.id_in_use = IsOnlyInRam(engine, *id);
  options.name = filename;
  const Result<ImportReport> report = store->Import(path, options);
  if (!report.ok()) return OfClient(report.status());
  return NamedSession{report->conversation, report->n_live, FileBytes(path), report->notes};
}

Result<std::string> ReadFilename(const std::string& body) {
  HF_ASSIGN_OR_RETURN(const Json json, ParseJson(body));
  FieldReader in(json);
  std::string filename;
  in.Read("filename", &filename);
  if (!in.ok()) return in.error().status;
  const Status plain = CheckPlainFileName(filename);
  if (!plain.ok()) return InvalidArgumentError("filename: " + plain.message());
  return filename;
}

HttpReply HandleRestore(const std::shared_ptr<const ModelService>& model,
                        const HttpRequest& request) {
  if (model->engine == nullptr) return ErrorReply(NoEngine());
  const Result<std::string> filename = ReadFilename(request.body);
  if (!filename.ok()) {
    return OpenAiErrorResponse({.status = filename.status(), .param = "filename"});
  }
  const Result<NamedSession> restored = RestoreNamed(model->engine, *filename);
  if (!restored.ok()) return ErrorReply(restored.status());
  HttpResponse response;
  response.body = ToText(NamedSessionJson(*filename, *restored));
  return response;
}

Json NamedSessionJson(const std::string& filename, const NamedSession& session) {
  Json json;
  json["id"] = session.conversation;
  json["ok"] = true;
  json["filename"] = filename;
  json["n_tokens"] = session.n_tokens;
  json["bytes"] = session.bytes;
  json["notes"] = session.notes;
  return json;
}

Status OfClient(const Status& status) {
  if (status.code() != StatusCode::kDataLoss) return status;
  return InvalidArgumentError(status.message());
}

HttpReply SessionApi::Export(const Service& model, const std::string& id,
                             const HttpRequest& request) {
  if (model->engine == nullptr) return ErrorReply(NoEngine());
  const Result<Store*> store = StoreOf(*model->engine);
  if (!store.ok()) return ErrorReply(store.status());
  if (const Status saved = SaveWhatIsInRam(model->engine, id); !saved.ok()) {
    return ErrorReply(saved);
  }
  HttpResponse head;
  head.content_type = "application/octet-stream";
  // Ids hold no quotes and nothing else that a header could not hold.
  head.headers.emplace_back("Content-Disposition",
                            fmt::format("attachment; filename=\"{}.hfs\"", id));
  if (request.method == "HEAD") {
    const Result<ConversationTokens> there = (*store)->Tokens(id);
    return there.ok() ? HttpReply(head) : ErrorReply(there.status());
  }
  const auto place = std::make_shared<ExportPlace>(n_exports_);
  if (!place->ok()) {
    return OpenAiErrorResponse(
        {.status = UnavailableError(fmt::format("{} exports are running", kMaxExports)),
         .retry_after_s = 1});
  }
  auto file = StreamedFile::Start(std::move(head), [place, store = *store, id](const auto& sink) {
    return store->ExportTo(id, sink);
  });
  if (!file.ok()) return ErrorReply(file.status());
  return HttpReply(std::move(*file));
}

Result<std::shared_ptr<BodySink>> SessionApi::OpenImport(const ModelService& model) {
  if (model.engine == nullptr) return NoEngine();
  HF_ASSIGN_OR_RETURN(Store* const store, StoreOf(*model.engine));
  HF_ASSIGN_OR_RETURN(auto upload, store->BeginUpload());
  return std::shared_ptr<BodySink>(std::make_shared<ImportSink>(std::move(upload)));
}

HttpReply SessionApi::Import(const Service& model, const HttpRequest& request) {
  auto sink = std::dynamic_pointer_cast<ImportSink>(request.body_sink);
  if (sink == nullptr) {  // a body that was held
    auto opened = OpenImport(*model);
    if (!opened.ok()) return ErrorReply(opened.status());
    sink = std::static_pointer_cast<ImportSink>(*opened);
    if (const Status taken = sink->Write(request.body); !taken.ok()) return ErrorReply(taken);
  }
  ImportOptions options;
  options.conversation = std::string(request.query_value("id").value_or(""));
  options.beside_others = options.conversation.empty();
  const std::string& id =
      options.beside_others ? sink->upload()->conversation() : options.conversation;
  options.id_in_use = IsOnlyInRam(model->engine, id);
  if (options.id_in_use && !options.beside_others) {
    return ErrorReply(AlreadyExistsError(fmt::format("conversation {} is in memory already", id)));
  }
  const Result<ImportReport> report = sink->upload()->Import(options);
  if (!report.ok()) return ErrorReply(OfClient(report.status()));
  HttpResponse response;
  response.body = ToText(ImportJson(*report));
  return response;
}

}  // namespace holdfast

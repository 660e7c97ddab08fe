#ifndef HOLDFAST_SERVER_SESSION_API_H_
#define HOLDFAST_SERVER_SESSION_API_H_

// Session files by HTTP. Fields: docs/http_api.md.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/http_message.h"
#include "server/json.h"
#include "server/model_service.h"

namespace holdfast {

class SessionApi {
 public:
  using Service = std::shared_ptr<const ModelService>;

  // GET /v1/conversations/ID/export: the session file. What is in RAM only is saved first.
  HttpReply Export(const Service& model, const std::string& id, const HttpRequest& request);
  // POST /v1/conversations/import: takes a session file.
  HttpReply Import(const Service& model, const HttpRequest& request);
  // Where the body of Import goes as it arrives; kFailedPrecondition without a store.
  static Result<std::shared_ptr<BodySink>> OpenImport(const ModelService& model);

 private:
  const std::shared_ptr<std::atomic<int>> n_exports_ = std::make_shared<std::atomic<int>>(0);
};

// The store; kFailedPrecondition when nothing is kept on disk.
Result<Store*> StoreOf(const Engine& engine);
// Makes what RAM has of a conversation durable under its id. OK when RAM has nothing of it.
Status SaveWhatIsInRam(Engine* engine, const std::string& id);
// A session file in the store's `exports` folder.
struct NamedSession {
  std::string conversation;
  int64_t n_tokens = 0;  // computed ones
  uint64_t bytes = 0;    // of the file
  std::vector<std::string> notes;
};
// Writes a conversation to the file of this plain name, after saving what only RAM has.
Result<NamedSession> SaveNamed(Engine* engine, const std::string& id, const std::string& filename);
// Takes such a file into the store, beside what is there.
Result<NamedSession> RestoreNamed(Engine* engine, const std::string& filename);
// {"id", "ok", "filename", "n_tokens", "bytes", "notes"}
Json NamedSessionJson(const std::string& filename, const NamedSession& session);
// The plain name in {"filename": NAME}; an error naming the field.
Result<std::string> ReadFilename(const std::string& body);
// POST /v1/conversations/restore {"filename": NAME}
HttpReply HandleRestore(const std::shared_ptr<const ModelService>& model,
                        const HttpRequest& request);
// Whether RAM has a conversation of this id that cannot be saved: an import must not take the id.
bool IsOnlyInRam(Engine* engine, const std::string& id);
// Damage in what a client chose is no mistake of the server's.
Status OfClient(const Status& status);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_SESSION_API_H_

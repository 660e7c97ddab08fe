#include "server/store_api.h"

#include <functional>

#include "server/api_error.h"
#include "server/session_api.h"
#include "server/store_json.h"

namespace holdfast {
namespace {

// The answer of `ask`, or an error.
HttpReply Answer(const ModelService& model, const std::function<Result<Json>(Store*)>& ask) {
  if (model.engine == nullptr) {
    return OpenAiErrorResponse(
        {.status = UnimplementedError("this server has no engine of its own to ask")});
  }
  const Result<Store*> store = StoreOf(*model.engine);
  if (!store.ok()) return OpenAiErrorResponse({.status = store.status()});
  const Result<Json> json = ask(*store);
  if (!json.ok()) return OpenAiErrorResponse({.status = json.status()});
  HttpResponse response;
  response.body = ToText(*json);
  return response;
}

}  // namespace

HttpReply HandleShowConversation(const std::shared_ptr<const ModelService>& model,
                                 const std::string& id) {
  return Answer(*model, [&](Store* store) -> Result<Json> {
    HF_ASSIGN_OR_RETURN(const ConversationDetail detail, store->Show(id));
    return ConversationJson(detail);
  });
}

HttpReply HandleStoreUsage(const std::shared_ptr<const ModelService>& model, const HttpRequest&) {
  return Answer(*model, [](Store* store) -> Result<Json> {
    HF_ASSIGN_OR_RETURN(const DiskUsage usage, store->Du());
    return DiskUsageJson(usage);
  });
}

HttpReply HandleStoreGc(const std::shared_ptr<const ModelService>& model, const HttpRequest&) {
  return Answer(*model, [](Store* store) -> Result<Json> {
    HF_ASSIGN_OR_RETURN(const GcReport report, store->Gc());
    return GcJson(report);
  });
}

HttpReply HandleStoreVerify(const std::shared_ptr<const ModelService>& model, const HttpRequest&) {
  return Answer(*model, [](Store* store) -> Result<Json> {
    HF_ASSIGN_OR_RETURN(const VerifyReport report, store->Verify());
    return VerifyJson(report);
  });
}

}  // namespace holdfast

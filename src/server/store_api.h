#ifndef HOLDFAST_SERVER_STORE_API_H_
#define HOLDFAST_SERVER_STORE_API_H_

// The store as a whole, and what it has of one conversation. Fields: docs/http_api.md. All answer
// 409 on a server without a store.

#include <memory>
#include <string>

#include "server/http_message.h"
#include "server/model_service.h"

namespace holdfast {

// GET /v1/conversations/ID: with its states and messages, as saved.
HttpReply HandleShowConversation(const std::shared_ptr<const ModelService>& model,
                                 const std::string& id);
// GET /v1/store: what it takes on disk.
HttpReply HandleStoreUsage(const std::shared_ptr<const ModelService>& model,
                           const HttpRequest& request);
// POST /v1/store/gc: frees what nothing needs.
HttpReply HandleStoreGc(const std::shared_ptr<const ModelService>& model,
                        const HttpRequest& request);
// POST /v1/store/verify: reads everything; what does not verify is quarantined and listed.
HttpReply HandleStoreVerify(const std::shared_ptr<const ModelService>& model,
                            const HttpRequest& request);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_STORE_API_H_

#ifndef HOLDFAST_SERVER_STATE_API_H_
#define HOLDFAST_SERVER_STATE_API_H_

// What the server holds, and what it would reuse. Fields: docs/http_api.md. All answer 400 (not
// supported) on a service without an engine.

#include <memory>
#include <string>

#include "server/http_message.h"
#include "server/model_service.h"

namespace holdfast {

using ServicePtr = std::shared_ptr<const ModelService>;

// POST /v1/cache/explain: a chat completion's body; what of its prompt would be reused now.
HttpReply HandleExplain(const ServicePtr& model, const HttpRequest& request);
// GET /v1/conversations, newest first: in RAM, on disk, or both.
HttpReply HandleConversations(const ServicePtr& model, const HttpRequest& request);
// In RAM and on disk. kNotFound when it is in neither, kFailedPrecondition while it is computed.
Status DeleteConversation(Engine* engine, const std::string& id);
// DELETE /v1/conversations/ID
HttpReply HandleDeleteConversation(const ServicePtr& model, const HttpRequest& request);
// POST /v1/conversations/ID/{pin,unpin,save}; POST .../fork {"id": NEW}
HttpReply HandleConversationAction(const ServicePtr& model, const HttpRequest& request);
// GET /metrics: Prometheus text format.
HttpReply HandleMetrics(const ServicePtr& model, const HttpRequest& request);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_STATE_API_H_

#include "server/conversation_name.h"

#include "store/store.h"

namespace holdfast {

std::string ConversationName(const HttpRequest& request) {
  return std::string(request.header("x-holdfast-conversation"));
}

Status CheckConversationName(const HttpRequest& request) {
  const std::string name = ConversationName(request);
  if (name.empty()) return OkStatus();
  const Status status = CheckConversationId(name);
  if (status.ok()) return status;
  return InvalidArgumentError(std::string(kConversationHeader) + ": " + status.message());
}

}  // namespace holdfast

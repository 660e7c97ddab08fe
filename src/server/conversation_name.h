#ifndef HOLDFAST_SERVER_CONVERSATION_NAME_H_
#define HOLDFAST_SERVER_CONVERSATION_NAME_H_

#include <string>

#include "base/status.h"
#include "server/http_message.h"

namespace holdfast {

// The header by which a request names the conversation it continues, and a response the one it was.
inline constexpr char kConversationHeader[] = "X-Holdfast-Conversation";

// The name in a request; empty when there is none.
std::string ConversationName(const HttpRequest& request);
// kInvalidArgument for a name that is there and is not a plain one.
Status CheckConversationName(const HttpRequest& request);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_CONVERSATION_NAME_H_

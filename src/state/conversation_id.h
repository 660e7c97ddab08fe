#ifndef HOLDFAST_STATE_CONVERSATION_ID_H_
#define HOLDFAST_STATE_CONVERSATION_ID_H_

#include <string_view>

#include "base/status.h"

namespace holdfast {

// OK for 1 to 128 of [A-Za-z0-9._:-], no leading dot.
Status CheckConversationId(std::string_view id);

}  // namespace holdfast

#endif  // HOLDFAST_STATE_CONVERSATION_ID_H_

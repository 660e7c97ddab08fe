#include "state/conversation_id.h"

#include <fmt/format.h>

#include <algorithm>

namespace holdfast {

Status CheckConversationId(std::string_view id) {
  const bool plain = std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == ':' || c == '-';
  });
  if (plain && !id.empty() && id.size() <= 128 && id[0] != '.') return OkStatus();
  return InvalidArgumentError(
      fmt::format("conversation id of {} bytes, wanted 1 to 128 of A-Z a-z 0-9 . _ : -, not "
                  "beginning with a dot",
                  id.size()));
}

}  // namespace holdfast

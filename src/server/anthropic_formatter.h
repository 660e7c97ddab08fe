#ifndef HOLDFAST_SERVER_ANTHROPIC_FORMATTER_H_
#define HOLDFAST_SERVER_ANTHROPIC_FORMATTER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "server/generation_response.h"

namespace holdfast {

// What a reply of /v1/messages says besides what was generated.
struct AnthropicReplyHead {
  std::string model_id, request_id;
  int64_t n_prompt = 0;
  int64_t n_marked = 0;  // prompt tokens up to the last cache_control mark, 0: none
};

// Streaming: message_start once it is known what is reused (a comment and pings before), content
// blocks, message_delta, message_stop. Otherwise one message object.
std::unique_ptr<ReplyFormatter> MakeAnthropicFormatter(AnthropicReplyHead head, bool stream);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_ANTHROPIC_FORMATTER_H_

#ifndef HOLDFAST_SERVER_OPENAI_MESSAGES_H_
#define HOLDFAST_SERVER_OPENAI_MESSAGES_H_

#include <cstddef>
#include <vector>

#include "server/field_reader.h"
#include "token/chat_template.h"

namespace holdfast {

// Reads `messages` and `tools` of a chat completion into a template input: shapes are checked, text
// parts are joined, `developer` becomes `system`. Images, audio and files are refused by the name
// of the part. Messages with a cache_control are added to `cache_marks` by their index (clients
// that speak to other models' APIs through OpenAI's send it). Sets `in`'s error.
void ReadMessages(FieldReader& in, ChatTemplate::Input* input, std::vector<size_t>* cache_marks);

// tools and tool_choice. "none" hides the tools; choices that need a grammar are refused.
void ReadTools(FieldReader& in, ChatTemplate::Input* input);

// reasoning_effort and chat_template_kwargs {enable_thinking, reasoning_effort, ...}: none and off
// turn thinking off, any other effort on; a switch in chat_template_kwargs is stronger.
void ReadThinking(FieldReader& in, ChatTemplate::Input* input);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_OPENAI_MESSAGES_H_

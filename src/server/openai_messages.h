#ifndef HOLDFAST_SERVER_OPENAI_MESSAGES_H_
#define HOLDFAST_SERVER_OPENAI_MESSAGES_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/field_reader.h"
#include "server/reply_format_reader.h"
#include "server/thinking_budget.h"
#include "token/chat_template.h"

namespace holdfast {

// Reads `messages` and `tools` of a chat completion into a template input: shapes are checked, text
// parts are joined, `developer` becomes `system`. Images, audio and files are refused by the name
// of the part. Messages with a cache_control are added to `cache_marks` by their index (clients
// that speak to other models' APIs through OpenAI's send it). Sets `in`'s error.
void ReadMessages(FieldReader& in, ChatTemplate::Input* input, std::vector<size_t>* cache_marks);

// tools and tool_choice.
void ReadTools(FieldReader& in, ChatTemplate::Input* input, ToolChoice* choice);

// The text of a string or of an array of text parts; nothing for null or in error (which names
// `where`).
std::optional<std::string> ReadContentText(FieldReader& in, const Json& content,
                                           const std::string& where);

// reasoning_effort, thinking_budget, answer_room and chat_template_kwargs {enable_thinking,
// reasoning_effort, thinking_budget, ...}: none, off and 0 turn thinking off, any other effort or
// budget on; a switch in chat_template_kwargs is stronger.
void ReadThinking(FieldReader& in, ChatTemplate::Input* input, ThinkingBudget* budget);

// A number of tokens at `key`, if it is there: 0 turns thinking off, -1 lets it be without a limit.
void ReadThinkingTokens(FieldReader& in, std::string_view key, ChatTemplate::Input* input,
                        ThinkingBudget* budget);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_OPENAI_MESSAGES_H_

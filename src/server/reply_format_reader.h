#ifndef HOLDFAST_SERVER_REPLY_FORMAT_READER_H_
#define HOLDFAST_SERVER_REPLY_FORMAT_READER_H_

#include <functional>
#include <string>
#include <string_view>

#include "grammar/reply_format.h"
#include "server/chat_request.h"
#include "server/field_reader.h"
#include "server/json.h"
#include "server/model_service.h"

namespace holdfast {

// What a request wants of its tools, besides having them.
struct ToolChoice {
  bool required = false;  // at least one call
  std::string name;       // of this tool and no other, as in the prompt; empty: of any
  bool parallel = true;   // several calls in one reply
};

// tool_choice as OpenAI's APIs have it: "auto", "none" (hides the tools), "required", or a tool, as
// {"type": "function", "function": {"name"}} or {"type": "function", "name"}.
void ReadToolChoice(FieldReader& in, ChatTemplate::Input* input, ToolChoice* choice);

// A format with a type: "text", "json_object" or "json_schema". `path` is its place in the request;
// `schema_at` where its schema is inside it, "schema" or "json_schema.schema".
void ReadFormat(FieldReader& in, const Json& format, const std::string& path,
                std::string_view schema_at, ReplyFormat* out);

// Compiles what the request's format and the choice of its tools ask of the reply. `where_of` says
// where the schema of a tool stands, by its index in chat->input.tools.
void SetGrammar(FieldReader& in, const ModelService& model, const ToolChoice& choice,
                const std::function<std::string(size_t)>& where_of, ChatRequest* chat);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_REPLY_FORMAT_READER_H_

#include "server/anthropic_request.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "server/billing_line.h"
#include "server/field_reader.h"
#include "server/openai_common.h"
#include "server/reasoning_effort.h"
#include "server/reply_format_reader.h"

namespace holdfast {
namespace {

bool IsObjectAt(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_object();
}

std::string StringAt(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

// Reads `system` and `messages` into messages of OpenAI's shape.
class HistoryReader {
 public:
  HistoryReader(FieldReader* in, AnthropicRequest* request) : in_(*in), request_(*request) {}

  void ReadSystem(const Json& system);
  void ReadMessages(const Json& messages);

 private:
  Json& history() { return request_.chat.input.messages; }
  void MarkLast() {
    if (!history().empty()) request_.chat.cache_marks.push_back(history().size() - 1);
  }

  void ReadMessage(const Json& message, const std::string& where);
  void ReadUser(const Json& content, const std::string& role, const std::string& where);
  void ReadAssistant(const Json& content, const std::string& where);
  void ReadToolResult(const Json& block, const std::string& where);
  void AddToolUse(const Json& block, const std::string& where, Json* message);
  // A block's `key`, a string; or an error.
  std::string Text(const Json& block, const char* key, const std::string& where);
  // The text of a text block or of a document that holds text.
  std::string TextOf(const Json& block, const std::string& type, const std::string& where);
  // The text of a string or of an array of text blocks.
  std::string JoinedText(const Json& content, const std::string& where, bool* marked);
  std::string TypeOf(const Json& block, const std::string& where);
  void RefuseBlock(const std::string& type, const std::string& where);

  FieldReader& in_;
  AnthropicRequest& request_;
};

std::string HistoryReader::TypeOf(const Json& block, const std::string& where) {
  if (!block.is_object()) {
    in_.Refuse(where, block, "an object with a type");
    return {};
  }
  const std::string type = StringAt(block, "type");
  if (type.empty()) {
    in_.Refuse(where + ".type", block.contains("type") ? block["type"] : Json(),
               "the name of a block type");
  }
  return type;
}

void HistoryReader::RefuseBlock(const std::string& type, const std::string& where) {
  in_.Fail(where + ".type",
           InvalidArgumentError(fmt::format(
               "{}.type is {}: this model reads text, tool_use and tool_result blocks only, images "
               "and files are not supported",
               where, ShortText(Json(type)))));
}

std::string HistoryReader::Text(const Json& block, const char* key, const std::string& where) {
  const auto it = block.find(key);
  if (it != block.end() && it->is_string()) return it->get<std::string>();
  in_.Refuse(fmt::format("{}.{}", where, key), it == block.end() ? Json() : *it, "a string");
  return {};
}

std::string HistoryReader::TextOf(const Json& block, const std::string& type,
                                  const std::string& where) {
  if (type == "text") return Text(block, "text", where);
  if (type == "document" && IsObjectAt(block, "source") &&
      StringAt(block["source"], "type") == "text") {
    return Text(block["source"], "data", where + ".source");
  }
  RefuseBlock(type, where);
  return {};
}

std::string HistoryReader::JoinedText(const Json& content, const std::string& where, bool* marked) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) {
    in_.Refuse(where, content, "a string or an array of blocks");
    return {};
  }
  std::string joined;
  for (size_t i = 0; i < content.size() && in_.ok(); ++i) {
    const std::string block_where = fmt::format("{}[{}]", where, i);
    const std::string type = TypeOf(content[i], block_where);
    if (!in_.ok()) break;
    if (i > 0) joined += '\n';
    joined += TextOf(content[i], type, block_where);
    if (IsObjectAt(content[i], "cache_control")) *marked = true;
  }
  return joined;
}

void HistoryReader::ReadSystem(const Json& system) {
  std::string text = JoinedText(system, "system", &request_.marks_system);
  if (!in_.ok() || text.empty()) return;
  Json message;
  message["role"] = "system";
  message["content"] = std::move(text);
  history().push_back(std::move(message));
}

void HistoryReader::ReadToolResult(const Json& block, const std::string& where) {
  Json message;
  message["role"] = "tool";
  bool marked = IsObjectAt(block, "cache_control");
  const auto content = block.find("content");
  message["content"] = content == block.end() || content->is_null()
                           ? std::string()
                           : JoinedText(*content, where + ".content", &marked);
  message["tool_call_id"] = Text(block, "tool_use_id", where);
  history().push_back(std::move(message));
  if (marked) MarkLast();
}

void HistoryReader::ReadUser(const Json& content, const std::string& role,
                             const std::string& where) {
  // Results and text keep their order; neighbouring text is one message.
  std::string text;
  bool any_text = false, marked = false;
  const auto flush = [&] {
    if (!any_text) return;
    Json message;
    message["role"] = role;
    message["content"] = std::exchange(text, {});
    history().push_back(std::move(message));
    if (marked) MarkLast();
    any_text = marked = false;
  };
  if (content.is_string()) {
    text = content.get<std::string>();
    any_text = true;
    return flush();
  }
  if (!content.is_array()) {
    return in_.Refuse(where, content, "a string or an array of blocks");
  }
  for (size_t i = 0; i < content.size() && in_.ok(); ++i) {
    const std::string block_where = fmt::format("{}[{}]", where, i);
    const std::string type = TypeOf(content[i], block_where);
    if (!in_.ok()) return;
    if (type == "tool_result" && role == "user") {
      flush();
      ReadToolResult(content[i], block_where);
      continue;
    }
    if (any_text) text += '\n';
    any_text = true;
    text += TextOf(content[i], type, block_where);
    if (IsObjectAt(content[i], "cache_control")) marked = true;
  }
  if (in_.ok() && content.empty()) return in_.Refuse(where, content, "at least one block");
  if (in_.ok()) flush();
}

void HistoryReader::AddToolUse(const Json& block, const std::string& where, Json* message) {
  const auto input = block.find("input");
  if (input != block.end() && !input->is_null() && !input->is_object()) {
    return in_.Refuse(where + ".input", *input, "an object");
  }
  Json call;
  call["id"] = Text(block, "id", where);
  call["type"] = "function";
  call["function"]["name"] = Text(block, "name", where);
  call["function"]["arguments"] =
      input == block.end() || input->is_null() ? Json::object() : *input;
  if (in_.ok()) (*message)["tool_calls"].push_back(std::move(call));
}

void HistoryReader::ReadAssistant(const Json& content, const std::string& where) {
  Json message;
  message["role"] = "assistant";
  message["content"] = "";
  std::string text, thinking;
  bool marked = false;
  if (content.is_string()) {
    text = content.get<std::string>();
  } else if (!content.is_array()) {
    return in_.Refuse(where, content, "a string or an array of blocks");
  }
  for (size_t i = 0; content.is_array() && i < content.size() && in_.ok(); ++i) {
    const std::string block_where = fmt::format("{}[{}]", where, i);
    const std::string type = TypeOf(content[i], block_where);
    if (!in_.ok()) return;
    if (type == "thinking") {
      thinking += Text(content[i], "thinking", block_where);
    } else if (type == "tool_use") {
      AddToolUse(content[i], block_where, &message);
    } else if (type != "redacted_thinking") {  // of another server: nothing to read in it
      text += TextOf(content[i], type, block_where);
    }
    if (IsObjectAt(content[i], "cache_control")) marked = true;
  }
  if (!in_.ok()) return;
  message["content"] = std::move(text);
  if (!thinking.empty()) message["reasoning_content"] = std::move(thinking);
  history().push_back(std::move(message));
  if (marked) MarkLast();
}

void HistoryReader::ReadMessage(const Json& message, const std::string& where) {
  if (!message.is_object()) {
    return in_.Refuse(where, message, "an object with role and content");
  }
  const std::string role = StringAt(message, "role");
  const auto content = message.find("content");
  if (content == message.end()) {
    return in_.Fail(where + ".content",
                    InvalidArgumentError(fmt::format("{}.content is missing", where)));
  }
  if (role == "assistant") {
    ReadAssistant(*content, where + ".content");
  } else if (role == "user" || role == "system") {
    ReadUser(*content, role, where + ".content");
  } else {
    return in_.Refuse(where + ".role", message.contains("role") ? message["role"] : Json(),
                      "user or assistant");
  }
  if (in_.ok() && IsObjectAt(message, "cache_control")) MarkLast();
}

void HistoryReader::ReadMessages(const Json& messages) {
  if (!messages.is_array() || messages.empty()) {
    return in_.Refuse("messages", messages, "an array of at least one message");
  }
  for (size_t i = 0; i < messages.size() && in_.ok(); ++i) {
    ReadMessage(messages[i], fmt::format("messages[{}]", i));
  }
}

// The reply begins with what the client wrote as the last message, of role assistant.
void TakePrefill(FieldReader& in, AnthropicRequest* request) {
  Json& messages = request->chat.input.messages;
  if (messages.empty() || messages.back()["role"] != "assistant") return;
  const Json& last = messages.back();
  if (last.contains("tool_calls") || last.contains("reasoning_content")) {
    return in.Fail("messages",
                   InvalidArgumentError("the last message is of role assistant: it may hold the "
                                        "beginning of the reply's text and nothing else"));
  }
  if (request->chat.input.enable_thinking.value_or(false)) {
    return in.Fail("messages", InvalidArgumentError("the last message is of role assistant, which "
                                                    "does not go together with thinking"));
  }
  if (messages.size() == 1) {
    return in.Fail(
        "messages",
        InvalidArgumentError("messages holds one message of role assistant and nothing that it "
                             "could reply to"));
  }
  request->chat.prefill = last["content"].get<std::string>();
  messages.erase(messages.size() - 1);
  std::erase(request->chat.cache_marks, messages.size());
}

Json ToolOf(FieldReader& in, const Json& tool, const std::string& where) {
  if (!tool.is_object()) {
    in.Refuse(where, tool, "an object with name and input_schema");
    return {};
  }
  const std::string type = StringAt(tool, "type");
  if (!type.empty() && type != "custom") {
    in.Fail(where + ".type",
            UnimplementedError(fmt::format(
                "{}.type is {}: this server runs no tools of its own, a tool needs name and "
                "input_schema",
                where, ShortText(tool["type"]))));
    return {};
  }
  if (StringAt(tool, "name").empty()) {
    in.Refuse(where + ".name", tool.contains("name") ? tool["name"] : Json(), "a name");
    return {};
  }
  if (!IsObjectAt(tool, "input_schema")) {
    in.Refuse(where + ".input_schema",
              tool.contains("input_schema") ? tool["input_schema"] : Json(),
              "an object (a JSON schema)");
    return {};
  }
  Json result;
  result["type"] = "function";
  Json& function = result["function"];
  function["name"] = tool["name"];
  if (const std::string description = StringAt(tool, "description"); !description.empty()) {
    function["description"] = description;
  }
  function["parameters"] = tool["input_schema"];
  return result;
}

void ReadTools(FieldReader& in, AnthropicRequest* request, ToolChoice* wanted) {
  ChatTemplate::Input& input = request->chat.input;
  if (const Json* tools = in.Find("tools")) {
    if (!tools->is_array()) return in.Refuse("tools", *tools, "an array of tools");
    Json list = Json::array();
    for (size_t i = 0; i < tools->size() && in.ok(); ++i) {
      list.push_back(ToolOf(in, (*tools)[i], fmt::format("tools[{}]", i)));
      if (in.ok() && IsObjectAt((*tools)[i], "cache_control")) request->marks_system = true;
    }
    if (in.ok() && !list.empty()) input.tools = std::move(list);
  }
  const Json* choice = in.Object("tool_choice");
  if (choice == nullptr) return;
  FieldReader inner(*choice, "tool_choice.");
  std::string type;
  inner.Read("type", &type);
  inner.Read("disable_parallel_tool_use", &request->single_tool_call);
  if (type == "tool") inner.Read("name", &wanted->name);
  if (!inner.ok()) return in.Fail("tool_choice", inner.error().status);
  if (type == "none") {
    input.tools = nullptr;
  } else if (type == "any" || type == "tool") {
    wanted->required = true;
    wanted->parallel = !request->single_tool_call;
    if (type == "tool" && wanted->name.empty()) {
      in.Refuse("tool_choice.name", Json(), "the name of a tool");
    }
  } else if (type != "auto") {
    in.Refuse("tool_choice.type", choice->contains("type") ? (*choice)["type"] : Json(),
              "auto, any, tool or none");
  }
}

void RefuseUnsupported(FieldReader& in, AnthropicCall call) {
  static constexpr FieldReader::Unsupported kFields[] = {
      {"mcp_servers", "this server calls no tools itself, tools are"},
      {"thread", "messages must hold the whole conversation"}};
  static constexpr FieldReader::Unsupported kOfMessages[] = {
      {"compaction", "ask for a summary in messages"}};
  in.RefuseUnsupported(kFields);
  if (call != AnthropicCall::kCountTokens) in.RefuseUnsupported(kOfMessages);
}

// thinking and output_config.effort. Without `thinking` there is none: a client that does not know
// of it has not left room for it in max_tokens.
void ReadThinking(FieldReader& in, AnthropicRequest* request) {
  ChatTemplate::Input& input = request->chat.input;
  input.enable_thinking = false;
  std::optional<std::string> effort;
  if (const Json* config = in.Object("output_config")) {
    FieldReader inner(*config, "output_config.");
    inner.Read("effort", &effort);
    if (!inner.ok()) return in.Fail("output_config", inner.error().status);
    if (const Json* format = inner.Find("format")) {
      ReadFormat(in, *format, "output_config.format", "schema", &request->chat.format);
    }
  }
  // What it was called at first.
  if (const Json* format = in.Find("output_format")) {
    ReadFormat(in, *format, "output_format", "schema", &request->chat.format);
  }
  const Json* thinking = in.Object("thinking");
  if (thinking == nullptr) return;
  FieldReader inner(*thinking, "thinking.");
  std::string type;
  int64_t budget = -1;
  inner.Read("type", &type);
  inner.Read("budget_tokens", &budget, 0, int64_t{1} << 31);
  if (!inner.ok()) return in.Fail("thinking", inner.error().status);
  if (type == "disabled") return;
  if (type != "enabled" && type != "adaptive") {
    return in.Refuse("thinking.type", thinking->contains("type") ? (*thinking)["type"] : Json(),
                     "enabled, adaptive or disabled");
  }
  if (type == "enabled" && budget < 0) {
    return in.Fail("thinking.budget_tokens",
                   InvalidArgumentError("thinking.budget_tokens is missing"));
  }
  ThinkingBudget& limits = request->chat.options.thinking;
  if (effort && !ApplyReasoningEffort(*effort, &input, &limits)) {
    return in.Refuse("output_config.effort", Json(*effort), kReasoningEfforts);
  }
  if (!effort) input.enable_thinking = true;
  if (budget >= 0) limits.tokens = budget;
}

}  // namespace

ApiError ParseAnthropicRequest(const ModelService& model, AnthropicCall call, const Json& body,
                               AnthropicRequest* request) {
  ChatRequest& chat = request->chat;
  chat.options.sampling = model.default_sampling;
  FieldReader in(body);
  HistoryReader history(&in, request);
  if (const Json* system = in.Find("system")) history.ReadSystem(*system);
  if (const Json* messages = in.Find("messages")) {
    history.ReadMessages(*messages);
  } else {
    in.Fail("messages", InvalidArgumentError("messages is missing"));
  }
  if (model.pin_billing_line && PinBillingLineOf(&chat.input.messages)) {
    chat.note = kBillingLineNote;
  }
  ToolChoice tool_choice;
  ReadTools(in, request, &tool_choice);
  ReadThinking(in, request);
  RefuseUnsupported(in, call);
  if (in.ok()) TakePrefill(in, request);
  if (in.Object("cache_control") != nullptr && !chat.input.messages.empty()) {
    chat.cache_marks.push_back(chat.input.messages.size() - 1);
  }
  const auto where_of = [](size_t i) { return fmt::format("tools[{}].input_schema", i); };
  SetGrammar(in, model, tool_choice, where_of, &chat);
  if (call == AnthropicCall::kCountTokens) return in.error();

  ReadGenerationOptions(in, model.generator->vocab_size(), &chat.options);
  if (in.ok() && in.Find("max_tokens") == nullptr) {
    in.Fail("max_tokens", InvalidArgumentError("max_tokens is missing"));
  }
  if (in.ok() && chat.options.max_tokens < 0) {
    in.Refuse("max_tokens", *in.Find("max_tokens"), "at least 0");
  }
  in.Read("stop_sequences", &chat.options.stop);
  if (const Status status = ValidateStopStrings(chat.options.stop); !status.ok()) {
    in.Fail("stop_sequences", InvalidArgumentError("stop_sequences: " + status.message()));
  }
  in.Read("stream", &request->stream);
  in.Read("answer_room", &chat.options.thinking.answer_room);
  return in.error();
}

}  // namespace holdfast

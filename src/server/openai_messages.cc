#include "server/openai_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "server/reasoning_effort.h"

namespace holdfast {
namespace {

// A string of a part, or an error that names the part.
std::optional<std::string> PartText(FieldReader& in, const Json& part, const std::string& where) {
  if (!part.is_object()) {
    in.Refuse(where, part, "an object with type and text");
    return std::nullopt;
  }
  const std::string type = part.contains("type") && part["type"].is_string()
                               ? part["type"].get<std::string>()
                               : std::string();
  const char* text_key = type == "refusal" ? "refusal" : "text";
  if (type != "text" && type != "input_text" && type != "output_text" && type != "refusal") {
    in.Fail(
        where + ".type",
        InvalidArgumentError(fmt::format(
            "{}.type is {}: this model reads text only, images, audio and files are not supported",
            where, part.contains("type") ? ShortText(part["type"]) : "missing")));
    return std::nullopt;
  }
  const auto text = part.find(text_key);
  if (text == part.end() || !text->is_string()) {
    in.Refuse(where + "." + text_key, text == part.end() ? Json() : *text, "a string");
    return std::nullopt;
  }
  return text->get<std::string>();
}

}  // namespace

std::optional<std::string> ReadContentText(FieldReader& in, const Json& content,
                                           const std::string& where) {
  if (content.is_null()) return std::nullopt;
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) {
    in.Refuse(where, content, "a string or an array of text parts");
    return std::nullopt;
  }
  std::string joined;
  for (size_t i = 0; i < content.size(); ++i) {
    const auto text = PartText(in, content[i], fmt::format("{}[{}]", where, i));
    if (!text) return std::nullopt;
    joined += *text;
  }
  return joined;
}

namespace {

// One of an assistant message's tool_calls, or an error.
Json ToolCall(FieldReader& in, const Json& call, const std::string& where) {
  const Json* function = nullptr;
  if (call.is_object() && call.contains("function")) function = &call["function"];
  if (function == nullptr || !function->is_object() || !function->contains("name") ||
      !(*function)["name"].is_string()) {
    in.Refuse(where, call, "an object with function.name and function.arguments");
    return {};
  }
  Json arguments = function->contains("arguments") ? (*function)["arguments"] : Json("{}");
  if (arguments.is_null()) arguments = "{}";
  if (!arguments.is_string() && !arguments.is_object()) {
    in.Refuse(where + ".function.arguments", arguments, "a string that holds a JSON object");
    return {};
  }
  Json result;
  if (call.contains("id") && call["id"].is_string()) result["id"] = call["id"];
  result["type"] = "function";
  result["function"]["name"] = (*function)["name"];
  result["function"]["arguments"] = std::move(arguments);
  return result;
}

void ReadToolCalls(FieldReader& in, const Json& message, const std::string& where, Json* out) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || calls->is_null()) return;
  if (!calls->is_array()) return in.Refuse(where + ".tool_calls", *calls, "an array");
  if (calls->empty()) return;
  Json& list = (*out)["tool_calls"] = Json::array();
  for (size_t i = 0; i < calls->size() && in.ok(); ++i) {
    list.push_back(ToolCall(in, (*calls)[i], fmt::format("{}.tool_calls[{}]", where, i)));
  }
}

// Copies a string field; null counts as absent.
void CopyString(FieldReader& in, const Json& message, const char* key, const std::string& where,
                Json* out) {
  const auto value = message.find(key);
  if (value == message.end() || value->is_null()) return;
  if (!value->is_string()) return in.Refuse(where + "." + key, *value, "a string");
  (*out)[key] = *value;
}

Json Message(FieldReader& in, const Json& message, const std::string& where) {
  if (!message.is_object()) {
    in.Refuse(where, message, "an object with role and content");
    return {};
  }
  const auto role = message.find("role");
  const std::string role_text =
      role != message.end() && role->is_string() ? role->get<std::string>() : std::string();
  if (role_text != "system" && role_text != "developer" && role_text != "user" &&
      role_text != "assistant" && role_text != "tool") {
    in.Refuse(where + ".role", role == message.end() ? Json() : *role,
              "system, developer, user, assistant or tool");
    return {};
  }
  Json out;
  out["role"] = role_text == "developer" ? "system" : role_text;
  const auto content = message.find("content");
  const bool is_assistant = role_text == "assistant";
  const auto text =
      ReadContentText(in, content == message.end() ? Json() : *content, where + ".content");
  if (!text && !is_assistant) {
    in.Refuse(where + ".content", Json(), "a string or an array of text parts");
  }
  out["content"] = text.value_or("");
  if (is_assistant) {
    CopyString(in, message, "reasoning_content", where, &out);
    if (!out.contains("reasoning_content") && message.contains("reasoning") &&
        message["reasoning"].is_string()) {
      out["reasoning_content"] = message["reasoning"];
    }
    ReadToolCalls(in, message, where, &out);
  }
  if (role_text == "tool") CopyString(in, message, "tool_call_id", where, &out);
  CopyString(in, message, "name", where, &out);
  return out;
}

// In the message itself or in any of its parts.
bool HasCacheControl(const Json& message) {
  const auto has = [](const Json& json) {
    return json.is_object() && json.contains("cache_control") && json["cache_control"].is_object();
  };
  if (has(message)) return true;
  const auto content = message.find("content");
  return content != message.end() && content->is_array() && std::ranges::any_of(*content, has);
}

constexpr int64_t kMaxBudget = int64_t{1} << 31;

// A word, or the number of tokens.
void ReadEffort(FieldReader& in, std::string_view key, ChatTemplate::Input* input,
                ThinkingBudget* budget) {
  const Json* effort = in.Find(key);
  if (effort == nullptr) return;
  if (effort->is_number()) {
    ReadThinkingTokens(in, key, input, budget);
  } else if (!effort->is_string() ||
             !ApplyReasoningEffort(effort->get_ref<const std::string&>(), input, budget)) {
    in.Refuse(key, *effort, std::string(kReasoningEfforts) + ", or a number of tokens");
  }
}

}  // namespace

void ReadMessages(FieldReader& in, ChatTemplate::Input* input, std::vector<size_t>* cache_marks) {
  const Json* messages = in.Find("messages");
  if (messages == nullptr) {
    return in.Fail("messages", InvalidArgumentError("messages is missing"));
  }
  if (!messages->is_array() || messages->empty()) {
    return in.Refuse("messages", *messages, "an array of at least one message");
  }
  for (size_t i = 0; i < messages->size() && in.ok(); ++i) {
    input->messages.push_back(Message(in, (*messages)[i], fmt::format("messages[{}]", i)));
    if (in.ok() && HasCacheControl((*messages)[i])) cache_marks->push_back(i);
  }
}

void ReadTools(FieldReader& in, ChatTemplate::Input* input, ToolChoice* choice) {
  const Json* tools = in.Find("tools");
  if (tools != nullptr) {
    if (!tools->is_array()) return in.Refuse("tools", *tools, "an array of tools");
    for (size_t i = 0; i < tools->size(); ++i) {
      const Json& tool = (*tools)[i];
      const std::string where = fmt::format("tools[{}]", i);
      const bool is_function = tool.is_object() && tool.value("type", Json()) == "function" &&
                               tool.contains("function") && tool["function"].is_object() &&
                               tool["function"].contains("name") &&
                               tool["function"]["name"].is_string();
      if (!is_function) {
        return in.Refuse(where, tool, "an object with type \"function\" and function.name");
      }
    }
    if (!tools->empty()) input->tools = *tools;
  }
  ReadToolChoice(in, input, choice);
}

void ReadThinkingTokens(FieldReader& in, std::string_view key, ChatTemplate::Input* input,
                        ThinkingBudget* budget) {
  if (in.Find(key) == nullptr) return;
  in.Read(key, &budget->tokens, -1, kMaxBudget);
  if (in.ok()) input->enable_thinking = budget->tokens != 0;
}

void ReadThinking(FieldReader& in, ChatTemplate::Input* input, ThinkingBudget* budget) {
  ReadEffort(in, "reasoning_effort", input, budget);
  ReadThinkingTokens(in, "thinking_budget_tokens", input, budget);
  ReadThinkingTokens(in, "thinking_budget", input, budget);
  in.Read("answer_room", &budget->answer_room);

  const Json* kwargs = in.Object("chat_template_kwargs");
  if (kwargs == nullptr) return;
  FieldReader inner(*kwargs, "chat_template_kwargs.");
  std::optional<bool> enable_thinking;
  ReadEffort(inner, "reasoning_effort", input, budget);
  ReadThinkingTokens(inner, "thinking_budget", input, budget);
  inner.Read("enable_thinking", &enable_thinking);
  if (!inner.ok()) return in.Fail(inner.error().param, inner.error().status);
  if (enable_thinking) input->enable_thinking = enable_thinking;
  input->extra = *kwargs;
  // These have their own places in the input; the rest are further variables of the template.
  for (const char* key : {"enable_thinking", "reasoning_effort", "thinking_budget", "messages",
                          "tools", "add_generation_prompt"}) {
    input->extra.erase(key);
  }
}

}  // namespace holdfast

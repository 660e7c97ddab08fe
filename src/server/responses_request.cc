#include "server/responses_request.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <optional>
#include <utility>
#include <vector>

#include "server/billing_line.h"
#include "server/field_reader.h"
#include "server/openai_common.h"
#include "server/openai_messages.h"
#include "server/reasoning_effort.h"
#include "server/reply_format_reader.h"
#include "token/utf8.h"

namespace holdfast {
namespace {

constexpr std::string_view kSeal = "holdfast1:";

std::string StringAt(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

// Reads items into chat messages. What a reply consists of (reasoning, text, calls) is one message
// of role assistant.
class ItemReader {
 public:
  ItemReader(FieldReader* in, Json* messages) : in_(*in), messages_(*messages) {}

  void Read(const Json& item, const std::string& where);
  // Ends the reply that is being put together.
  void Flush() {
    if (reply_.is_null()) return;
    if (!reply_.contains("content")) reply_["content"] = "";
    messages_.push_back(std::exchange(reply_, Json()));
  }

 private:
  void ReadMessage(const Json& item, const std::string& where);
  void ReadReasoning(const Json& item, const std::string& where);
  void ReadCall(const Json& item, const std::string& where, bool custom);
  void ReadOutput(const Json& item, const std::string& where);
  std::string Text(const Json& item, const char* key, const std::string& where);
  // A reply that has got no further than `stage`; a new one is begun when the present one has.
  enum Stage { kReasoning, kContent, kCalls };
  Json& ReplyAt(Stage stage) {
    const bool further = (stage < kCalls && reply_.contains("tool_calls")) ||
                         (stage < kContent && reply_.contains("content"));
    if (further) Flush();
    if (reply_.is_null()) reply_["role"] = "assistant";
    return reply_;
  }
  std::string NameInPrompt(const Json& item) const;

  FieldReader& in_;
  Json& messages_;
  Json reply_;
};

std::string ItemReader::Text(const Json& item, const char* key, const std::string& where) {
  const auto it = item.find(key);
  if (it != item.end() && it->is_string()) return it->get<std::string>();
  in_.Refuse(fmt::format("{}.{}", where, key), it == item.end() ? Json() : *it, "a string");
  return {};
}

std::string PromptName(const std::string& name_space, const std::string& name) {
  if (name_space.empty()) return name;
  return name_space.ends_with("__") ? name_space + name : name_space + "__" + name;
}

std::string ItemReader::NameInPrompt(const Json& item) const {
  return PromptName(StringAt(item, "namespace"), StringAt(item, "name"));
}

void ItemReader::ReadMessage(const Json& item, const std::string& where) {
  const std::string role = StringAt(item, "role");
  if (role != "user" && role != "assistant" && role != "system" && role != "developer") {
    return in_.Refuse(where + ".role", item.contains("role") ? item["role"] : Json(),
                      "user, assistant, system or developer");
  }
  const auto content = item.find("content");
  const std::optional<std::string> text =
      ReadContentText(in_, content == item.end() ? Json() : *content, where + ".content");
  if (!text) return in_.Refuse(where + ".content", Json(), "a string or an array of text parts");
  if (role == "assistant") {
    Json& reply = ReplyAt(kContent);
    reply["content"] = StringAt(reply, "content") + *text;
    return;
  }
  Flush();
  Json message;
  message["role"] = role == "user" ? "user" : "system";
  message["content"] = *text;
  messages_.push_back(std::move(message));
}

void ItemReader::ReadReasoning(const Json& item, const std::string& where) {
  std::string thinking = UnsealReasoning(StringAt(item, "encrypted_content"));
  for (const char* key : {"content", "summary"}) {
    const auto parts = item.find(key);
    if (!thinking.empty() || parts == item.end() || parts->is_null()) continue;
    if (!parts->is_array()) return in_.Refuse(where + "." + key, *parts, "an array of texts");
    for (size_t i = 0; i < parts->size() && in_.ok(); ++i) {
      const std::string part_where = fmt::format("{}.{}[{}]", where, key, i);
      if (!(*parts)[i].is_object()) {
        return in_.Refuse(part_where, (*parts)[i], "an object with type and text");
      }
      thinking += Text((*parts)[i], "text", part_where);
    }
  }
  if (!in_.ok() || thinking.empty()) return;
  Json& reply = ReplyAt(kReasoning);
  reply["reasoning_content"] = StringAt(reply, "reasoning_content") + thinking;
}

void ItemReader::ReadCall(const Json& item, const std::string& where, bool custom) {
  Json call;
  call["id"] = Text(item, "call_id", where);
  call["type"] = "function";
  Text(item, "name", where);
  call["function"]["name"] = NameInPrompt(item);
  if (custom) {
    call["function"]["arguments"]["input"] = Text(item, "input", where);
  } else {
    call["function"]["arguments"] = Text(item, "arguments", where);
  }
  if (in_.ok()) ReplyAt(kCalls)["tool_calls"].push_back(std::move(call));
}

void ItemReader::ReadOutput(const Json& item, const std::string& where) {
  Flush();
  Json message;
  message["role"] = "tool";
  const auto output = item.find("output");
  const std::optional<std::string> text =
      ReadContentText(in_, output == item.end() ? Json() : *output, where + ".output");
  if (!text) return in_.Refuse(where + ".output", Json(), "a string or an array of text parts");
  message["content"] = *text;
  message["tool_call_id"] = Text(item, "call_id", where);
  messages_.push_back(std::move(message));
}

void ItemReader::Read(const Json& item, const std::string& where) {
  if (!item.is_object()) return in_.Refuse(where, item, "an object");
  const std::string type = item.contains("type") ? StringAt(item, "type") : "message";
  if (type == "message") {
    ReadMessage(item, where);
  } else if (type == "reasoning") {
    ReadReasoning(item, where);
  } else if (type == "function_call" || type == "custom_tool_call") {
    ReadCall(item, where, type == "custom_tool_call");
  } else if (type == "function_call_output" || type == "custom_tool_call_output") {
    ReadOutput(item, where);
  } else if (type != "web_search_call") {  // of another server: its results are not in it
    in_.Fail(where + ".type",
             InvalidArgumentError(
                 fmt::format("{}.type is {}, must be message, reasoning, function_call, "
                             "function_call_output, custom_tool_call or custom_tool_call_output",
                             where, item.contains("type") ? ShortText(item["type"]) : "missing")));
  }
}

// Reads tools, flat or in namespaces, into the template's shape.
class ToolReader {
 public:
  ToolReader(FieldReader* in, ResponsesRequest* request) : in_(*in), request_(*request) {}

  void Read(const Json& tools, const std::string& name_space, const std::string& where) {
    for (size_t i = 0; i < tools.size() && in_.ok(); ++i) {
      ReadTool(tools[i], name_space, fmt::format("{}[{}]", where, i));
    }
  }

 private:
  void ReadTool(const Json& tool, const std::string& name_space, const std::string& where);

  FieldReader& in_;
  ResponsesRequest& request_;
};

void ToolReader::ReadTool(const Json& tool, const std::string& name_space,
                          const std::string& where) {
  const std::string type = tool.is_object() ? StringAt(tool, "type") : std::string();
  if (type.empty()) return in_.Refuse(where, tool, "an object with a type");
  const bool custom = type == "custom", nested = type == "namespace" && name_space.empty();
  if (type != "function" && !custom && !nested) return;  // one of OpenAI's own servers
  const std::string name = StringAt(tool, "name");
  if (name.empty()) {
    return in_.Refuse(where + ".name", tool.contains("name") ? tool["name"] : Json(), "a name");
  }
  if (nested) {
    const auto tools = tool.find("tools");
    if (tools == tool.end() || !tools->is_array()) {
      return in_.Refuse(where + ".tools", tools == tool.end() ? Json() : *tools,
                        "an array of tools");
    }
    return Read(*tools, name, where + ".tools");
  }
  const std::string prompt_name = PromptName(name_space, name);
  Json function;
  function["name"] = prompt_name;
  std::string description = StringAt(tool, "description");
  if (custom) {
    // A grammar of the text is told, not enforced.
    const auto format = tool.find("format");
    if (format != tool.end() && format->is_object() && !StringAt(*format, "definition").empty()) {
      description += fmt::format("\n\nThe input follows this {} grammar:\n{}",
                                 StringAt(*format, "syntax"), StringAt(*format, "definition"));
    }
    function["description"] = description;
    function["parameters"] = {{"type", "object"},
                              {"properties", {{"input", {{"type", "string"}}}}},
                              {"required", Json::array({"input"})}};
  } else {
    if (!description.empty()) function["description"] = description;
    const auto parameters = tool.find("parameters");
    if (parameters != tool.end() && !parameters->is_null()) {
      if (!parameters->is_object()) {
        return in_.Refuse(where + ".parameters", *parameters, "an object (a JSON schema)");
      }
      function["parameters"] = *parameters;
    }
  }
  request_.tools[prompt_name] = {.name = name, .name_space = name_space, .custom = custom};
  if (request_.chat.input.tools.is_null()) request_.chat.input.tools = Json::array();
  request_.chat.input.tools.push_back({{"type", "function"}, {"function", std::move(function)}});
}

void ReadReasoning(FieldReader& in, ResponsesRequest* request) {
  const Json* reasoning = in.Object("reasoning");
  if (reasoning != nullptr) {
    FieldReader inner(*reasoning, "reasoning.");
    std::optional<std::string> effort, summary;
    inner.Read("effort", &effort);
    inner.Read("summary", &summary);
    if (inner.ok() && effort &&
        !ApplyReasoningEffort(*effort, &request->chat.input, &request->chat.options.thinking)) {
      inner.Refuse("effort", Json(*effort), kReasoningEfforts);
    }
    if (!inner.ok()) return in.Fail("reasoning", inner.error().status);
    request->reasoning_as_summary = summary.has_value();
  }
  ReadThinkingTokens(in, "thinking_budget", &request->chat.input, &request->chat.options.thinking);
  in.Read("answer_room", &request->chat.options.thinking.answer_room);
  std::vector<std::string> include;
  in.Read("include", &include);
  for (const std::string& what : include) {
    if (what == "reasoning.encrypted_content") request->with_encrypted_reasoning = true;
  }
}

void ReadTextFormat(FieldReader& in, ReplyFormat* out) {
  const Json* text = in.Object("text");
  if (text == nullptr) return;
  FieldReader inner(*text, "text.");
  if (const Json* format = inner.Find("format")) {
    ReadFormat(in, *format, "text.format", "schema", out);
  }
}

void RefuseUnsupported(FieldReader& in) {
  static constexpr FieldReader::Unsupported kFields[] = {
      {"background", "responses are given at once"},
      {"conversation", "previous_response_id is"},
      {"prompt", "templates of prompts are kept by OpenAI, instructions and input are"},
      {"moderation", "this server moderates nothing"},
      {"top_logprobs", "/v1/chat/completions has logprobs"}};
  in.RefuseUnsupported(kFields);
}

// Instructions and what follows them of the same kind are one system prompt: templates expect one,
// at the beginning.
void JoinSystemPrompt(Json* messages) {
  while (messages->size() > 1 && (*messages)[0]["role"] == "system" &&
         (*messages)[1]["role"] == "system") {
    std::string& text = (*messages)[0]["content"].get_ref<std::string&>();
    text += "\n\n" + (*messages)[1]["content"].get<std::string>();
    messages->erase(1);
  }
}

// What a response repeats of its request.
Json Echo(const Json& body, const ResponsesRequest& request) {
  const auto copy = [&](const char* key, Json otherwise) {
    const auto it = body.find(key);
    return it == body.end() || it->is_null() ? std::move(otherwise) : *it;
  };
  Json echo;
  echo["instructions"] = copy("instructions", Json());
  echo["max_output_tokens"] = copy("max_output_tokens", Json());
  echo["metadata"] = copy("metadata", Json::object());
  echo["parallel_tool_calls"] = !request.single_tool_call;
  echo["previous_response_id"] = copy("previous_response_id", Json());
  echo["reasoning"] = copy("reasoning", {{"effort", Json()}, {"summary", Json()}});
  echo["store"] = request.store;
  echo["temperature"] = request.chat.options.sampling.temperature;
  echo["text"] = copy("text", {{"format", {{"type", "text"}}}});
  echo["tool_choice"] = copy("tool_choice", "auto");
  echo["tools"] = copy("tools", Json::array());
  echo["top_p"] = request.chat.options.sampling.top_p;
  echo["truncation"] = "disabled";
  return echo;
}

}  // namespace

ApiError ParseResponsesRequest(const ModelService& model, const Json& body,
                               const ResponsesHistory* earlier, ResponsesRequest* request) {
  ChatRequest& chat = request->chat;
  chat.options.sampling = model.default_sampling;
  FieldReader in(body);
  in.Read("stream", &request->stream);
  in.Read("store", &request->store);
  in.Read("previous_response_id", &request->previous_response_id);
  if (const Json* tools = in.Find("tools")) {
    if (tools->is_array()) {
      ToolReader(&in, request).Read(*tools, "", "tools");
    } else {
      in.Refuse("tools", *tools, "an array of tools");
    }
  }
  ToolChoice tool_choice;
  ReadToolChoice(in, &chat.input, &tool_choice);
  if (chat.input.tools.is_null()) request->tools.clear();

  Json& messages = chat.input.messages;
  ItemReader items(&in, &messages);
  if (earlier != nullptr) {
    messages.insert(messages.end(), earlier->messages.begin(), earlier->messages.end());
    for (const Json& item : earlier->output) items.Read(item, "previous_response_id");
  }
  const Json* input = in.Find("input");
  if (input == nullptr) {
    in.Fail("input", InvalidArgumentError("input is missing"));
  } else if (input->is_string()) {
    items.Read({{"role", "user"}, {"content", *input}}, "input");
  } else if (!input->is_array() || (input->empty() && earlier == nullptr)) {
    in.Refuse("input", *input, "a string or an array of at least one item");
  } else {
    for (size_t i = 0; i < input->size() && in.ok(); ++i) {
      items.Read((*input)[i], fmt::format("input[{}]", i));
    }
  }
  items.Flush();
  if (request->store) request->conversation = messages;
  std::string instructions;
  in.Read("instructions", &instructions);
  if (!instructions.empty()) {
    messages.insert(messages.begin(), Json{{"role", "system"}, {"content", instructions}});
  }
  JoinSystemPrompt(&messages);
  if (model.pin_billing_line && PinBillingLineOf(&messages)) chat.note = kBillingLineNote;

  ReadReasoning(in, request);
  ReadTextFormat(in, &chat.format);
  RefuseUnsupported(in);
  in.Read("parallel_tool_calls", &tool_choice.parallel);
  request->single_tool_call = !tool_choice.parallel;
  const auto where_of = [&](size_t i) {
    return fmt::format("tools.{}.parameters",
                       chat.input.tools[i]["function"]["name"].get<std::string>());
  };
  SetGrammar(in, model, tool_choice, where_of, &chat);
  ReadGenerationOptions(in, model.generator->vocab_size(), &chat.options);
  in.Read("max_output_tokens", &chat.options.max_tokens, 1, int64_t{1} << 31);
  if (in.ok()) request->echo = Echo(body, *request);
  return in.error();
}

std::string SealReasoning(std::string_view thinking) {
  std::string text(4 * ((thinking.size() + 2) / 3) + 1, '\0');
  const int n = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                reinterpret_cast<const unsigned char*>(thinking.data()),
                                static_cast<int>(thinking.size()));
  text.resize(static_cast<size_t>(n));
  return std::string(kSeal) + text;
}

std::string UnsealReasoning(std::string_view sealed) {
  if (!sealed.starts_with(kSeal)) return {};
  sealed.remove_prefix(kSeal.size());
  std::string text(sealed.size() / 4 * 3, '\0');
  const int n = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                reinterpret_cast<const unsigned char*>(sealed.data()),
                                static_cast<int>(sealed.size()));
  if (n < 0) return {};
  // The decoder counts the padding in.
  size_t n_padding = 0;
  while (n_padding < 2 && sealed.size() > n_padding &&
         sealed[sealed.size() - 1 - n_padding] == '=') {
    ++n_padding;
  }
  text.resize(std::max<size_t>(static_cast<size_t>(n), n_padding) - n_padding);
  return RepairUtf8(text);
}

}  // namespace holdfast

#include "token/chat_template.h"

#include <fmt/format.h>

#include <algorithm>

#include "token/builtin_template.h"
#include "token/jinja/interpreter.h"
#include "token/jinja/json_values.h"
#include "token/jinja/parser.h"

namespace holdfast {
namespace {

using Json = nlohmann::ordered_json;
using jinja::Dict;
using jinja::Source;
using jinja::TaggedString;
using jinja::Value;
using jinja::Variables;

constexpr std::string_view kPrefix = "chat template: ";

Status Prefixed(const Status& status, std::string_view prefix) {
  return Status(status.code(), std::string(prefix) + status.message());
}

// What OpenAI sends as a string holding an object is an object to templates. Text that is no JSON
// object stays a string, as templates for such models expect it.
Result<Value> ConvertArguments(const Json& arguments, Source source) {
  if (!arguments.is_string()) return jinja::FromJson(arguments, source);
  const std::string& text = arguments.get_ref<const std::string&>();
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return Value::FromDict(Dict());
  Result<Value> parsed = jinja::FromJsonText(text, source);
  if (parsed.ok() && parsed->is_dict()) return parsed;
  return jinja::FromJson(arguments, source);
}

// An object with some members converted in another way: `convert` returns nothing for the others.
template <typename Convert>
Result<Value> ConvertObject(const Json& object, Source source, const Convert& convert) {
  Dict dict;
  for (auto it = object.begin(); it != object.end(); ++it) {
    std::optional<Result<Value>> special = convert(it.key(), it.value());
    Result<Value> value = special ? *std::move(special) : jinja::FromJson(it.value(), source);
    if (!value.ok()) return value.status();
    dict.Set(TaggedString(it.key(), source), *std::move(value));
  }
  return Value::FromDict(std::move(dict));
}

Result<Value> ConvertFunction(const Json& function, Source source) {
  return ConvertObject(function, source, [source](const std::string& key, const Json& value) {
    std::optional<Result<Value>> out;
    if (key == "arguments") out = ConvertArguments(value, source);
    return out;
  });
}

Result<Value> ConvertCall(const Json& call, Source source) {
  if (!call.is_object()) return jinja::FromJson(call, source);
  return ConvertObject(call, source, [source](const std::string& key, const Json& value) {
    std::optional<Result<Value>> out;
    if (key == "function" && value.is_object()) out = ConvertFunction(value, source);
    if (key == "arguments") out = ConvertArguments(value, source);
    return out;
  });
}

Result<Value> ConvertCalls(const Json& calls, Source source) {
  jinja::List list;
  for (const Json& call : calls) {
    HF_ASSIGN_OR_RETURN(Value value, ConvertCall(call, source));
    list.push_back(std::move(value));
  }
  return Value::FromList(std::move(list));
}

Result<Value> ConvertMessage(const Json& message, Source source) {
  if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) {
    return InvalidArgumentError("wanted an object with a string 'role'");
  }
  return ConvertObject(message, source, [source](const std::string& key, const Json& value) {
    std::optional<Result<Value>> out;
    if (key == "tool_calls" && value.is_array()) out = ConvertCalls(value, source);
    return out;
  });
}

Result<Value> ConvertMessages(const Json& messages) {
  if (!messages.is_array()) return InvalidArgumentError("messages is no array");
  jinja::List list;
  for (size_t i = 0; i < messages.size(); ++i) {
    Result<Value> message = ConvertMessage(messages[i], static_cast<Source>(i));
    if (!message.ok()) return Prefixed(message.status(), fmt::format("messages[{}]: ", i));
    list.push_back(*std::move(message));
  }
  return Value::FromList(std::move(list));
}

Result<Value> ConvertTools(const Json& tools) {
  if (tools.is_null() || (tools.is_array() && tools.empty())) return Value::None();
  if (!tools.is_array()) return InvalidArgumentError("tools is no array");
  return jinja::FromJson(tools, jinja::kRequest);
}

Result<Variables> MakeVariables(const ChatTemplate::Input& input,
                                const ChatTemplate::SpecialTexts& texts) {
  Variables variables;
  if (!input.extra.is_null() && !input.extra.is_object()) {
    return InvalidArgumentError("the template's further variables are no object");
  }
  for (auto it = input.extra.begin(); it != input.extra.end(); ++it) {
    HF_ASSIGN_OR_RETURN(Value value, jinja::FromJson(it.value(), jinja::kRequest));
    variables.insert_or_assign(it.key(), std::move(value));
  }
  HF_ASSIGN_OR_RETURN(variables["messages"], ConvertMessages(input.messages));
  HF_ASSIGN_OR_RETURN(variables["tools"], ConvertTools(input.tools));
  variables["documents"] = Value::None();
  variables["add_generation_prompt"] = Value::Bool(input.add_generation_prompt);
  variables["bos_token"] = Value::String(texts.bos_token, jinja::kTemplate);
  variables["eos_token"] = Value::String(texts.eos_token, jinja::kTemplate);
  if (input.enable_thinking) variables["enable_thinking"] = Value::Bool(*input.enable_thinking);
  if (input.reasoning_effort) {
    variables["reasoning_effort"] = Value::String(*input.reasoning_effort, jinja::kRequest);
  }
  return variables;
}

// Room for templates that copy their input a few times.
jinja::Limits LimitsFor(const Variables& variables) {
  int64_t n_bytes = 0;
  for (const auto& [name, value] : variables) n_bytes += int64_t{32} * value.weight();
  jinja::Limits limits;
  limits.max_bytes += 32 * n_bytes;
  limits.max_output_bytes += 4 * n_bytes;
  return limits;
}

MarkedText Marked(const TaggedString& text) {
  MarkedText out;
  out.text = text.text();
  int64_t begin = 0;
  for (const TaggedString::Run& run : text.runs()) {
    const auto end = static_cast<int64_t>(run.end);
    if (run.source != jinja::kTemplate) {
      if (!out.plain.empty() && out.plain.back().end == begin) {
        out.plain.back().end = end;
      } else {
        out.plain.push_back({begin, end});
      }
    }
    begin = end;
  }
  return out;
}

std::vector<Span> MessageSpans(const TaggedString& text, size_t n_messages) {
  std::vector<Span> spans(n_messages);
  int64_t begin = 0;
  for (const TaggedString::Run& run : text.runs()) {
    const auto end = static_cast<int64_t>(run.end);
    if (run.source >= 0 && static_cast<size_t>(run.source) < n_messages) {
      Span& span = spans[static_cast<size_t>(run.source)];
      if (span.empty()) span.begin = begin;
      span.end = end;
    }
    begin = end;
  }
  return spans;
}

}  // namespace

struct ChatTemplate::Impl {
  std::string source;
  SpecialTexts texts;
  jinja::Body body;

  Result<TaggedString> Run(const Input& input) const {
    HF_ASSIGN_OR_RETURN(Variables variables, MakeVariables(input, texts));
    const jinja::Limits limits = LimitsFor(variables);
    jinja::Interpreter interpreter(limits, input.now_s);
    Result<TaggedString> text = interpreter.Render(body, std::move(variables));
    if (!text.ok()) return Prefixed(text.status(), kPrefix);
    return text;
  }
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::Create(std::string source) {
  return Create(std::move(source), SpecialTexts());
}

Result<ChatTemplate> ChatTemplate::Create(std::string source, SpecialTexts texts) {
  auto impl = std::make_unique<Impl>();
  impl->source = source.empty() ? std::string(kBuiltinChatTemplate) : std::move(source);
  impl->texts = std::move(texts);
  Result<jinja::Body> body = jinja::Parse(impl->source);
  if (!body.ok()) return Prefixed(body.status(), kPrefix);
  impl->body = *std::move(body);
  return ChatTemplate(std::move(impl));
}

Result<MarkedText> ChatTemplate::Render(const Input& input) const {
  HF_ASSIGN_OR_RETURN(const TaggedString text, impl_->Run(input));
  return Marked(text);
}

Result<ChatTemplate::Rendered> ChatTemplate::RenderWithSpans(const Input& input) const {
  HF_ASSIGN_OR_RETURN(const TaggedString text, impl_->Run(input));
  Rendered rendered;
  rendered.prompt = Marked(text);
  rendered.message_spans = MessageSpans(text, input.messages.size());
  if (!input.add_generation_prompt) return rendered;
  Input without = input;
  without.add_generation_prompt = false;
  // Some templates refuse to end with a user's turn: then there is no such place.
  const Result<TaggedString> head = impl_->Run(without);
  if (head.ok() && text.text().starts_with(head->text())) {
    rendered.generation_prompt_begin = static_cast<int64_t>(head->size());
  }
  return rendered;
}

const std::string& ChatTemplate::source() const { return impl_->source; }

}  // namespace holdfast

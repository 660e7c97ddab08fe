#include "server/reply_format_reader.h"

#include <fmt/format.h>

#include <utility>

#include "grammar/grammar_cache.h"

namespace holdfast {
namespace {

const Json* Member(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

std::string NameOf(const Json& object) {
  const Json* name = Member(object, "name");
  return name != nullptr && name->is_string() ? name->get<std::string>() : std::string();
}

}  // namespace

void ReadToolChoice(FieldReader& in, ChatTemplate::Input* input, ToolChoice* choice) {
  const Json* wanted = in.Find("tool_choice");
  if (wanted == nullptr || *wanted == "auto") return;
  if (*wanted == "none") {
    input->tools = nullptr;
    return;
  }
  choice->required = true;
  if (*wanted == "required") return;
  const Json* type = Member(*wanted, "type");
  if (type != nullptr && (*type == "function" || *type == "custom")) {
    const Json* inner = Member(*wanted, type->get_ref<const std::string&>());
    choice->name = NameOf(inner == nullptr ? *wanted : *inner);
  }
  if (choice->name.empty()) {
    in.Refuse("tool_choice", *wanted,
              "\"auto\", \"none\", \"required\" or a function with its name");
  }
}

void ReadFormat(FieldReader& in, const Json& format, const std::string& path,
                std::string_view schema_at, ReplyFormat* out) {
  const auto refuse = [&](const std::string& at, const Json* value, std::string_view wanted) {
    in.Fail(at, InvalidArgumentError(fmt::format("{} is {}, must be {}", at,
                                                 value == nullptr ? "missing" : ShortText(*value),
                                                 wanted)));
  };
  if (!format.is_object()) return refuse(path, &format, "an object");
  const Json* type = Member(format, "type");
  if (type != nullptr && *type == "text") return;
  if (type == nullptr || (*type != "json_object" && *type != "json_schema")) {
    return refuse(path + ".type", type, "\"text\", \"json_object\" or \"json_schema\"");
  }
  out->text = ReplyFormat::Text::kJson;
  out->schema_where = fmt::format("{}.{}", path, *type == "json_object" ? "schema" : schema_at);
  if (*type == "json_object") {
    const Json* schema = Member(format, "schema");  // llama.cpp's
    out->schema = schema == nullptr ? Json{{"type", "object"}} : *schema;
    return;
  }
  const Json* schema = &format;
  for (std::string_view rest = schema_at; schema != nullptr && !rest.empty();) {
    const size_t end = std::min(rest.find('.'), rest.size());
    schema = Member(*schema, rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (schema == nullptr || !schema->is_object()) {
    return refuse(out->schema_where, schema, "an object (a JSON schema)");
  }
  out->schema = *schema;
}

void SetGrammar(FieldReader& in, const ModelService& model, const ToolChoice& choice,
                const std::function<std::string(size_t)>& where_of, ChatRequest* chat) {
  if (!in.ok()) return;
  ReplyFormat& format = chat->format;
  const Json& tools = chat->input.tools;
  if (choice.required) {
    format.text = ReplyFormat::Text::kNone;
    format.calls = choice.parallel && choice.name.empty() ? ReplyFormat::Calls::kSeveral
                                                          : ReplyFormat::Calls::kOne;
    for (size_t i = 0; i < tools.size(); ++i) {
      const Json& function = tools[i]["function"];
      const std::string name = NameOf(function);
      if (!choice.name.empty() && name != choice.name) continue;
      const Json* parameters = Member(function, "parameters");
      format.tools.push_back({name, where_of(i), parameters == nullptr ? Json() : *parameters});
    }
    if (format.tools.empty()) {
      return in.Fail("tool_choice",
                     InvalidArgumentError(
                         choice.name.empty()
                             ? std::string("tool_choice asks for a call, but there are no tools")
                             : fmt::format("tool_choice names the tool {}, which is not in tools",
                                           ShortText(Json(choice.name)))));
    }
  } else if (format.constrains() && tools.is_array() && !tools.empty()) {
    format.calls = ReplyFormat::Calls::kFree;
  }
  if (!format.constrains()) return;
  if (!chat->prefill.empty()) {
    return in.Fail("messages", InvalidArgumentError(
                                   "a reply that must have a format or call a tool cannot begin "
                                   "with a last message of role assistant"));
  }
  std::string where;
  Result<std::shared_ptr<TokenGrammar>> grammar =
      model.grammars != nullptr ? model.grammars->Get(format, &where)
                                : GrammarCache(model.tokenizer).Get(format, &where);
  if (!grammar.ok()) return in.Fail(where, grammar.status());
  chat->grammar = *std::move(grammar);
}

}  // namespace holdfast

#include "token/tool_schema.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace holdfast {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSpaces = " \t\r\n";
constexpr int kMaxSchemaDepth = 16;

// Which kinds of value a schema allows, as far as it says.
struct Kinds {
  bool strings = false;
  bool others = false;

  void Add(const Kinds& more) {
    strings = strings || more.strings;
    others = others || more.others;
  }
};

Kinds KindsOfType(const Json& type) {
  Kinds kinds;
  if (type.is_string()) {
    (type == "string" ? kinds.strings : kinds.others) = true;
  } else if (type.is_array()) {
    for (const Json& one : type) {
      if (one.is_string()) kinds.Add(KindsOfType(one));
    }
  }
  return kinds;
}

Kinds KindsOf(const Json& schema, int depth) {
  Kinds kinds;
  if (!schema.is_object() || depth > kMaxSchemaDepth) return kinds;
  if (const auto it = schema.find("type"); it != schema.end()) return KindsOfType(*it);
  if (const auto it = schema.find("enum"); it != schema.end() && it->is_array()) {
    for (const Json& value : *it) (value.is_string() ? kinds.strings : kinds.others) = true;
  }
  if (const auto it = schema.find("const"); it != schema.end()) {
    (it->is_string() ? kinds.strings : kinds.others) = true;
  }
  for (const char* key : {"anyOf", "oneOf"}) {
    const auto it = schema.find(key);
    if (it == schema.end() || !it->is_array()) continue;
    for (const Json& option : *it) kinds.Add(KindsOf(option, depth + 1));
  }
  return kinds;
}

ParameterType TypeOfSchema(const Json& schema) {
  const Kinds kinds = KindsOf(schema, 0);
  if (kinds.strings && kinds.others) return ParameterType::kMixed;
  if (kinds.strings) return ParameterType::kString;
  return kinds.others ? ParameterType::kJson : ParameterType::kUnknown;
}

const Json* Member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

}  // namespace

ToolSchemas::ToolSchemas(const Json& tools) {
  if (!tools.is_array()) return;
  n_tools_ = tools.size();
  for (const Json& tool : tools) {
    const Json* function = Member(tool, "function");
    if (function == nullptr) function = &tool;
    const Json* name = Member(*function, "name");
    const Json* schema = Member(*function, "parameters");
    if (schema == nullptr) schema = Member(*function, "input_schema");
    if (name == nullptr || !name->is_string() || schema == nullptr) continue;
    const Json* properties = Member(*schema, "properties");
    if (properties == nullptr || !properties->is_object()) continue;
    Parameters& parameters = tools_[name->get<std::string>()];
    for (auto it = properties->begin(); it != properties->end(); ++it) {
      parameters[it.key()] = TypeOfSchema(it.value());
    }
  }
}

const ParameterType* ToolSchemas::Find(std::string_view tool, std::string_view parameter) const {
  const auto parameters = tools_.find(tool);
  if (parameters == tools_.end()) return nullptr;
  const auto it = parameters->second.find(parameter);
  return it == parameters->second.end() ? nullptr : &it->second;
}

bool ToolSchemas::HasParameter(std::string_view tool, std::string_view parameter) const {
  return Find(tool, parameter) != nullptr;
}

ParameterType ToolSchemas::TypeOf(std::string_view tool, std::string_view parameter) const {
  const ParameterType* type = Find(tool, parameter);
  return type == nullptr ? ParameterType::kUnknown : *type;
}

std::string ArgumentJson(std::string_view text, ParameterType type) {
  if (type == ParameterType::kString) return JsonString(text);
  const std::string_view trimmed = Trimmed(text);
  if (type == ParameterType::kJson) {
    if (trimmed == "True") return "true";
    if (trimmed == "False") return "false";
    if (trimmed == "None") return "null";
  }
  // The JSON reader takes a zero byte for the end.
  if (trimmed.find('\0') != std::string_view::npos) return JsonString(text);
  // Where strings are allowed too, text in quotes is a string that has quotes in it.
  const bool quoted = trimmed.starts_with('"');
  if ((!quoted || type == ParameterType::kJson) && Json::accept(trimmed)) {
    return std::string(trimmed);
  }
  return JsonString(text);
}

std::string JsonStringInside(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out.push_back(c);
        }
    }
  }
  return out;
}

std::string JsonString(std::string_view text) { return '"' + JsonStringInside(text) + '"'; }

}  // namespace holdfast

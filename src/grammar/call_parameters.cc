// Parameters of tool calls: <parameter=KEY>, the value on lines of its own, </parameter>.
#include <fmt/format.h>

#include "grammar/schema_compiler.h"

namespace holdfast {

void SchemaCompiler::AddParameters(const Json& schema, const std::string& where,
                                   const ToolSchemas& tools, const std::string& tool, StateId from,
                                   StateId to) {
  std::string object_where = where;
  const Json* object = Follow(schema, &object_where);
  if (object == nullptr) return;
  if (!object->is_object()) {
    return Fail(where, InvalidArgumentError(where + " must be an object (a JSON schema)"));
  }
  static constexpr std::string_view kKeywords[] = {"type", "properties", "required",
                                                   "additionalProperties", "patternProperties"};
  CheckKeywords(*object, object_where, kKeywords);
  if (ok() && (TypesOf(*object, object_where) & kObject) == 0) {
    Fail(object_where + ".type", InvalidArgumentError(object_where + ".type must be object"));
  }
  if (!ok()) return;
  for (const Property& property : PropertiesOf(*object, object_where)) {
    // What ends a name, what a line begins with, and what is trimmed.
    if (property.name.empty() || property.name.find_first_of("<>\r\n\t ") != std::string::npos) {
      return Refuse(property.where, "has a name that a tool call cannot hold");
    }
    const StateId value = builder_.Text(from, fmt::format("<parameter={}>\n", property.name));
    const StateId value_end = builder_.NewState(), next = builder_.NewState();
    switch (tools.TypeOf(tool, property.name)) {
      case ParameterType::kString:
        Value(*property.schema, property.where);  // for its checks
        AddRawStrings(*property.schema, property.where, /*plain=*/true, value, value_end);
        break;
      case ParameterType::kJson:
        builder_.Call(value, Value(*property.schema, property.where), value_end);
        break;
      case ParameterType::kMixed:
      case ParameterType::kUnknown:
        AddRawStrings(*property.schema, property.where, /*plain=*/false, value, value_end);
        AddValue(*property.schema, property.where, kAllTypes & ~kString, value, value_end);
        break;
    }
    if (!ok()) return;
    builder_.Text(value_end, "\n</parameter>\n", next);
    if (!property.required) builder_.Skip(from, next);
    from = next;
  }
  builder_.Skip(from, to);
}

}  // namespace holdfast

// Arrays and objects of a schema.
#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema_compiler.h"

namespace holdfast {
namespace {

using Json = nlohmann::ordered_json;

std::string Quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

void SchemaCompiler::AddArray(const Json& schema, const std::string& where, StateId from,
                              StateId to) {
  const int32_t min = Count(schema, where, "minItems", 0);
  int32_t max = Count(schema, where, "maxItems", kUnlimited);
  if (const Json* unique = Find(schema, "uniqueItems"); unique != nullptr && *unique != false) {
    if (max > 1) return Refuse(where + ".uniqueItems", "is not supported");
  }
  std::vector<RuleId> first;
  if (const Json* prefix = Find(schema, "prefixItems")) {
    if (!prefix->is_array()) {
      return Fail(where + ".prefixItems",
                  InvalidArgumentError(where + ".prefixItems must be an array of schemas"));
    }
    for (size_t i = 0; i < prefix->size(); ++i) {
      first.push_back(Value((*prefix)[i], fmt::format("{}.prefixItems[{}]", where, i)));
    }
  }
  const Json* items = Find(schema, "items");
  if (items != nullptr && items->is_array()) {
    return Refuse(where + ".items", "is an array, prefixItems is what it is called now");
  }
  const int32_t n_first = static_cast<int32_t>(first.size());
  // What only may follow, and of which nothing is said, is left out.
  if (items == nullptr && n_first > 0) max = std::min(max, std::max(min, n_first));
  const RuleId rest = items == nullptr ? AnyValue() : Value(*items, where + ".items");
  if (!ok()) return;

  const StateId close = builder_.NewState();
  builder_.Read(close, ']', to);
  StateId state = builder_.Text(from, "[");
  for (int32_t i = 0;; ++i) {  // `i` elements are there
    if (i >= min && i <= max) builder_.Skip(state, close);
    if (i >= max || i > n_first || (i == n_first && n_first > 0)) break;
    const RuleId element = i < n_first ? first[static_cast<size_t>(i)] : rest;
    const StateId next = builder_.NewState();
    builder_.Call(state, i == 0 ? element : Behind(element), next);
    state = next;
  }
  const int32_t n_done = std::max(n_first, 1);
  if (max > n_done) {
    builder_.Repeat(state, Behind(rest), std::max(min - n_done, 0),
                    max == kUnlimited ? kUnlimited : max - n_done, close);
  }
}

std::vector<SchemaCompiler::Property> SchemaCompiler::PropertiesOf(const Json& schema,
                                                                   const std::string& where) {
  std::vector<Property> list;
  if (const Json* properties = Find(schema, "properties")) {
    if (!properties->is_object()) {
      Fail(where + ".properties",
           InvalidArgumentError(where + ".properties must be an object of schemas"));
      return list;
    }
    for (const auto& [name, property] : properties->items()) {
      list.push_back({name, &property, fmt::format("{}.properties.{}", where, name)});
    }
  }
  const Json* required = Find(schema, "required");
  if (required == nullptr) return list;
  const std::string at = where + ".required";
  if (!required->is_array()) {
    Fail(at, InvalidArgumentError(at + " must be an array of names"));
    return list;
  }
  static const Json kAnything = Json::object(), kNothing = false;
  const Json* additional = Find(schema, "additionalProperties");
  for (const Json& name : *required) {
    if (!name.is_string()) {
      Fail(at, InvalidArgumentError(at + " must be an array of names"));
      return list;
    }
    const auto known = std::ranges::find(list, name.get_ref<const std::string&>(), &Property::name);
    if (known != list.end()) {
      known->required = true;
    } else {
      list.push_back({name, additional == nullptr ? &kAnything : additional,
                      where + ".additionalProperties", true});
    }
  }
  return list;
}

// The key and the value of a property that has no schema of its own.
RuleId SchemaCompiler::AdditionalProperty(const Json& schema, const std::string& where,
                                          const std::vector<Property>& declared) {
  const RuleId rule = builder_.NewRule();
  std::vector<std::string> names;
  for (const Property& property : declared) names.push_back(property.name);
  Strings keys;
  if (!names.empty()) keys.machine = MachineWithout(names);
  const StateId colon = builder_.NewState();
  AddStrings(keys, where, Spelling::kJson, builder_.Text(builder_.StartOf(rule), "\""), colon);
  builder_.Call(Space(builder_.Text(colon, "\":")), Value(schema, where), builder_.NewFinal());
  return rule;
}

// Properties come in their order; each is there or not. Whether one is there already decides on the
// comma before the next.
void SchemaCompiler::AddObject(const Json& schema, const std::string& where, StateId from,
                               StateId to) {
  const std::vector<Property> properties = PropertiesOf(schema, where);
  if (!ok()) return;
  StateId none = builder_.Text(from, "{"), some = builder_.NewState();
  for (const Property& property : properties) {
    if (in_call_ && property.name.find('<') != std::string::npos) {
      return Refuse(property.where, "has a name that a tool call cannot hold");
    }
    const StateId key = builder_.NewState();
    const StateId next_none = builder_.NewState(), next_some = builder_.NewState();
    builder_.Call(Space(builder_.Text(key, Quoted(property.name) + ":")),
                  Value(*property.schema, property.where), next_some);
    builder_.Skip(none, key);
    builder_.Skip(Space(builder_.Text(some, ",")), key);
    if (!property.required) {
      builder_.Skip(none, next_none);
      builder_.Skip(some, next_some);
    }
    if (!ok()) return;
    none = next_none;
    some = next_some;
  }
  const StateId close = builder_.NewState();
  builder_.Read(close, '}', to);
  builder_.Skip(none, close);
  builder_.Skip(some, close);
  // Objects with known properties get others only when the schema speaks of them.
  static const Json kAnything = Json::object();
  const Json* additional = Find(schema, "additionalProperties");
  if (additional == nullptr && properties.empty()) additional = &kAnything;
  if (additional == nullptr || *additional == false) return;
  const RuleId more = AdditionalProperty(*additional, where + ".additionalProperties", properties);
  builder_.Call(none, more, some);
  builder_.Call(some, Behind(more), some);
}

}  // namespace holdfast

// Arrays and objects of a schema.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "grammar/schema_compiler.h"

namespace holdfast {
namespace {

using Json = nlohmann::ordered_json;

// Items that differ: so few values come in any order, more in the order they have in the schema.
constexpr size_t kMostAnyOrder = 8;
constexpr size_t kMostUniqueValues = 256;
constexpr size_t kMostUniquePlaces = 10'000;
// Sets of patterns that a name may match.
constexpr size_t kMostPatterns = 4;

std::string Quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

void SchemaCompiler::AddArray(const Json& schema, const std::string& where, StateId from,
                              StateId to) {
  const int32_t min = Count(schema, where, "minItems", 0);
  int32_t max = Count(schema, where, "maxItems", kUnlimited);
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
  const Json* unique = Find(schema, "uniqueItems");
  if (unique != nullptr && !unique->is_boolean()) {
    return Fail(where + ".uniqueItems",
                InvalidArgumentError(where + ".uniqueItems must be a boolean"));
  }
  if (unique != nullptr && *unique == true && max > 1) {
    const auto values = items != nullptr && first.empty() && ok()
                            ? FewValues(*items, where + ".items")
                            : std::nullopt;
    if (values) return AddUnique(*values, where, min, max, from, to);
    return Refuse(where + ".uniqueItems",
                  fmt::format("is supported only where items is of at most {} values for certain "
                              "(enum, const, boolean, null) and there are no prefixItems",
                              kMostUniqueValues));
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

std::optional<std::vector<Json>> SchemaCompiler::FewValues(const Json& schema,
                                                           const std::string& where) {
  std::string target_where = where;
  const Json* target = Follow(schema, &target_where);
  if (target == nullptr || !target->is_object()) return std::nullopt;
  std::vector<Json> values;
  if (const auto certain = CertainValues(*target)) {
    CheckKeywords(*target, target_where, kValueKeywords);
    for (const Json& value : *certain) {
      if (std::ranges::find(values, value) == values.end() && ok() &&
          Satisfies(value, *target, target_where)) {
        values.push_back(value);
      }
    }
  } else {
    const bool combined = Find(*target, "anyOf") != nullptr || Find(*target, "oneOf") != nullptr;
    const unsigned types = TypesOf(*target, target_where);
    if (combined || (types & ~(kNull | kBoolean)) != 0) return std::nullopt;
    CheckKeywords(*target, target_where, kValueKeywords);
    if (types & kNull) values.push_back(nullptr);
    if (types & kBoolean) values.insert(values.end(), {false, true});
  }
  if (!ok() || values.size() > kMostUniqueValues) return std::nullopt;
  return values;
}

void SchemaCompiler::AddUnique(const std::vector<Json>& values, const std::string& where,
                               int32_t min, int32_t max, StateId from, StateId to) {
  Choices choices;
  for (const Json& value : values) {
    const RuleId rule = builder_.NewRule();
    AddValues(Json::object(), where, {value}, kAllTypes, builder_.StartOf(rule),
              builder_.NewFinal());
    choices.emplace_back(rule, Behind(rule));
  }
  const StateId open = builder_.Text(from, "["), close = builder_.NewState();
  builder_.Read(close, ']', to);
  if (values.size() <= kMostAnyOrder) return AddInAnyOrder(choices, min, max, open, close);
  // Counted only as far as the limits go.
  const int32_t n = static_cast<int32_t>(values.size());
  const int32_t most = std::max(max < n ? max : min, 1);
  if (static_cast<size_t>(n) * static_cast<size_t>(most) > kMostUniquePlaces) {
    return Refuse(where + ".uniqueItems",
                  fmt::format("with {} values and such limits of items is not supported", n));
  }
  AddInOrder(choices, min, max, most, open, close);
}

// Where a text stands is the set of what it has said.
void SchemaCompiler::AddInAnyOrder(const Choices& choices, int32_t min, int32_t max, StateId from,
                                   StateId to) {
  const size_t n_sets = size_t{1} << choices.size();
  std::vector<StateId> states = {from};
  while (states.size() < n_sets) states.push_back(builder_.NewState());
  for (size_t said = 0; said < n_sets; ++said) {
    const int32_t n_said = std::popcount(said);
    if (n_said >= min && n_said <= max) builder_.Skip(states[said], to);
    for (size_t i = 0; i < choices.size() && n_said < max; ++i) {
      if ((said >> i & 1) != 0) continue;
      const auto& [first, behind] = choices[i];
      builder_.Call(states[said], said == 0 ? first : behind, states[said | size_t{1} << i]);
    }
  }
}

// Each value is said or passed.
void SchemaCompiler::AddInOrder(const Choices& choices, int32_t min, int32_t max, int32_t most,
                                StateId from, StateId to) {
  std::vector<StateId> states = {from};  // by how many were said
  while (static_cast<int32_t>(states.size()) <= most) states.push_back(builder_.NewState());
  for (const auto& [first, behind] : choices) {
    std::vector<StateId> next;
    for (const StateId state : states) {
      next.push_back(builder_.NewState());
      builder_.Skip(state, next.back());
    }
    for (int32_t n = 0; n <= most && n < max; ++n) {
      const auto said = static_cast<size_t>(std::min(n + 1, most));
      builder_.Call(states[static_cast<size_t>(n)], n == 0 ? first : behind, next[said]);
    }
    states = std::move(next);
  }
  for (int32_t n = 0; n <= most; ++n) {
    if (n >= min && n <= max) builder_.Skip(states[static_cast<size_t>(n)], to);
  }
}

const Json* SchemaCompiler::Keep(Json schema) {
  const auto [it, added] = kept_.emplace(Text(schema), nullptr);
  if (added) {
    merged_.push_back(std::move(schema));
    it->second = &merged_.back();
  }
  return it->second;
}

const TextMachine* SchemaCompiler::PatternMachine(const std::string& pattern,
                                                  const std::string& where) {
  if (const auto it = patterns_.find(pattern); it != patterns_.end()) return &it->second;
  std::optional<TextMachine> machine;
  Constrain(&machine, MachineOfPattern(pattern), where + ".patternProperties");
  return machine ? &(patterns_[pattern] = *std::move(machine)) : nullptr;
}

std::vector<Json> SchemaCompiler::PatternsOf(const Json& schema, const std::string& where,
                                             const std::string& name) {
  std::vector<Json> schemas;
  const Json* patterns = Find(schema, "patternProperties");
  if (patterns == nullptr) return schemas;
  if (!patterns->is_object()) {
    Fail(where + ".patternProperties",
         InvalidArgumentError(where + ".patternProperties must be an object of schemas"));
    return schemas;
  }
  for (const auto& [pattern, pattern_schema] : patterns->items()) {
    const TextMachine* machine = PatternMachine(pattern, where);
    if (machine == nullptr) return schemas;
    if (machine->Accepts(name)) schemas.push_back(pattern_schema);
  }
  return schemas;
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
      const std::string at = fmt::format("{}.properties.{}", where, name);
      std::vector<Json> also = PatternsOf(schema, where, name);
      if (also.empty()) {
        list.push_back({name, &property, at});
        continue;
      }
      also.insert(also.begin(), property);
      list.push_back({name, Keep({{"allOf", std::move(also)}}), at});
    }
  }
  const Json* required = Find(schema, "required");
  if (required == nullptr) return list;
  const std::string at = where + ".required";
  if (!required->is_array()) {
    Fail(at, InvalidArgumentError(at + " must be an array of names"));
    return list;
  }
  static const Json kAnything = Json::object();
  const Json* additional = Find(schema, "additionalProperties");
  for (const Json& name : *required) {
    if (!name.is_string()) {
      Fail(at, InvalidArgumentError(at + " must be an array of names"));
      return list;
    }
    const auto known = std::ranges::find(list, name.get_ref<const std::string&>(), &Property::name);
    if (known != list.end()) {
      known->required = true;
      continue;
    }
    std::vector<Json> patterns = PatternsOf(schema, where, name);
    if (!patterns.empty()) {
      list.push_back(
          {name, Keep({{"allOf", std::move(patterns)}}), where + ".patternProperties", true});
    } else {
      list.push_back({name, additional == nullptr ? &kAnything : additional,
                      where + ".additionalProperties", true});
    }
  }
  return list;
}

// The key and the value of a property whose name is one of `names`; any when there are none.
RuleId SchemaCompiler::OtherProperty(const Json& schema, const std::string& where,
                                     std::optional<TextMachine> names) {
  const RuleId rule = builder_.NewRule();
  const StateId colon = builder_.NewState();
  AddStrings({.machine = std::move(names)}, where, Spelling::kJson,
             builder_.Text(builder_.StartOf(rule), "\""), colon);
  builder_.Call(Space(builder_.Text(colon, "\":")), Value(schema, where), builder_.NewFinal());
  return rule;
}

std::vector<RuleId> SchemaCompiler::OtherProperties(const Json& schema, const std::string& where,
                                                    const std::vector<Property>& declared) {
  std::vector<std::string> names;
  for (const Property& property : declared) names.push_back(property.name);
  std::vector<RuleId> rules;
  std::vector<std::pair<const TextMachine*, const Json*>> patterns;
  const Json* by_pattern = Find(schema, "patternProperties");
  const std::string at = where + ".patternProperties";
  if (by_pattern != nullptr && !by_pattern->is_object()) {
    Fail(at, InvalidArgumentError(at + " must be an object of schemas"));
    return rules;
  }
  if (by_pattern != nullptr) {
    if (by_pattern->size() > kMostPatterns) {
      Refuse(at, fmt::format("has {} patterns, at most {} are supported", by_pattern->size(),
                             kMostPatterns));
      return rules;
    }
    for (const auto& [pattern, pattern_schema] : by_pattern->items()) {
      const TextMachine* machine = PatternMachine(pattern, where);
      if (machine == nullptr) return rules;
      patterns.emplace_back(machine, &pattern_schema);
    }
  }
  // Objects with known properties get others only when the schema speaks of them.
  static const Json kAnything = Json::object();
  const Json* additional = Find(schema, "additionalProperties");
  if (additional == nullptr && declared.empty() && patterns.empty()) additional = &kAnything;
  for (size_t set = 0; set < size_t{1} << patterns.size() && ok(); ++set) {
    if (set == 0 && (additional == nullptr || *additional == false)) continue;
    std::optional<TextMachine> machine;
    std::vector<Json> all;
    if (!names.empty()) machine = MachineWithout(names);
    for (size_t i = 0; i < patterns.size() && ok(); ++i) {
      const bool matches = (set >> i & 1) != 0;
      if (matches) all.push_back(*patterns[i].second);
      Constrain(&machine, matches ? *patterns[i].first : Complement(*patterns[i].first), at);
    }
    if (!ok() || (machine && machine->AcceptsNothing())) continue;
    rules.push_back(OtherProperty(set == 0 ? *additional : *Keep({{"allOf", std::move(all)}}),
                                  set == 0 ? where + ".additionalProperties" : at,
                                  std::move(machine)));
  }
  return rules;
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
  for (const RuleId more : OtherProperties(schema, where, properties)) {
    builder_.Call(none, more, some);
    builder_.Call(some, Behind(more), some);
  }
}

}  // namespace holdfast

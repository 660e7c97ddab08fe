#include "grammar/schema_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace holdfast {
namespace {

using Json = nlohmann::ordered_json;

// Keywords that say nothing about values.
constexpr std::array<std::string_view, 16> kAnnotations = {
    "title",       "description",     "default",          "examples",      "deprecated",
    "readOnly",    "writeOnly",       "$schema",          "$comment",      "$defs",
    "definitions", "contentEncoding", "contentMediaType", "discriminator", "example",
    "$id"};

struct TypedKeyword {
  std::string_view name;
  unsigned type;
};

}  // namespace

const std::vector<std::string>& CallMarkers() {
  static const std::vector<std::string> markers = {"</parameter>", "<parameter=", "</function>",
                                                   "<tool_call>", "</tool_call>"};
  return markers;
}

SchemaCompiler::SchemaCompiler(GrammarBuilder* builder, StringRules* strings, const Json& root,
                               std::string where, bool in_call)
    : builder_(*builder),
      strings_(*strings),
      root_(root),
      root_where_(std::move(where)),
      in_call_(in_call) {}

void SchemaCompiler::Fail(const std::string& where, Status status) {
  if (!status_.ok()) return;
  status_ = std::move(status);
  where_ = where;
}

void SchemaCompiler::Refuse(const std::string& where, std::string_view why) {
  Fail(where, UnimplementedError(fmt::format("{} {}", where, why)));
}

const Json* SchemaCompiler::Find(const Json& schema, std::string_view key) {
  if (!schema.is_object()) return nullptr;
  const auto it = schema.find(key);
  return it == schema.end() ? nullptr : &*it;
}

unsigned SchemaCompiler::TypeOf(const Json& value) {
  if (value.is_null()) return kNull;
  if (value.is_boolean()) return kBoolean;
  if (value.is_number()) return kNumber;
  if (value.is_string()) return kString;
  return value.is_array() ? kArray : kObject;
}

std::string SchemaCompiler::Text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string SchemaCompiler::Short(const Json& value) {
  std::string text = Text(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

bool SchemaCompiler::IsAnnotation(std::string_view key) {
  return key.starts_with("x-") || std::ranges::find(kAnnotations, key) != kAnnotations.end();
}

void SchemaCompiler::CheckKeywords(const Json& schema, const std::string& where,
                                   std::span<const std::string_view> allowed, bool combined) {
  for (const auto& [key, value] : schema.items()) {
    if (key == "$id" && &schema != &root_) return Refuse(where + ".$id", "is not supported");
    if (IsAnnotation(key) || std::ranges::find(allowed, key) != allowed.end()) continue;
    if (combined && (key == "$ref" || key == "allOf" || key == "anyOf" || key == "oneOf")) continue;
    return Refuse(where + "." + key, "is not supported here");
  }
}

const Json* SchemaCompiler::Follow(const Json& schema, std::string* where) {
  const Json* found = &schema;
  for (int i = 0; ok() && found != nullptr; ++i) {
    if (NeedsMerge(*found)) return Merge(*found, *where);
    if (Find(*found, "$ref") == nullptr) return found;
    if (i == kMaxSchemaDepth) Refuse(*where + ".$ref", "leads to itself");
    if (ok()) found = Target(*found, where);
  }
  return nullptr;
}

const Json* SchemaCompiler::Target(const Json& schema, std::string* where) {
  const Json* const ref = Find(schema, "$ref");
  const std::string at = *where + ".$ref";
  if (!ref->is_string()) {
    Fail(at, InvalidArgumentError(at + " must be a string"));
    return nullptr;
  }
  std::string_view pointer = ref->get_ref<const std::string&>();
  if (!pointer.starts_with("#") || (pointer.size() > 1 && pointer[1] != '/')) {
    Refuse(at, fmt::format("is {}, only references into the schema itself (#/...) are supported",
                           Short(*ref)));
    return nullptr;
  }
  const Json* found = &root_;
  *where = root_where_;
  pointer.remove_prefix(1);
  while (!pointer.empty() && found != nullptr) {
    pointer.remove_prefix(1);
    const size_t end = std::min(pointer.find('/'), pointer.size());
    std::string key;
    for (size_t k = 0; k < end; ++k) {
      const bool escape = pointer[k] == '~' && k + 1 < end;
      if (escape) ++k;
      key += !escape ? pointer[k] : pointer[k] == '1' ? '/' : '~';
    }
    pointer.remove_prefix(end);
    if (found->is_array()) {
      size_t index = 0;
      const bool is_index = !key.empty() && key.size() < 7 &&
                            key.find_first_not_of("0123456789") == std::string::npos;
      if (is_index) index = static_cast<size_t>(std::stoul(key));
      found = is_index && index < found->size() ? &(*found)[index] : nullptr;
    } else {
      found = Find(*found, key);
    }
    *where += "." + key;
  }
  if (found == nullptr) {
    Fail(at, InvalidArgumentError(fmt::format("{} is {}, which leads nowhere", at, Short(*ref))));
  }
  return found;
}

const std::map<std::string, unsigned, std::less<>>& SchemaCompiler::TypeNames() {
  static const std::map<std::string, unsigned, std::less<>> names = {
      {"null", kNull},     {"boolean", kBoolean}, {"integer", kInteger}, {"number", kNumber},
      {"string", kString}, {"array", kArray},     {"object", kObject}};
  return names;
}

unsigned SchemaCompiler::TypesOf(const Json& schema, const std::string& where) {
  unsigned types = 0;
  if (const Json* type = Find(schema, "type")) {
    const Json list = type->is_array() ? *type : Json::array({*type});
    for (const Json& one : list) {
      const auto it =
          one.is_string() ? TypeNames().find(one.get_ref<const std::string&>()) : TypeNames().end();
      if (it == TypeNames().end()) {
        Fail(where + ".type",
             InvalidArgumentError(fmt::format(
                 "{}.type is {}, must be null, boolean, integer, number, string, array, object or "
                 "a list of these",
                 where, Short(*type))));
        return 0;
      }
      types |= it->second;
    }
    return types;
  }
  // Keywords speak of one type each; without `type`, of the types they speak of.
  static constexpr std::array<TypedKeyword, 18> kKeywords = {{{"minLength", kString},
                                                              {"maxLength", kString},
                                                              {"pattern", kString},
                                                              {"format", kString},
                                                              {"minimum", kNumber},
                                                              {"maximum", kNumber},
                                                              {"exclusiveMinimum", kNumber},
                                                              {"exclusiveMaximum", kNumber},
                                                              {"multipleOf", kNumber},
                                                              {"items", kArray},
                                                              {"prefixItems", kArray},
                                                              {"minItems", kArray},
                                                              {"maxItems", kArray},
                                                              {"uniqueItems", kArray},
                                                              {"properties", kObject},
                                                              {"required", kObject},
                                                              {"additionalProperties", kObject},
                                                              {"patternProperties", kObject}}};
  for (const TypedKeyword& keyword : kKeywords) {
    if (Find(schema, keyword.name) != nullptr) types |= keyword.type;
  }
  return types == 0 ? static_cast<unsigned>(kAllTypes) : types;
}

RuleId SchemaCompiler::Value(const Json& schema, const std::string& where) {
  if (const auto it = values_.find(&schema); it != values_.end()) return it->second;
  const RuleId rule = values_[&schema] = builder_.NewRule();
  if (depth_ >= kMaxSchemaDepth) {
    Fail(where, OutOfRangeError(
                    fmt::format("{} is nested more than {} schemas deep", where, kMaxSchemaDepth)));
    return rule;
  }
  ++depth_;
  AddValue(schema, where, kAllTypes, builder_.StartOf(rule), builder_.NewFinal());
  --depth_;
  return rule;
}

void SchemaCompiler::AddValue(const Json& schema, const std::string& where, unsigned types,
                              StateId from, StateId to) {
  if (!ok()) return;
  if (schema.is_boolean()) {
    static const Json kAnything = Json::object();
    if (schema.get<bool>()) AddValue(kAnything, where, types, from, to);
    return;
  }
  if (!schema.is_object()) {
    return Fail(where, InvalidArgumentError(fmt::format("{} is {}, must be an object or a boolean",
                                                        where, Short(schema))));
  }
  const bool all = types == kAllTypes;
  if (Find(schema, "$ref") != nullptr || NeedsMerge(schema)) {
    std::string target_where = where;
    const Json* target = Follow(schema, &target_where);
    if (target == nullptr) return;
    if (all) return builder_.Call(from, Value(*target, target_where), to);
    return AddValue(*target, target_where, types, from, to);
  }
  for (const std::string_view keyword : {"anyOf", "oneOf"}) {
    if (Find(schema, keyword) != nullptr) {
      return AddBranches(schema, where, keyword, types, from, to);
    }
  }
  CheckKeywords(schema, where, kValueKeywords);
  if (!ok()) return;
  if (const Json* values = Find(schema, "enum");
      values && (!values->is_array() || values->empty())) {
    return Fail(where + ".enum",
                InvalidArgumentError(where + ".enum must be an array of at least one value"));
  }
  if (const auto values = CertainValues(schema)) {
    return AddValues(schema, where, *values, types, from, to);
  }
  const unsigned wanted = TypesOf(schema, where);
  const unsigned has = wanted & types;
  if (has & kNull) builder_.Text(from, "null", to);
  if (has & kBoolean) builder_.OneOf(from, {"false", "true"}, to);
  if (types & kNumber && wanted & (kNumber | kInteger)) {
    AddNumbers(schema, where, (wanted & kNumber) == 0, from, to);
  }
  if (has & kString) AddString(schema, where, from, to);
  if (has & kArray) AddArray(schema, where, from, to);
  if (has & kObject) AddObject(schema, where, from, to);
}

void SchemaCompiler::AddBranches(const Json& schema, const std::string& where,
                                 std::string_view keyword, unsigned types, StateId from,
                                 StateId to) {
  const std::string at = where + "." + std::string(keyword);
  const Json& branches = *Find(schema, keyword);
  if (!branches.is_array() || branches.empty()) {
    return Fail(at, InvalidArgumentError(at + " must be an array of at least one schema"));
  }
  for (size_t i = 0; i < branches.size() && ok(); ++i) {
    const std::string branch_where = fmt::format("{}[{}]", at, i);
    for (size_t j = 0; keyword == "oneOf" && j < i; ++j) {
      if (Disjoint(branches[i], branches[j])) continue;
      return Refuse(at, fmt::format("is supported only where no value fits two of the schemas for "
                                    "certain (types, or a required property with a const): {} and "
                                    "{} may overlap",
                                    j, i));
    }
    if (types == kAllTypes) {
      builder_.Call(from, Value(branches[i], branch_where), to);
    } else if (depth_ < kMaxSchemaDepth) {
      ++depth_;
      AddValue(branches[i], branch_where, types, from, to);
      --depth_;
    } else {
      Refuse(branch_where, "is nested too deep");
    }
  }
}

void SchemaCompiler::AddValues(const Json& schema, const std::string& where,
                               const std::vector<Json>& values, unsigned types, StateId from,
                               StateId to) {
  std::vector<std::string> texts;
  for (const Json& value : values) {
    if ((TypeOf(value) & types) == 0 || !Satisfies(value, schema, where)) continue;
    std::string text = Text(value);
    const bool breaks_call =
        in_call_ && std::ranges::any_of(CallMarkers(), [&](const auto& marker) {
          return text.find(marker) != std::string::npos;
        });
    if (!breaks_call) texts.push_back(std::move(text));
  }
  builder_.OneOf(from, std::move(texts), to);
}

bool SchemaCompiler::Satisfies(const Json& value, const Json& schema, const std::string& where) {
  if (Find(schema, "type") != nullptr) {
    const unsigned types = TypesOf(schema, where);
    const bool is_integer =
        value.is_number() && NumberBounds{.integer = true}.Accepts(value.get<double>());
    if ((types & TypeOf(value)) == 0 && !(is_integer && (types & kInteger))) return false;
  }
  if (value.is_number()) return BoundsOf(schema, where, false).Accepts(value.get<double>());
  if (value.is_string()) {
    Strings strings = StringsOf(schema, where);
    Constrain(&strings.machine, MachineOfLength(strings.min, strings.max), where);
    return ok() && strings.machine->Accepts(value.get_ref<const std::string&>());
  }
  if (value.is_structured()) {
    for (const char* key :
         {"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "properties", "required",
          "additionalProperties", "patternProperties"}) {
      if (Find(schema, key) != nullptr) {
        Refuse(where + "." + key, "is not supported beside enum or const");
      }
    }
  }
  return ok();
}

NumberBounds SchemaCompiler::BoundsOf(const Json& schema, const std::string& where, bool integer) {
  NumberBounds bounds{.integer = integer};
  const auto read = [&](const char* key) -> std::optional<double> {
    const Json* value = Find(schema, key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number()) {
      Fail(where + "." + key, InvalidArgumentError(fmt::format("{}.{} is {}, must be a number",
                                                               where, key, Short(*value))));
      return std::nullopt;
    }
    return value->get<double>();
  };
  bounds.low = read("minimum");
  bounds.high = read("maximum");
  if (const auto low = read("exclusiveMinimum"); low && (!bounds.low || *low >= *bounds.low)) {
    bounds.low = low;
    bounds.low_exclusive = true;
  }
  if (const auto high = read("exclusiveMaximum"); high && (!bounds.high || *high <= *bounds.high)) {
    bounds.high = high;
    bounds.high_exclusive = true;
  }
  bounds.multiple = read("multipleOf");
  if (bounds.multiple && !(*bounds.multiple > 0)) {
    const std::string at = where + ".multipleOf";
    Fail(at, InvalidArgumentError(fmt::format("{} is {}, must be above 0", at, *bounds.multiple)));
  }
  return bounds;
}

void SchemaCompiler::AddNumbers(const Json& schema, const std::string& where, bool integer,
                                StateId from, StateId to) {
  const NumberBounds bounds = BoundsOf(schema, where, integer);
  if (!ok()) return;
  const Status status = AddNumber(&builder_, from, bounds, to);
  if (!status.ok()) {
    Fail(where, Status(status.code(), fmt::format("{}: {}", where, status.message())));
  }
}

int32_t SchemaCompiler::Count(const Json& schema, const std::string& where, std::string_view key,
                              int32_t otherwise) {
  const Json* value = Find(schema, key);
  if (value == nullptr) return otherwise;
  const bool is_count = value->is_number() && value->get<double>() >= 0 &&
                        NumberBounds{.integer = true}.Accepts(value->get<double>());
  if (!is_count) {
    Fail(fmt::format("{}.{}", where, key),
         InvalidArgumentError(
             fmt::format("{}.{} is {}, must be a whole number >= 0", where, key, Short(*value))));
    return otherwise;
  }
  constexpr double kMost = 1'000'000'000;
  return static_cast<int32_t>(std::min(value->get<double>(), kMost));
}

RuleId SchemaCompiler::AnyValue() {
  if (any_value_ < 0) {
    static const Json kAnything = Json::object();
    any_value_ = builder_.NewRule();
    AddValue(kAnything, root_where_, kAllTypes, builder_.StartOf(any_value_), builder_.NewFinal());
  }
  return any_value_;
}

StateId SchemaCompiler::Space(StateId from) {
  const StateId to = builder_.NewState();
  builder_.Read(from, ' ', to);
  builder_.Skip(from, to);
  return to;
}

RuleId SchemaCompiler::Behind(RuleId element) {
  const RuleId rule = builder_.NewRule();
  builder_.Call(Space(builder_.Text(builder_.StartOf(rule), ",")), element, builder_.NewFinal());
  return rule;
}

unsigned SchemaCompiler::CertainTypes(const Json& schema, int depth) {
  if (schema == false) return 0;
  if (!schema.is_object() || depth > kMaxSchemaDepth) return kAllTypes;
  if (Find(schema, "$ref") != nullptr || NeedsMerge(schema)) {
    std::string where;
    const Json* target = Follow(schema, &where);
    return target == nullptr ? static_cast<unsigned>(kAllTypes) : CertainTypes(*target, depth + 1);
  }
  unsigned types = kAllTypes;
  if (Find(schema, "type") != nullptr) {
    types = TypesOf(schema, "");
    if (types & kInteger) types |= kNumber;
  } else if (const auto values = CertainValues(schema)) {
    types = 0;
    for (const Json& value : *values) types |= TypeOf(value);
  } else if (const Json* branches = Find(schema, "anyOf"); branches && branches->is_array()) {
    types = 0;
    for (const Json& branch : *branches) types |= CertainTypes(branch, depth + 1);
  }
  return types;
}

std::optional<std::vector<Json>> SchemaCompiler::CertainValues(const Json& schema) {
  std::optional<std::vector<Json>> values;
  if (const Json* list = Find(schema, "enum"); list != nullptr && list->is_array()) {
    values.emplace(list->begin(), list->end());
  }
  if (const Json* value = Find(schema, "const")) {
    const bool listed = !values || std::ranges::find(*values, *value) != values->end();
    values = listed ? std::vector<Json>{*value} : std::vector<Json>{};
  }
  return values;
}

bool SchemaCompiler::Disjoint(const Json& a, const Json& b) {
  if ((CertainTypes(a, 0) & CertainTypes(b, 0)) == 0) return true;
  std::string where_a, where_b;
  const Json* left = Follow(a, &where_a);
  const Json* right = Follow(b, &where_b);
  if (left == nullptr || right == nullptr) return false;
  const auto apart = [&](const Json& x, const Json& y) {
    const Json* one = Follow(x, &where_a);
    const Json* other = Follow(y, &where_b);
    if (one == nullptr || other == nullptr) return false;
    const auto values_x = CertainValues(*one), values_y = CertainValues(*other);
    if (!values_x || !values_y) return false;
    return std::ranges::none_of(*values_x, [&](const Json& value) {
      return std::ranges::find(*values_y, value) != values_y->end();
    });
  };
  if (apart(*left, *right)) return true;
  if (CertainTypes(a, 0) != kObject || CertainTypes(b, 0) != kObject) return false;
  // A property that both need and that has other values in each.
  const auto needs = [](const Json& schema, const std::string& name) {
    const Json* required = Find(schema, "required");
    return required != nullptr && required->is_array() &&
           std::ranges::find(*required, Json(name)) != required->end();
  };
  const Json* properties = Find(*left, "properties");
  const Json* others = Find(*right, "properties");
  if (properties == nullptr || others == nullptr || !properties->is_object()) return false;
  for (const auto& [name, schema] : properties->items()) {
    const Json* other = Find(*others, name);
    if (other != nullptr && needs(*left, name) && needs(*right, name) && apart(schema, *other)) {
      return true;
    }
  }
  return false;
}

}  // namespace holdfast

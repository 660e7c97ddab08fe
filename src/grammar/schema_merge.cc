// Schemas that all must hold, as one: allOf, and what stands beside a reference or alternatives.
//
// What is said twice becomes the narrower of both, exactly, or the schema is refused. Parts of
// objects and arrays are not merged here but written as an allOf, for when they are compiled;
// alternatives are each merged with what surrounds them.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "grammar/multiple_rules.h"
#include "grammar/schema_compiler.h"

namespace holdfast {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxNested = 500;
constexpr size_t kMaxMerges = 2000;
constexpr size_t kMaxMergedBytes = 4 << 20;  // of all merged schemas, as text

bool IsTrue(const Json& schema) { return schema == true || (schema.is_object() && schema.empty()); }

// One schema for all of `schemas`.
Json AllOf(const std::vector<Json>& schemas) {
  Json all = Json::array();
  for (const Json& schema : schemas) {
    if (schema == false) return false;
    if (!IsTrue(schema) && std::ranges::find(all, schema) == all.end()) all.push_back(schema);
  }
  if (all.empty()) return true;
  if (all.size() == 1) return all.front();
  Json both;
  both["allOf"] = std::move(all);
  return both;
}

// Equal whatever the order of keys.
bool SameValue(const Json& a, const Json& b) {
  if (a.is_object() && b.is_object()) {
    return a.size() == b.size() && std::ranges::all_of(a.items(), [&](const auto& item) {
             const auto other = b.find(item.key());
             return other != b.end() && SameValue(item.value(), *other);
           });
  }
  if (a.is_array() && b.is_array()) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), SameValue);
  }
  return a == b;
}

}  // namespace

struct SchemaCompiler::Parts {
  struct Part {
    Json schema;  // without references and alternatives
    std::string where;
  };
  struct Choice {
    std::string keyword;
    Json branches;
  };
  std::vector<Part> parts;
  std::vector<Choice> choices;
  bool nothing = false;  // false is among them
  std::set<const Json*> begun, done;
};

bool SchemaCompiler::NeedsMerge(const Json& schema) {
  if (!schema.is_object()) return false;
  bool combines = false, others = false;
  for (const auto& [key, value] : schema.items()) {
    if (key == "allOf") return true;
    const bool combiner = key == "$ref" || key == "anyOf" || key == "oneOf";
    others |= combines && combiner;  // two of them
    combines |= combiner;
    others |= !combiner && !IsAnnotation(key);
  }
  return combines && others;
}

// Takes a schema apart. What is named twice counts once.
void SchemaCompiler::Collect(const Json& schema, const std::string& where, Parts* parts) {
  if (!ok() || parts->done.contains(&schema)) return;
  if (schema.is_boolean()) {
    parts->nothing |= !schema.get<bool>();
    return;
  }
  if (!schema.is_object()) {
    return Fail(where, InvalidArgumentError(fmt::format("{} is {}, must be an object or a boolean",
                                                        where, Short(schema))));
  }
  if (!parts->begun.insert(&schema).second) return Refuse(where, "leads to itself");
  if (parts->begun.size() - parts->done.size() > kMaxNested) {
    return Fail(where, OutOfRangeError(fmt::format("{} combines more than {} schemas in each other",
                                                   where, kMaxNested)));
  }
  CheckKeywords(schema, where, kValueKeywords, /*combined=*/true);
  Json own = Json::object();
  for (const auto& [key, value] : schema.items()) {
    const std::string at = where + "." + key;
    if (key == "$ref") {
      std::string target_where = where;
      if (const Json* target = Target(schema, &target_where)) {
        Collect(*target, target_where, parts);
      }
    } else if (key == "allOf" || key == "anyOf" || key == "oneOf") {
      if (!value.is_array() || value.empty()) {
        return Fail(at, InvalidArgumentError(at + " must be an array of at least one schema"));
      }
      if (key != "allOf") {
        parts->choices.push_back({key, value});
        continue;
      }
      for (size_t i = 0; i < value.size(); ++i) {
        Collect(value[i], fmt::format("{}[{}]", at, i), parts);
      }
    } else if (!IsAnnotation(key) || key == kMorePatterns) {
      own[key] = value;
    }
    if (!ok()) return;
  }
  const auto same = [&](const Parts::Part& part) { return part.schema == own; };
  if (!own.empty() && std::ranges::none_of(parts->parts, same)) {
    parts->parts.push_back({std::move(own), where});
  }
  parts->done.insert(&schema);
}

const Json* SchemaCompiler::Merge(const Json& schema, const std::string& where) {
  Parts parts;
  Collect(schema, where, &parts);
  if (!ok()) return nullptr;
  // Equal sets of parts are one schema, also where a recursive schema leads to them again.
  std::set<std::string> texts;
  for (const Parts::Part& part : parts.parts) texts.insert(Text(part.schema));
  for (const Parts::Choice& choice : parts.choices) {
    texts.insert(choice.keyword + Text(choice.branches));
  }
  std::string key = parts.nothing ? "false" : "";
  for (const std::string& text : texts) key += text + "\n";
  if (const auto it = merged_by_key_.find(key); it != merged_by_key_.end()) return it->second;

  Json merged = Json::object();
  for (const Parts::Part& part : parts.parts) {
    if (merged.is_object()) MergeInto(&merged, part.schema, part.where);
  }
  if (parts.nothing) merged = false;
  if (!parts.choices.empty() && merged.is_object()) merged = Distribute(merged, parts);
  if (!ok()) return nullptr;
  merged_bytes_ += key.size() + Text(merged).size();
  if (merged_.size() >= kMaxMerges || merged_bytes_ > kMaxMergedBytes) {
    Fail(where, OutOfRangeError(fmt::format(
                    "{}: merging the schemas of allOf takes more than {} schemas or {} bytes",
                    where, kMaxMerges, kMaxMergedBytes)));
    return nullptr;
  }
  merged_.push_back(std::move(merged));
  return merged_by_key_[key] = &merged_.back();
}

// The alternatives of the first choice, each with all that surrounds it.
Json SchemaCompiler::Distribute(const Json& merged, const Parts& parts) {
  Json result;
  Json& branches = result[parts.choices.front().keyword] = Json::array();
  for (const Json& branch : parts.choices.front().branches) {
    std::vector<Json> all = {branch, merged};
    for (size_t i = 1; i < parts.choices.size(); ++i) {
      Json other;
      other[parts.choices[i].keyword] = parts.choices[i].branches;
      all.push_back(std::move(other));
    }
    branches.push_back(AllOf(all));
  }
  return result;
}

// Adds what `part` says to `*into`, which becomes false when nothing can satisfy both.
void SchemaCompiler::MergeInto(Json* into, const Json& part, const std::string& where) {
  MergeTypes(into, part, where);
  if (!ok() || !into->is_object()) return;
  MergeValues(into, part);
  if (!ok() || !into->is_object()) return;
  MergeNumbers(into, part, where);
  MergeStrings(into, part, where);
  MergeArrays(into, part, where);
  MergeObjects(into, part, where);
}

void SchemaCompiler::MergeTypes(Json* into, const Json& part, const std::string& where) {
  if (Find(part, "type") == nullptr) return;
  const unsigned b = TypesOf(part, where);
  const unsigned a =
      Find(*into, "type") == nullptr ? static_cast<unsigned>(kAllTypes) : TypesOf(*into, where);
  unsigned both = a & b;
  // Integers are numbers.
  if ((a & kInteger && b & kNumber) || (a & kNumber && b & kInteger)) both |= kInteger;
  if (both & kNumber) both &= ~static_cast<unsigned>(kInteger);
  Json names = Json::array();
  for (const auto& [name, type] : TypeNames()) {
    if (both & type) names.push_back(name);
  }
  if (names.empty()) {
    *into = false;
  } else {
    (*into)["type"] = std::move(names);
  }
}

void SchemaCompiler::MergeValues(Json* into, const Json& part) {
  const auto others = CertainValues(part);
  if (!others) return;
  const auto values = CertainValues(*into);
  Json both = Json::array();
  for (const Json& value : *others) {
    const auto same = [&](const Json& one) { return SameValue(one, value); };
    if (!values || std::ranges::any_of(*values, same)) both.push_back(value);
  }
  if (both.empty()) {
    *into = false;
    return;
  }
  into->erase("const");
  (*into)["enum"] = std::move(both);
}

void SchemaCompiler::MergeNumbers(Json* into, const Json& part, const std::string& where) {
  const auto merge = [&](const char* key, bool larger) {
    const Json* value = Find(part, key);
    if (value == nullptr || !ok()) return;
    if (!value->is_number()) {
      return Fail(where + "." + key,
                  InvalidArgumentError(
                      fmt::format("{}.{} is {}, must be a number", where, key, Short(*value))));
    }
    const Json* mine = Find(*into, key);
    const bool take = mine == nullptr || (larger ? value->get<double>() > mine->get<double>()
                                                 : value->get<double>() < mine->get<double>());
    if (take) (*into)[key] = *value;
  };
  for (const char* key : {"minimum", "exclusiveMinimum", "minLength", "minItems"}) merge(key, true);
  for (const char* key : {"maximum", "exclusiveMaximum", "maxLength", "maxItems"})
    merge(key, false);
  const Json* multiple = Find(part, "multipleOf");
  if (multiple == nullptr || !ok()) return;
  const std::string at = where + ".multipleOf";
  if (!multiple->is_number()) return Fail(at, InvalidArgumentError(at + " must be a number"));
  if (const Json* mine = Find(*into, "multipleOf")) {
    const Result<double> common = CommonMultiple(mine->get<double>(), multiple->get<double>());
    if (!common.ok()) {
      return Fail(
          at, Status(common.status().code(), fmt::format("{}: {}", at, common.status().message())));
    }
    (*into)["multipleOf"] = *common;
  } else {
    (*into)["multipleOf"] = *multiple;
  }
}

void SchemaCompiler::MergeStrings(Json* into, const Json& part, const std::string& where) {
  const auto add = [&](const Json& pattern) {
    if (Find(*into, "pattern") == nullptr) {
      (*into)["pattern"] = pattern;
    } else if (pattern != (*into)["pattern"]) {
      (*into)[kMorePatterns].push_back(pattern);
    }
  };
  if (const Json* pattern = Find(part, "pattern")) add(*pattern);
  if (const Json* more = Find(part, kMorePatterns); more != nullptr && more->is_array()) {
    for (const Json& pattern : *more) add(pattern);
  }
  const Json* format = Find(part, "format");
  if (format == nullptr) return;
  const Json* mine = Find(*into, "format");
  if (mine != nullptr && *mine != *format) {
    return Refuse(where + ".format", "beside another format in allOf is not supported");
  }
  (*into)["format"] = *format;
}

void SchemaCompiler::MergeArrays(Json* into, const Json& part, const std::string& where) {
  if (const Json* unique = Find(part, "uniqueItems"); unique != nullptr && *unique == true) {
    (*into)["uniqueItems"] = true;
  }
  const Json* first[2] = {Find(*into, "prefixItems"), Find(part, "prefixItems")};
  const Json* rest[2] = {Find(*into, "items"), Find(part, "items")};
  if (first[1] == nullptr && rest[1] == nullptr) return;
  size_t n_first = 0;
  for (const int side : {0, 1}) {
    if (first[side] != nullptr && !first[side]->is_array()) {
      return Fail(where + ".prefixItems",
                  InvalidArgumentError(where + ".prefixItems must be an array of schemas"));
    }
    if (rest[side] != nullptr && rest[side]->is_array()) {
      return Refuse(where + ".items", "is an array, prefixItems is what it is called now");
    }
    if (first[side] != nullptr) n_first = std::max(n_first, first[side]->size());
  }
  Json elements = Json::array();
  for (size_t i = 0; i < n_first; ++i) {
    std::vector<Json> all;
    for (const int side : {0, 1}) {
      if (first[side] != nullptr && i < first[side]->size()) {
        all.push_back((*first[side])[i]);
      } else if (rest[side] != nullptr) {
        all.push_back(*rest[side]);
      }
    }
    elements.push_back(AllOf(all));
  }
  std::vector<Json> others;
  for (const int side : {0, 1}) {
    if (rest[side] != nullptr) others.push_back(*rest[side]);
  }
  if (!others.empty()) (*into)["items"] = AllOf(others);
  if (n_first > 0) (*into)["prefixItems"] = std::move(elements);
}

// What a schema asks of one of its object's properties: nothing here for patterns, which go on to
// hold in the merged schema.
std::optional<Json> SchemaCompiler::PropertySchema(const Json& schema, const std::string& where,
                                                   const std::string& name) {
  if (const Json* properties = Find(schema, "properties")) {
    if (const Json* property = Find(*properties, name)) return *property;
  }
  if (!PatternsOf(schema, where, name).empty()) return std::nullopt;
  const Json* additional = Find(schema, "additionalProperties");
  return additional == nullptr ? std::nullopt : std::optional<Json>(*additional);
}

void SchemaCompiler::MergeObjects(Json* into, const Json& part, const std::string& where) {
  if (const Json* names = Find(part, "required")) {
    Json& required = (*into)["required"];
    if (required.is_null()) required = Json::array();
    if (!names->is_array()) {
      return Fail(where + ".required",
                  InvalidArgumentError(where + ".required must be an array of names"));
    }
    for (const Json& name : *names) {
      if (std::ranges::find(required, name) == required.end()) required.push_back(name);
    }
  }
  const Json mine = *into;
  const std::pair<const Json*, const Json*> sides[] = {{&mine, &part}, {&part, &mine}};
  for (const char* key : {"properties", "patternProperties"}) {
    const Json* schemas = Find(part, key);
    if (schemas == nullptr || schemas->is_object()) continue;
    const std::string at = where + "." + key;
    return Fail(at, InvalidArgumentError(at + " must be an object of schemas"));
  }

  // Names that one side only matches by a pattern are additional ones of the other.
  Json patterns = Json::object();
  for (const auto& [one, other] : sides) {
    const Json* its = Find(*one, "patternProperties");
    if (its == nullptr) continue;
    const Json* additional = Find(*other, "additionalProperties");
    const bool limits = additional != nullptr && !IsTrue(*additional);
    bool declared = false;
    if (const Json* properties = Find(*other, "properties"); properties && limits) {
      for (const auto& [name, schema] : properties->items()) {
        declared |= !PatternsOf(*one, where, name).empty();
      }
    }
    if (limits && (declared || Find(*other, "patternProperties") != nullptr)) {
      return Refuse(where + ".patternProperties",
                    "beside additionalProperties and names of another schema in allOf is not "
                    "supported");
    }
    for (const auto& [pattern, schema] : its->items()) {
      std::vector<Json> all = {schema};
      if (limits) all.push_back(*additional);
      if (const Json* known = Find(patterns, pattern)) all.push_back(*known);
      patterns[pattern] = AllOf(all);
    }
  }
  Json properties = Json::object();
  for (const auto& [one, other] : sides) {
    const Json* its = Find(*one, "properties");
    if (its == nullptr) continue;
    for (const auto& [name, schema] : its->items()) {
      if (properties.contains(name)) continue;
      std::vector<Json> all = {schema};
      if (const auto also = PropertySchema(*other, where, name)) all.push_back(*also);
      properties[name] = AllOf(all);
    }
  }
  if (!ok()) return;
  std::vector<Json> additional;
  for (const Json* side : {&mine, &part}) {
    if (const Json* its = Find(*side, "additionalProperties")) additional.push_back(*its);
  }
  if (!patterns.empty()) (*into)["patternProperties"] = std::move(patterns);
  if (!properties.empty()) (*into)["properties"] = std::move(properties);
  if (!additional.empty()) (*into)["additionalProperties"] = AllOf(additional);
}

}  // namespace holdfast

#ifndef HOLDFAST_GRAMMAR_SCHEMA_COMPILER_H_
#define HOLDFAST_GRAMMAR_SCHEMA_COMPILER_H_

#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "grammar/grammar.h"
#include "grammar/number_rules.h"
#include "grammar/string_rules.h"
#include "grammar/text_machine.h"
#include "token/tool_schema.h"

namespace holdfast {

// What a text in a tool call must not hold, lest it be read as the end of its value.
const std::vector<std::string>& CallMarkers();

// JSON schemas (draft 2020-12, the part that docs/http_api.md lists) to rules for JSON texts.
//
// Every text of a value's rule is valid for its schema. Not every valid value has a text: keys come
// in the order of `properties`, white space is at most one space behind a colon or a comma, numbers
// have no more digits than a double holds.
//
// Errors: the first one stays, and names the keyword and its place: kUnimplemented for keywords
// that are not supported, kInvalidArgument for wrong ones, kOutOfRange past a limit.
class SchemaCompiler {
 public:
  using Json = nlohmann::ordered_json;

  // `root` is what references lead into; it and the others must outlive this object. `in_call`: the
  // texts stand in a tool call.
  SchemaCompiler(GrammarBuilder* builder, StringRules* strings, const Json& root, std::string where,
                 bool in_call);

  // The JSON texts of `schema`, which is `root` or a part of it and stands at `where`.
  RuleId Value(const Json& schema, const std::string& where);
  // The parameters of a call of `tool`, whose schema is `schema`, as ToolCallParser reads them.
  void AddParameters(const Json& schema, const std::string& where, const ToolSchemas& tools,
                     const std::string& tool, StateId from, StateId to);

  const Status& status() const { return status_; }
  const std::string& where() const { return where_; }  // of the error

 private:
  // The types of JSON, as bits.
  enum Type : unsigned {
    kNull = 1,
    kBoolean = 2,
    kInteger = 4,
    kNumber = 8,
    kString = 16,
    kArray = 32,
    kObject = 64,
    kAllTypes = 127 & ~kInteger,  // integers are numbers
  };
  struct Property {
    std::string name;
    const Json* schema = nullptr;
    std::string where;
    bool required = false;
  };

  static constexpr int kMaxSchemaDepth = 64;
  // What is said of values, references and combinations aside.
  static constexpr std::string_view kValueKeywords[] = {"type",
                                                        "enum",
                                                        "const",
                                                        "minLength",
                                                        "maxLength",
                                                        "pattern",
                                                        "format",
                                                        "minimum",
                                                        "maximum",
                                                        "multipleOf",
                                                        "items",
                                                        "exclusiveMinimum",
                                                        "prefixItems",
                                                        "minItems",
                                                        "maxItems",
                                                        "exclusiveMaximum",
                                                        "uniqueItems",
                                                        "properties",
                                                        "required",
                                                        "additionalProperties",
                                                        "patternProperties"};
  // Of a merged schema: the patterns it has besides `pattern`.
  static constexpr const char* kMorePatterns = "x-holdfast-patterns";

  // `schema`, or what its reference leads to, or all that it combines as one schema: no reference
  // and no allOf, and nothing beside anyOf or oneOf. Null in error.
  const Json* Follow(const Json& schema, std::string* where);
  // Where the reference of `schema` leads.
  const Json* Target(const Json& schema, std::string* where);
  // Checks that `schema` has no keywords but `allowed`, those that say nothing about values, and
  // with `combined` references and combinations.
  void CheckKeywords(const Json& schema, const std::string& where,
                     std::span<const std::string_view> allowed, bool combined = false);
  void Fail(const std::string& where, Status status);
  // The strings of `schema` as they are, not as JSON. `plain` false: only those that cannot be
  // taken for JSON.
  void AddRawStrings(const Json& schema, const std::string& where, bool plain, StateId from,
                     StateId to);

  bool ok() const { return status_.ok() && !builder_.overflowed(); }
  void Refuse(const std::string& where, std::string_view why);
  static const Json* Find(const Json& schema, std::string_view key);
  static unsigned TypeOf(const Json& value);
  static bool IsAnnotation(std::string_view key);
  static std::string Text(const Json& value);
  static std::string Short(const Json& value);
  static const std::map<std::string, unsigned, std::less<>>& TypeNames();

  // Schemas that all must hold, as one (schema_merge.cc).
  struct Parts;
  static bool NeedsMerge(const Json& schema);
  const Json* Merge(const Json& schema, const std::string& where);
  void Collect(const Json& schema, const std::string& where, Parts* parts);
  static Json Distribute(const Json& merged, const Parts& parts);
  void MergeInto(Json* into, const Json& part, const std::string& where);
  void MergeTypes(Json* into, const Json& part, const std::string& where);
  void MergeValues(Json* into, const Json& part);
  void MergeNumbers(Json* into, const Json& part, const std::string& where);
  void MergeStrings(Json* into, const Json& part, const std::string& where);
  void MergeArrays(Json* into, const Json& part, const std::string& where);
  void MergeObjects(Json* into, const Json& part, const std::string& where);
  std::optional<Json> PropertySchema(const Json& schema, const std::string& where,
                                     const std::string& name);

  // What AddValue adds: all types, or some.
  void AddValue(const Json& schema, const std::string& where, unsigned types, StateId from,
                StateId to);
  void AddBranches(const Json& schema, const std::string& where, std::string_view keyword,
                   unsigned types, StateId from, StateId to);
  void AddValues(const Json& schema, const std::string& where, const std::vector<Json>& values,
                 unsigned types, StateId from, StateId to);
  void AddNumbers(const Json& schema, const std::string& where, bool integer, StateId from,
                  StateId to);
  void AddString(const Json& schema, const std::string& where, StateId from, StateId to);
  void AddArray(const Json& schema, const std::string& where, StateId from, StateId to);
  void AddObject(const Json& schema, const std::string& where, StateId from, StateId to);
  // Different values of `values`, which are all that the items may be.
  void AddUnique(const std::vector<Json>& values, const std::string& where, int32_t min,
                 int32_t max, StateId from, StateId to);
  using Choices = std::vector<std::pair<RuleId, RuleId>>;  // a value; the same behind a comma
  void AddInAnyOrder(const Choices& choices, int32_t min, int32_t max, StateId from, StateId to);
  void AddInOrder(const Choices& choices, int32_t min, int32_t max, int32_t most, StateId from,
                  StateId to);
  // All values of a schema that has only a few; none: it has more, or how many is not known.
  std::optional<std::vector<Json>> FewValues(const Json& schema, const std::string& where);
  // The keys and values of properties that have no schema of their own: one rule for each set of
  // patterns that a name may match.
  std::vector<RuleId> OtherProperties(const Json& schema, const std::string& where,
                                      const std::vector<Property>& declared);
  RuleId OtherProperty(const Json& schema, const std::string& where,
                       std::optional<TextMachine> names);
  const TextMachine* PatternMachine(const std::string& pattern, const std::string& where);
  // The schemas of patternProperties whose pattern is found in `name`.
  std::vector<Json> PatternsOf(const Json& schema, const std::string& where,
                               const std::string& name);
  // `schema`, which is no part of what the client sent, at an address that stays.
  const Json* Keep(Json schema);
  RuleId AnyValue();
  // A comma, a space or none, and the rule.
  RuleId Behind(RuleId element);
  StateId Space(StateId from);  // one or none
  std::vector<Property> PropertiesOf(const Json& schema, const std::string& where);

  unsigned TypesOf(const Json& schema, const std::string& where);
  // What a schema says for certain about its values: types (following references), and the values
  // of enum and const.
  unsigned CertainTypes(const Json& schema, int depth);
  bool Disjoint(const Json& a, const Json& b);
  std::optional<std::vector<Json>> CertainValues(const Json& schema);
  // Whether a value of enum or const satisfies the keywords beside it.
  bool Satisfies(const Json& value, const Json& schema, const std::string& where);

  // pattern, format and lengths; nothing when any string will do.
  struct Strings {
    std::optional<TextMachine> machine;
    int32_t min = 0, max = kUnlimited;  // in addition to the machine
  };
  Strings StringsOf(const Json& schema, const std::string& where);
  void Constrain(std::optional<TextMachine>* machine, Result<TextMachine> other,
                 const std::string& where);
  void AddStrings(const Strings& strings, const std::string& where, Spelling spelling, StateId from,
                  StateId to);
  NumberBounds BoundsOf(const Json& schema, const std::string& where, bool integer);
  // A count (minItems and the like), or `otherwise`.
  int32_t Count(const Json& schema, const std::string& where, std::string_view key,
                int32_t otherwise);

  GrammarBuilder& builder_;
  StringRules& strings_;
  const Json& root_;
  const std::string root_where_;
  const bool in_call_;
  Status status_;
  std::string where_;
  std::map<const Json*, RuleId> values_;
  std::deque<Json> merged_;  // schemas of our own
  std::map<std::string, const Json*> merged_by_key_, kept_;
  size_t merged_bytes_ = 0;
  std::map<std::string, TextMachine> patterns_;  // by expression
  RuleId any_value_ = -1;
  int depth_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_GRAMMAR_SCHEMA_COMPILER_H_

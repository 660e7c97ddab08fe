#ifndef HOLDFAST_GRAMMAR_SCHEMA_COMPILER_H_
#define HOLDFAST_GRAMMAR_SCHEMA_COMPILER_H_

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
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

  // `schema`, or what its reference leads to; null in error.
  const Json* Follow(const Json& schema, std::string* where);
  // Checks that `schema` has no keywords but `allowed` and those that say nothing about values.
  void CheckKeywords(const Json& schema, const std::string& where,
                     std::initializer_list<std::string_view> allowed);
  void Fail(const std::string& where, Status status);
  // The strings of `schema` as they are, not as JSON. `plain` false: only those that cannot be
  // taken for JSON.
  void AddRawStrings(const Json& schema, const std::string& where, bool plain, StateId from,
                     StateId to);

  bool ok() const { return status_.ok() && !builder_.overflowed(); }
  void Refuse(const std::string& where, std::string_view why);
  static const Json* Find(const Json& schema, std::string_view key);
  static unsigned TypeOf(const Json& value);

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
  RuleId AdditionalProperty(const Json& schema, const std::string& where,
                            const std::vector<Property>& declared);
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
  RuleId any_value_ = -1;
  int depth_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_GRAMMAR_SCHEMA_COMPILER_H_

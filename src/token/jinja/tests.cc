// What stands behind "is".
#include <fmt/format.h>

#include <map>

#include "token/jinja/builtins.h"
#include "token/jinja/strings.h"
#include "weights/gguf_value.h"

namespace holdfast::jinja {
namespace {

using Test = Result<bool> (*)(Interpreter&, const Value&, const Arguments&);

template <Value::Kind kKind>
Result<bool> IsKind(Interpreter&, const Value& value, const Arguments&) {
  return value.kind() == kKind;
}

Result<bool> IsDefined(Interpreter&, const Value& value, const Arguments&) {
  return !value.is_undefined();
}

// Python's bool is an int, so True is a number; Jinja says so too.
Result<bool> IsNumber(Interpreter&, const Value& value, const Arguments&) {
  return value.is_number();
}

template <bool kWanted>
Result<bool> IsBoolean(Interpreter&, const Value& value, const Arguments&) {
  return value.is_bool() && value.boolean() == kWanted;
}

bool CanIterate(const Value& value) {
  return value.is_string() || value.is_list() || value.is_dict();
}

// Undefined values can be walked (they are empty) in Jinja, but have no length or order of their
// own.
Result<bool> IsIterable(Interpreter&, const Value& value, const Arguments&) {
  return CanIterate(value) || value.is_undefined();
}

Result<bool> IsSequence(Interpreter&, const Value& value, const Arguments&) {
  return CanIterate(value) || value.is_undefined();
}

Result<const Value*> Operand(const Arguments& arguments) {
  if (arguments.positional.empty()) return InvalidArgumentError("the test wants an argument");
  return &arguments.positional[0];
}

Result<bool> IsEqual(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const Value* other, Operand(arguments));
  return interpreter.Equal(value, *other);
}

Result<bool> IsNotEqual(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const bool same, IsEqual(interpreter, value, arguments));
  return !same;
}

// Identity: 1 is not the same as true.
Result<bool> IsSame(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const bool same, IsEqual(interpreter, value, arguments));
  return same && value.kind() == arguments.positional[0].kind();
}

Result<int> OrderOf(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const Value* other, Operand(arguments));
  return interpreter.Order(value, *other);
}

Result<bool> IsLess(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const int order, OrderOf(interpreter, value, arguments));
  return order < 0;
}

Result<bool> IsLessOrEqual(Interpreter& interpreter, const Value& value,
                           const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const int order, OrderOf(interpreter, value, arguments));
  return order <= 0;
}

Result<bool> IsGreater(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const int order, OrderOf(interpreter, value, arguments));
  return order > 0;
}

Result<bool> IsGreaterOrEqual(Interpreter& interpreter, const Value& value,
                              const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const int order, OrderOf(interpreter, value, arguments));
  return order >= 0;
}

Result<bool> IsIn(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const Value* container, Operand(arguments));
  return Contains(interpreter, *container, value);
}

Result<bool> IsDivisible(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const Value* by, Operand(arguments));
  HF_ASSIGN_OR_RETURN(const Value rest, Binary(interpreter, "%", value, *by));
  return rest.is_number() && rest.number() == 0;
}

template <int kRest>
Result<bool> HasParity(Interpreter&, const Value& value, const Arguments&) {
  if (!value.is_int() && !value.is_bool()) {
    return InvalidArgumentError(fmt::format("odd or even of {}", value.KindName()));
  }
  return (value.integer() & 1) == kRest;
}

template <TaggedString (*kMap)(const TaggedString&), TaggedString (*kOther)(const TaggedString&)>
Result<bool> IsCase(Interpreter& interpreter, const Value& value, const Arguments&) {
  HF_ASSIGN_OR_RETURN(const Value text, ToString(interpreter, value));
  return kMap(text.string()).text() == text.text() && kOther(text.string()).text() != text.text();
}

const std::map<std::string_view, Test>& Tests() {
  static const std::map<std::string_view, Test> tests = {
      {"boolean", IsKind<Value::Kind::kBool>},
      {"callable", IsKind<Value::Kind::kCallable>},
      {"defined", IsDefined},
      {"divisibleby", IsDivisible},
      {"eq", IsEqual},
      {"equalto", IsEqual},
      {"even", HasParity<0>},
      {"false", IsBoolean<false>},
      {"float", IsKind<Value::Kind::kFloat>},
      {"ge", IsGreaterOrEqual},
      {"greaterthan", IsGreater},
      {"gt", IsGreater},
      {"in", IsIn},
      {"integer", IsKind<Value::Kind::kInt>},
      {"iterable", IsIterable},
      {"le", IsLessOrEqual},
      {"lessthan", IsLess},
      {"lower", IsCase<Lower, Upper>},
      {"lt", IsLess},
      {"mapping", IsKind<Value::Kind::kDict>},
      {"ne", IsNotEqual},
      {"none", IsKind<Value::Kind::kNone>},
      {"number", IsNumber},
      {"odd", HasParity<1>},
      {"sameas", IsSame},
      {"sequence", IsSequence},
      {"string", IsKind<Value::Kind::kString>},
      {"true", IsBoolean<true>},
      {"undefined", IsKind<Value::Kind::kUndefined>},
      {"upper", IsCase<Upper, Lower>},
  };
  return tests;
}

}  // namespace

Result<bool> ApplyTest(Interpreter& interpreter, std::string_view name, const Value& value,
                       const Arguments& arguments) {
  const auto it = Tests().find(name);
  if (it == Tests().end()) {
    return InvalidArgumentError(fmt::format("there is no test {}", Quoted(name)));
  }
  return it->second(interpreter, value, arguments);
}

}  // namespace holdfast::jinja

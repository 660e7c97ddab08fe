#ifndef HOLDFAST_TOKEN_JINJA_BUILTINS_H_
#define HOLDFAST_TOKEN_JINJA_BUILTINS_H_

#include <string_view>

#include "base/status.h"
#include "token/jinja/interpreter.h"
#include "token/jinja/value.h"

namespace holdfast::jinja {

// What Jinja and Python bring along. All errors are kInvalidArgument without a line (the
// interpreter adds it), or the interpreter's own limits.

// range, namespace, dict, raise_exception, strftime_now.
void AddGlobals(Variables* variables);

// value | name(arguments)
Result<Value> ApplyFilter(Interpreter& interpreter, std::string_view name, const Value& value,
                          const Arguments& arguments);

// value is name(arguments)
Result<bool> ApplyTest(Interpreter& interpreter, std::string_view name, const Value& value,
                       const Arguments& arguments);

// Whether objects of this kind have a method of this name.
bool HasMethod(Value::Kind kind, std::string_view name);
// object.name(arguments), for names that HasMethod knows.
Result<Value> CallMethod(Interpreter& interpreter, const Value& object, std::string_view name,
                         const Arguments& arguments);

// a <op> b for + - * / // % ** ~
Result<Value> Binary(Interpreter& interpreter, std::string_view op, const Value& a, const Value& b);
// item in container
Result<bool> Contains(Interpreter& interpreter, const Value& container, const Value& item);
// object.name: methods first, then entries, as Jinja does; undefined when there is neither.
Result<Value> GetAttribute(Interpreter& interpreter, const Value& object, std::string_view name);
// object[key]: undefined when there is none.
Result<Value> GetItem(Interpreter& interpreter, const Value& object, const Value& key);
// object[begin:end:step] of a string or list; undefined or none: that part is not given.
Result<Value> GetSlice(Interpreter& interpreter, const Value& object, const Value& begin,
                       const Value& end, const Value& step);
// The elements that a for loop, list(), join and so on see: of lists, keys of mappings, characters
// of strings, nothing of undefined.
Result<List> Elements(Interpreter& interpreter, const Value& value);
// A string of any value as print shows it.
Result<Value> ToString(Interpreter& interpreter, const Value& value);

}  // namespace holdfast::jinja

#endif  // HOLDFAST_TOKEN_JINJA_BUILTINS_H_

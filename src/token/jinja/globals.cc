// Functions that every template can call.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "token/jinja/builtins.h"

namespace holdfast::jinja {
namespace {

class Function : public Callable {
 public:
  using Body = Result<Value> (*)(Interpreter&, const Arguments&);
  explicit Function(Body body) : body_(body) {}
  Result<Value> Call(Interpreter& interpreter, const Arguments& arguments) const override {
    return body_(interpreter, arguments);
  }

 private:
  Body body_;
};

Result<Value> Range(Interpreter& interpreter, const Arguments& arguments) {
  std::array<int64_t, 3> bounds = {0, 0, 1};
  const List& given = arguments.positional;
  if (given.empty() || given.size() > 3) return InvalidArgumentError("range wants 1 to 3 numbers");
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].is_int() && !given[i].is_bool()) {
      return InvalidArgumentError(fmt::format("range of {}, wanted integers", given[i].KindName()));
    }
    bounds[given.size() == 1 ? 1 : i] = given[i].integer();
  }
  const auto [begin, end, step] = bounds;
  if (step == 0) return InvalidArgumentError("range with step 0");
  List items;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    HF_RETURN_IF_ERROR(interpreter.Charge(64));
    items.push_back(Value::Int(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return interpreter.MakeList(std::move(items));
}

Result<Value> Namespace(Interpreter& interpreter, const Arguments& arguments) {
  Variables variables;
  for (const Value& value : arguments.positional) {
    if (!value.is_dict()) return InvalidArgumentError("namespace wants a mapping or named values");
    for (const Dict::Entry& entry : value.dict().entries) {
      variables.insert_or_assign(entry.key.text(), entry.value);
    }
  }
  for (const auto& [name, value] : arguments.named) variables.insert_or_assign(name, value);
  return interpreter.MakeNamespace(std::move(variables));
}

Result<Value> MakeMapping(Interpreter& interpreter, const Arguments& arguments) {
  Dict dict;
  for (const Value& value : arguments.positional) {
    if (!value.is_dict()) return InvalidArgumentError("dict wants a mapping or named values");
    for (const Dict::Entry& entry : value.dict().entries) dict.Set(entry.key, entry.value);
  }
  for (const auto& [name, value] : arguments.named) dict.Set(TaggedString(name, kTemplate), value);
  return interpreter.MakeDict(std::move(dict));
}

Result<Value> RaiseException(Interpreter& interpreter, const Arguments& arguments) {
  const Value* message = arguments.Get(0, "message");
  HF_ASSIGN_OR_RETURN(const Value text,
                      ToString(interpreter, message == nullptr ? Value() : *message));
  return InvalidArgumentError(text.text());
}

Result<Value> StrftimeNow(Interpreter& interpreter, const Arguments& arguments) {
  const Value* format = arguments.Get(0, "format");
  if (format == nullptr || !format->is_string()) {
    return InvalidArgumentError("strftime_now wants a format");
  }
  const std::time_t now = interpreter.now_s();
  std::tm local = {};
  if (localtime_r(&now, &local) == nullptr) return InvalidArgumentError("strftime_now: no time");
  std::array<char, 256> buffer;
  const size_t n = std::strftime(buffer.data(), buffer.size(), format->text().c_str(), &local);
  // A format from the request gives request text.
  const auto& runs = format->string().runs();
  const auto foreign = std::find_if(runs.begin(), runs.end(), [](const TaggedString::Run& run) {
    return run.source != kTemplate;
  });
  return interpreter.MakeString(TaggedString(std::string_view(buffer.data(), n),
                                             foreign == runs.end() ? kTemplate : foreign->source));
}

}  // namespace

void AddGlobals(Variables* variables) {
  const auto add = [variables](std::string name, Function::Body body) {
    variables->insert_or_assign(std::move(name),
                                Value::FromCallable(std::make_shared<Function>(body)));
  };
  add("range", Range);
  add("namespace", Namespace);
  add("dict", MakeMapping);
  add("raise_exception", RaiseException);
  add("strftime_now", StrftimeNow);
}

}  // namespace holdfast::jinja

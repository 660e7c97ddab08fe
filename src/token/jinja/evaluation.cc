// The interpreter's expressions; statements are in interpreter.cc.
#include "token/jinja/evaluation.h"

#include <fmt/format.h>

#include <utility>

#include "token/jinja/builtins.h"
#include "token/jinja/interpreter.h"
#include "token/jinja/scope.h"
#include "weights/gguf_value.h"

namespace holdfast::jinja {
namespace {

constexpr std::string_view kLine = "line ";

std::string Describe(const Expr& expr) {
  switch (expr.kind) {
    case Expr::Kind::kName:
      return Quoted(expr.name);
    case Expr::Kind::kAttribute:
      return Quoted("." + expr.name);
    default:
      return "a value";
  }
}

}  // namespace

Status AtLine(const Status& status, int line) {
  if (status.message().starts_with(kLine)) return status;
  return Status(status.code(), fmt::format("{}{}: {}", kLine, line, status.message()));
}

Result<Value> Interpreter::Eval(const Expr& expr, Scope* scope) {
  const Depth depth(&depth_);
  if (depth_ > limits_.max_depth) {
    return AtLine(
        ResourceExhaustedError(fmt::format("evaluation nested deeper than {}", limits_.max_depth)),
        expr.line);
  }
  HF_RETURN_IF_ERROR(Step());
  Result<Value> value = EvalKind(expr, scope);
  if (!value.ok()) return AtLine(value.status(), expr.line);
  return value;
}

Result<Value> Interpreter::EvalKind(const Expr& expr, Scope* scope) {
  switch (expr.kind) {
    case Expr::Kind::kLiteral:
      return expr.literal;
    case Expr::Kind::kName:
      return EvalName(expr, scope);
    case Expr::Kind::kCaptured:
      return captured_.back();
    case Expr::Kind::kList:
      return EvalList(expr, scope);
    case Expr::Kind::kDict:
      return EvalDict(expr, scope);
    case Expr::Kind::kAttribute:
      return EvalAttribute(expr, scope);
    case Expr::Kind::kItem:
      return EvalItem(expr, scope);
    case Expr::Kind::kSlice:
      return EvalSlice(expr, scope);
    case Expr::Kind::kCall:
      return EvalCall(expr, scope);
    case Expr::Kind::kFilter:
      return EvalFilter(expr, scope);
    case Expr::Kind::kTest:
      return EvalTest(expr, scope);
    case Expr::Kind::kNot:
    case Expr::Kind::kAnd:
    case Expr::Kind::kOr:
      return EvalLogic(expr, scope);
    case Expr::Kind::kNegate:
    case Expr::Kind::kPlus:
      return EvalSign(expr, scope);
    case Expr::Kind::kBinary:
      return EvalBinary(expr, scope);
    case Expr::Kind::kCompare:
      return EvalCompare(expr, scope);
    case Expr::Kind::kConditional:
      return EvalConditional(expr, scope);
  }
  return Value();
}

Result<Value> Interpreter::EvalName(const Expr& expr, const Scope* scope) {
  const Value* value = scope->Find(expr.name);
  return value == nullptr ? Value() : *value;
}

Result<Value> Interpreter::EvalList(const Expr& expr, Scope* scope) {
  List items;
  for (const ExprPtr& child : expr.children) {
    HF_ASSIGN_OR_RETURN(Value item, Eval(*child, scope));
    items.push_back(std::move(item));
  }
  return MakeList(std::move(items));
}

Result<Value> Interpreter::EvalDict(const Expr& expr, Scope* scope) {
  Dict dict;
  for (size_t i = 0; i + 1 < expr.children.size(); i += 2) {
    HF_ASSIGN_OR_RETURN(const Value key, Eval(*expr.children[i], scope));
    HF_ASSIGN_OR_RETURN(const Value key_text, ToString(*this, key));
    HF_ASSIGN_OR_RETURN(Value value, Eval(*expr.children[i + 1], scope));
    dict.Set(key_text.string(), std::move(value));
  }
  return MakeDict(std::move(dict));
}

Result<Value> Interpreter::EvalAttribute(const Expr& expr, Scope* scope) {
  const Expr& child = *expr.children[0];
  if (child.kind == Expr::Kind::kName && child.name == "loop") {
    if (const Loop* loop = scope->FindLoop(); loop != nullptr) {
      return loop->Attribute(expr.name).value_or(Value());
    }
  }
  HF_ASSIGN_OR_RETURN(const Value object, Eval(child, scope));
  if (object.is_undefined()) {
    return InvalidArgumentError(fmt::format("cannot read {} of {}, which is undefined",
                                            Quoted(expr.name), Describe(child)));
  }
  return GetAttribute(*this, object, expr.name);
}

Result<Value> Interpreter::EvalItem(const Expr& expr, Scope* scope) {
  HF_ASSIGN_OR_RETURN(const Value object, Eval(*expr.children[0], scope));
  HF_ASSIGN_OR_RETURN(const Value key, Eval(*expr.children[1], scope));
  if (object.is_undefined()) {
    return InvalidArgumentError(
        fmt::format("cannot index {}, which is undefined", Describe(*expr.children[0])));
  }
  return GetItem(*this, object, key);
}

Result<Value> Interpreter::EvalSlice(const Expr& expr, Scope* scope) {
  HF_ASSIGN_OR_RETURN(const Value object, Eval(*expr.children[0], scope));
  Value parts[3];
  for (size_t i = 0; i < 3; ++i) {
    if (expr.children[i + 1] == nullptr) continue;
    HF_ASSIGN_OR_RETURN(parts[i], Eval(*expr.children[i + 1], scope));
  }
  return GetSlice(*this, object, parts[0], parts[1], parts[2]);
}

Result<Arguments> Interpreter::EvalArguments(const Expr& expr, Scope* scope) {
  Arguments arguments;
  for (const Expr::Argument& argument : expr.arguments) {
    HF_ASSIGN_OR_RETURN(Value value, Eval(*argument.value, scope));
    if (argument.name.empty()) {
      arguments.positional.push_back(std::move(value));
    } else {
      arguments.named.emplace_back(argument.name, std::move(value));
    }
  }
  return arguments;
}

namespace {

// loop.cycle(a, b, ...) and loop.changed(a, ...)
Result<Value> CallLoop(Interpreter& interpreter, Loop* loop, std::string_view name,
                       const Arguments& arguments) {
  const List& values = arguments.positional;
  if (name == "cycle" && !values.empty()) return values[loop->index0 % values.size()];
  if (name == "changed") {
    HF_ASSIGN_OR_RETURN(const Value now, interpreter.MakeList(values));
    bool same = false;
    if (loop->last_changed) {
      HF_ASSIGN_OR_RETURN(const Value before, interpreter.MakeList(*loop->last_changed));
      HF_ASSIGN_OR_RETURN(same, interpreter.Equal(before, now));
    }
    loop->last_changed = values;
    return Value::Bool(!same);
  }
  return InvalidArgumentError(fmt::format("loop.{} cannot be called like this", name));
}

}  // namespace

Result<Value> Interpreter::EvalCall(const Expr& expr, Scope* scope) {
  const Expr& callee = *expr.children[0];
  if (callee.kind == Expr::Kind::kAttribute) {
    const Expr& object_expr = *callee.children[0];
    if (object_expr.kind == Expr::Kind::kName && object_expr.name == "loop") {
      if (Loop* loop = scope->FindLoop(); loop != nullptr) {
        HF_ASSIGN_OR_RETURN(const Arguments arguments, EvalArguments(expr, scope));
        return CallLoop(*this, loop, callee.name, arguments);
      }
    }
    HF_ASSIGN_OR_RETURN(const Value object, Eval(object_expr, scope));
    if (object.is_undefined()) {
      return InvalidArgumentError(fmt::format("cannot call {} of {}, which is undefined",
                                              Quoted(callee.name), Describe(object_expr)));
    }
    HF_ASSIGN_OR_RETURN(const Arguments arguments, EvalArguments(expr, scope));
    if (HasMethod(object.kind(), callee.name)) {
      return CallMethod(*this, object, callee.name, arguments);
    }
    HF_ASSIGN_OR_RETURN(const Value function, GetAttribute(*this, object, callee.name));
    if (function.is_undefined()) {
      return InvalidArgumentError(
          fmt::format("{} has no method {}", object.KindName(), Quoted(callee.name)));
    }
    return Call(function, arguments);
  }
  HF_ASSIGN_OR_RETURN(const Value function, Eval(callee, scope));
  if (function.is_undefined()) {
    return InvalidArgumentError(
        fmt::format("cannot call {}, which is undefined", Describe(callee)));
  }
  HF_ASSIGN_OR_RETURN(const Arguments arguments, EvalArguments(expr, scope));
  return Call(function, arguments);
}

Result<Value> Interpreter::EvalFilter(const Expr& expr, Scope* scope) {
  HF_ASSIGN_OR_RETURN(const Value value, Eval(*expr.children[0], scope));
  HF_ASSIGN_OR_RETURN(const Arguments arguments, EvalArguments(expr, scope));
  return ApplyFilter(*this, expr.name, value, arguments);
}

Result<Value> Interpreter::EvalTest(const Expr& expr, Scope* scope) {
  HF_ASSIGN_OR_RETURN(const Value value, Eval(*expr.children[0], scope));
  HF_ASSIGN_OR_RETURN(const Arguments arguments, EvalArguments(expr, scope));
  HF_ASSIGN_OR_RETURN(const bool holds, ApplyTest(*this, expr.name, value, arguments));
  return Value::Bool(holds);
}

Result<Value> Interpreter::EvalSign(const Expr& expr, Scope* scope) {
  HF_ASSIGN_OR_RETURN(const Value value, Eval(*expr.children[0], scope));
  if (!value.is_number()) {
    return InvalidArgumentError(fmt::format("a sign before {}", value.KindName()));
  }
  if (expr.kind == Expr::Kind::kPlus) return value;
  return Binary(*this, "-", Value::Int(0), value);
}

Result<Value> Interpreter::EvalBinary(const Expr& expr, Scope* scope) {
  HF_ASSIGN_OR_RETURN(const Value a, Eval(*expr.children[0], scope));
  HF_ASSIGN_OR_RETURN(const Value b, Eval(*expr.children[1], scope));
  return Binary(*this, expr.name, a, b);
}

Result<Value> Interpreter::EvalLogic(const Expr& expr, Scope* scope) {
  HF_ASSIGN_OR_RETURN(Value first, Eval(*expr.children[0], scope));
  if (expr.kind == Expr::Kind::kNot) return Value::Bool(!first.IsTrue());
  // As in Python the result is one of the operands.
  if (first.IsTrue() == (expr.kind == Expr::Kind::kOr)) return first;
  return Eval(*expr.children[1], scope);
}

namespace {

Result<bool> Compare(Interpreter& interpreter, std::string_view op, const Value& a,
                     const Value& b) {
  if (op == "==") return interpreter.Equal(a, b);
  if (op == "in") return Contains(interpreter, b, a);
  if (op == "!=" || op == "not in") {
    HF_ASSIGN_OR_RETURN(const bool holds,
                        op == "!=" ? interpreter.Equal(a, b) : Contains(interpreter, b, a));
    return !holds;
  }
  HF_ASSIGN_OR_RETURN(const int order, interpreter.Order(a, b));
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  if (op == ">") return order > 0;
  return order >= 0;
}

}  // namespace

Result<Value> Interpreter::EvalCompare(const Expr& expr, Scope* scope) {
  HF_ASSIGN_OR_RETURN(Value left, Eval(*expr.children[0], scope));
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    HF_ASSIGN_OR_RETURN(Value right, Eval(*expr.children[i + 1], scope));
    HF_ASSIGN_OR_RETURN(const bool holds, Compare(*this, expr.ops[i], left, right));
    if (!holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Result<Value> Interpreter::EvalConditional(const Expr& expr, Scope* scope) {
  HF_ASSIGN_OR_RETURN(const Value condition, Eval(*expr.children[0], scope));
  if (condition.IsTrue()) return Eval(*expr.children[1], scope);
  if (expr.children[2] == nullptr) return Value();
  return Eval(*expr.children[2], scope);
}

}  // namespace holdfast::jinja

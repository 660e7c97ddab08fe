#include "token/jinja/scope.h"

namespace holdfast::jinja {

std::optional<Value> Loop::Attribute(std::string_view name) const {
  const auto n = static_cast<int64_t>(items->size());
  const auto i = static_cast<int64_t>(index0);
  if (name == "index") return Value::Int(i + 1);
  if (name == "index0") return Value::Int(i);
  if (name == "revindex") return Value::Int(n - i);
  if (name == "revindex0") return Value::Int(n - i - 1);
  if (name == "first") return Value::Bool(i == 0);
  if (name == "last") return Value::Bool(i == n - 1);
  if (name == "length") return Value::Int(n);
  // Depth of recursion, not of nesting: recursive loops are not supported.
  if (name == "depth") return Value::Int(1);
  if (name == "depth0") return Value::Int(0);
  if (name == "previtem") return index0 > 0 ? (*items)[index0 - 1] : Value();
  if (name == "nextitem") return index0 + 1 < items->size() ? (*items)[index0 + 1] : Value();
  return std::nullopt;
}

const Value* Scope::Find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
    const auto it = scope->variables.find(name);
    if (it != scope->variables.end()) return &it->second;
  }
  return nullptr;
}

Loop* Scope::FindLoop() const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
    if (scope->variables.contains("loop")) return nullptr;
    if (scope->loop != nullptr) return scope->loop;
  }
  return nullptr;
}

Result<Value> MacroFunction::Call(Interpreter& interpreter, const Arguments& arguments) const {
  const std::shared_ptr<Scope> scope = scope_.lock();
  if (scope == nullptr) {
    return InvalidArgumentError("the macro '" + macro_->name + "' is called outside of its block");
  }
  return interpreter.CallMacro(*macro_, scope, arguments);
}

}  // namespace holdfast::jinja

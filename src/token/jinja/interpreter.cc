#include "token/jinja/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "token/jinja/builtins.h"
#include "token/jinja/evaluation.h"
#include "token/jinja/scope.h"
#include "weights/gguf_value.h"

namespace holdfast::jinja {
namespace {

// What a Value costs in a list, for the account.
constexpr int64_t kValueBytes = 64;

std::shared_ptr<Scope> ChildOf(const std::shared_ptr<Scope>& parent) {
  auto scope = std::make_shared<Scope>();
  scope->parent = parent;
  return scope;
}

}  // namespace

Result<TaggedString> Interpreter::Render(const Body& body, Variables globals) {
  auto root = std::make_shared<Scope>();
  AddGlobals(&root->variables);
  for (auto& [name, value] : globals) root->variables.insert_or_assign(name, std::move(value));
  TaggedString out;
  out_ = &out;
  const Result<Flow> flow = Run(body, root);
  out_ = nullptr;
  if (!flow.ok()) return flow.status();
  return out;
}

// --- accounts ---

Status Interpreter::Step(int64_t n) {
  steps_ += n;
  if (steps_ <= limits_.max_steps) return OkStatus();
  return ResourceExhaustedError(fmt::format("more than {} steps", limits_.max_steps));
}

Status Interpreter::Charge(int64_t n_bytes) {
  if (n_bytes > limits_.max_bytes - bytes_) {
    return ResourceExhaustedError(fmt::format("more than {} bytes of values", limits_.max_bytes));
  }
  bytes_ += n_bytes;
  return OkStatus();
}

Result<Value> Interpreter::MakeString(TaggedString text) {
  HF_RETURN_IF_ERROR(Charge(kValueBytes + static_cast<int64_t>(text.size())));
  return Value::String(std::move(text));
}

Result<Value> Interpreter::MakeList(List items) {
  HF_RETURN_IF_ERROR(Charge(kValueBytes * static_cast<int64_t>(items.size() + 1)));
  Value list = Value::FromList(std::move(items));
  if (list.depth() > kMaxValueDepth || list.weight() > kMaxValueWeight) {
    return ResourceExhaustedError("a list that is too deep or too big");
  }
  return list;
}

Result<Value> Interpreter::MakeDict(Dict dict) {
  HF_RETURN_IF_ERROR(Charge(3 * kValueBytes * static_cast<int64_t>(dict.entries.size() + 1)));
  Value value = Value::FromDict(std::move(dict));
  if (value.depth() > kMaxValueDepth || value.weight() > kMaxValueWeight) {
    return ResourceExhaustedError("a mapping that is too deep or too big");
  }
  return value;
}

Result<Value> Interpreter::MakeNamespace(Variables variables) {
  HF_RETURN_IF_ERROR(Charge(3 * kValueBytes * static_cast<int64_t>(variables.size() + 1)));
  namespaces_.push_back(std::move(variables));
  return Value::FromNamespace(&namespaces_.back());
}

Result<bool> Interpreter::Equal(const Value& a, const Value& b) {
  HF_RETURN_IF_ERROR(Step(1 + std::min(a.weight(), b.weight()) / 16));
  return a.Equals(b);
}

Result<int> Interpreter::Order(const Value& a, const Value& b) {
  // Finding where two lists differ and then ordering there walks at most twice per level.
  HF_RETURN_IF_ERROR(Step(1 + std::min(a.weight(), b.weight()) / 16 * (1 + a.depth())));
  const std::optional<int> order = a.Compare(b);
  if (order) return *order;
  return InvalidArgumentError(fmt::format("cannot order {} and {}", a.KindName(), b.KindName()));
}

int64_t Interpreter::now_s() const {
  if (now_s_) return *now_s_;
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// --- statements ---

Result<Interpreter::Flow> Interpreter::Run(const Body& body, const std::shared_ptr<Scope>& scope) {
  for (const NodePtr& node : body) {
    const Depth depth(&depth_);
    if (depth_ > limits_.max_depth) {
      return AtLine(ResourceExhaustedError(
                        fmt::format("evaluation nested deeper than {}", limits_.max_depth)),
                    node->line);
    }
    HF_RETURN_IF_ERROR(Step());
    const Result<Flow> flow = RunNode(*node, scope);
    if (!flow.ok()) return AtLine(flow.status(), node->line);
    if (*flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::RunNode(const Node& node,
                                               const std::shared_ptr<Scope>& scope) {
  switch (node.kind) {
    case Node::Kind::kText:
      HF_RETURN_IF_ERROR(Print(node.text));
      break;
    case Node::Kind::kPrint: {
      HF_ASSIGN_OR_RETURN(const Value value, Eval(*node.expr, scope.get()));
      HF_RETURN_IF_ERROR(Print(value));
      break;
    }
    case Node::Kind::kIf:
      return RunIf(node, scope);
    case Node::Kind::kFor:
      return RunFor(node, scope);
    case Node::Kind::kWith:
      return RunWith(node, scope);
    case Node::Kind::kSet: {
      HF_ASSIGN_OR_RETURN(const Value value, Eval(*node.expr, scope.get()));
      HF_RETURN_IF_ERROR(Assign(node.target, value, scope.get()));
      break;
    }
    case Node::Kind::kSetBlock:
    case Node::Kind::kFilterBlock:
      HF_RETURN_IF_ERROR(RunCaptured(node, scope));
      break;
    case Node::Kind::kMacro:
      HF_RETURN_IF_ERROR(RunMacro(node, scope));
      break;
    case Node::Kind::kCallBlock:
      HF_RETURN_IF_ERROR(RunCallBlock(node, scope));
      break;
    case Node::Kind::kBreak:
      return Flow::kBreak;
    case Node::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::RunIf(const Node& node,
                                             const std::shared_ptr<Scope>& scope) {
  for (const Node::Branch& branch : node.branches) {
    if (branch.condition != nullptr) {
      HF_ASSIGN_OR_RETURN(const Value condition, Eval(*branch.condition, scope.get()));
      if (!condition.IsTrue()) continue;
    }
    return Run(branch.body, scope);
  }
  return Flow::kNext;
}

Result<List> Interpreter::LoopItems(const Node& node, const std::shared_ptr<Scope>& scope) {
  HF_ASSIGN_OR_RETURN(const Value iterable, Eval(*node.expr, scope.get()));
  HF_ASSIGN_OR_RETURN(List items, Elements(*this, iterable));
  if (node.filter == nullptr) return items;
  List kept;
  for (Value& item : items) {
    const std::shared_ptr<Scope> inner = ChildOf(scope);
    HF_RETURN_IF_ERROR(Assign(node.target, item, inner.get()));
    HF_ASSIGN_OR_RETURN(const Value keep, Eval(*node.filter, inner.get()));
    if (keep.IsTrue()) kept.push_back(std::move(item));
  }
  return kept;
}

Result<Interpreter::Flow> Interpreter::RunFor(const Node& node,
                                              const std::shared_ptr<Scope>& scope) {
  HF_ASSIGN_OR_RETURN(const List items, LoopItems(node, scope));
  if (items.empty()) return Run(node.else_body, scope);
  Loop loop;
  loop.items = &items;
  for (loop.index0 = 0; loop.index0 < items.size(); ++loop.index0) {
    HF_RETURN_IF_ERROR(Step());
    const std::shared_ptr<Scope> inner = ChildOf(scope);
    inner->loop = &loop;
    HF_RETURN_IF_ERROR(Assign(node.target, items[loop.index0], inner.get()));
    HF_ASSIGN_OR_RETURN(const Flow flow, Run(node.body, inner));
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::RunWith(const Node& node,
                                               const std::shared_ptr<Scope>& scope) {
  const std::shared_ptr<Scope> inner = ChildOf(scope);
  for (const auto& [name, expr] : node.assignments) {
    HF_ASSIGN_OR_RETURN(Value value, Eval(*expr, scope.get()));
    inner->variables.insert_or_assign(name, std::move(value));
  }
  return Run(node.body, inner);
}

Result<Value> Interpreter::Capture(const Body& body, const std::shared_ptr<Scope>& scope) {
  TaggedString text;
  TaggedString* outer = std::exchange(out_, &text);
  const Result<Flow> flow = Run(body, scope);
  out_ = outer;
  if (!flow.ok()) return flow.status();
  return MakeString(std::move(text));
}

Status Interpreter::RunCaptured(const Node& node, const std::shared_ptr<Scope>& scope) {
  HF_ASSIGN_OR_RETURN(Value text, Capture(node.body, ChildOf(scope)));
  captured_.push_back(std::move(text));
  const Result<Value> value = Eval(*node.expr, scope.get());
  captured_.pop_back();
  if (!value.ok()) return value.status();
  if (node.kind == Node::Kind::kFilterBlock) return Print(*value);
  return Assign(node.target, *value, scope.get());
}

Status Interpreter::RunMacro(const Node& node, const std::shared_ptr<Scope>& scope) {
  HF_RETURN_IF_ERROR(Charge(2 * kValueBytes));
  scope->variables.insert_or_assign(
      node.macro->name, Value::FromCallable(std::make_shared<MacroFunction>(node.macro, scope)));
  return OkStatus();
}

Status Interpreter::RunCallBlock(const Node& node, const std::shared_ptr<Scope>& scope) {
  HF_ASSIGN_OR_RETURN(const Value callee, Eval(*node.expr->children[0], scope.get()));
  HF_ASSIGN_OR_RETURN(Arguments arguments, EvalArguments(*node.expr, scope.get()));
  arguments.named.emplace_back(
      "caller", Value::FromCallable(std::make_shared<MacroFunction>(node.macro, scope)));
  HF_ASSIGN_OR_RETURN(const Value value, Call(callee, arguments));
  return Print(value);
}

Status Interpreter::Assign(const Target& target, const Value& value, Scope* scope) {
  if (!target.parts.empty()) {
    HF_ASSIGN_OR_RETURN(const List items, Elements(*this, value));
    if (items.size() != target.parts.size()) {
      return InvalidArgumentError(
          fmt::format("cannot unpack {} values into {} names", items.size(), target.parts.size()));
    }
    for (size_t i = 0; i < items.size(); ++i) {
      HF_RETURN_IF_ERROR(Assign(target.parts[i], items[i], scope));
    }
    return OkStatus();
  }
  HF_RETURN_IF_ERROR(Charge(kValueBytes));
  if (target.attribute.empty()) {
    scope->variables.insert_or_assign(target.name, value);
    return OkStatus();
  }
  const Value* object = scope->Find(target.name);
  if (object == nullptr || object->kind() != Value::Kind::kNamespace) {
    return InvalidArgumentError(
        fmt::format("cannot set an attribute of {}: it is no namespace", Quoted(target.name)));
  }
  object->variables()->insert_or_assign(target.attribute, value);
  return OkStatus();
}

Status Interpreter::Print(const Value& value) {
  HF_ASSIGN_OR_RETURN(const Value text, ToString(*this, value));
  HF_RETURN_IF_ERROR(Charge(static_cast<int64_t>(text.string().size())));
  if (static_cast<int64_t>(out_->size() + text.string().size()) > limits_.max_output_bytes) {
    return ResourceExhaustedError(
        fmt::format("more than {} bytes of output", limits_.max_output_bytes));
  }
  out_->Append(text.string());
  return OkStatus();
}

Result<Value> Interpreter::CallMacro(const Macro& macro, const std::shared_ptr<Scope>& scope,
                                     const Arguments& arguments) {
  const std::shared_ptr<Scope> inner = ChildOf(scope);
  if (arguments.positional.size() > macro.parameters.size()) {
    return InvalidArgumentError(fmt::format("macro '{}' takes {} arguments, {} given", macro.name,
                                            macro.parameters.size(), arguments.positional.size()));
  }
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const Macro::Parameter& parameter = macro.parameters[i];
    const Value* given = arguments.Get(i, parameter.name);
    Value value;
    if (given != nullptr) {
      value = *given;
    } else if (parameter.default_value != nullptr) {
      HF_ASSIGN_OR_RETURN(value, Eval(*parameter.default_value, inner.get()));
    }
    HF_RETURN_IF_ERROR(Charge(kValueBytes));
    inner->variables.insert_or_assign(parameter.name, std::move(value));
  }
  for (const auto& [name, value] : arguments.named) {
    if (name == "caller") {
      inner->variables.insert_or_assign(name, value);
    } else if (!inner->variables.contains(name)) {
      return InvalidArgumentError(
          fmt::format("macro '{}' has no parameter {}", macro.name, Quoted(name)));
    }
  }
  return Capture(macro.body, inner);
}

Result<Value> Interpreter::Call(const Value& callee, const Arguments& arguments) {
  if (callee.kind() != Value::Kind::kCallable) {
    return InvalidArgumentError(fmt::format("{} cannot be called", callee.KindName()));
  }
  const std::shared_ptr<const Callable> keep = callee.shared_callable();
  return keep->Call(*this, arguments);
}

}  // namespace holdfast::jinja

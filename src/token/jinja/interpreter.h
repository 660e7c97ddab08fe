#ifndef HOLDFAST_TOKEN_JINJA_INTERPRETER_H_
#define HOLDFAST_TOKEN_JINJA_INTERPRETER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "token/jinja/ast.h"
#include "token/jinja/value.h"

namespace holdfast::jinja {

// What one rendering may use. A template that wants more fails with kResourceExhausted.
struct Limits {
  int64_t max_steps = 10'000'000;                // expressions, statements and comparisons
  int64_t max_bytes = int64_t{256} << 20;        // of all strings and lists made, freed or not
  int64_t max_output_bytes = int64_t{64} << 20;  // of the result
  int max_depth = 400;                           // of nested evaluations, macro calls included
};

using Variables = std::map<std::string, Value, std::less<>>;

// Names of one block and, through `parent`, of those around it.
struct Scope;

// Runs one parsed template once.
//
// Threads: one at a time; the tree may be shared.
class Interpreter {
 public:
  Interpreter(const Limits& limits, std::optional<int64_t> now_s)
      : limits_(limits), now_s_(now_s) {}
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // The template's output with `globals` defined beside Jinja's own functions.
  Result<TaggedString> Render(const Body& body, Variables globals);

  // For filters, tests, methods and functions: they account for what they make and do.
  Status Step(int64_t n = 1);
  Status Charge(int64_t n_bytes);
  Result<Value> MakeString(TaggedString text);
  Result<Value> MakeList(List items);
  Result<Value> MakeDict(Dict dict);
  Result<Value> MakeNamespace(Variables variables);
  // Equality and order, with what the walk costs accounted for.
  Result<bool> Equal(const Value& a, const Value& b);
  Result<int> Order(const Value& a, const Value& b);
  Result<Value> Call(const Value& callee, const Arguments& arguments);
  Result<Value> CallMacro(const Macro& macro, const std::shared_ptr<Scope>& scope,
                          const Arguments& arguments);
  // Unix time for strftime_now.
  int64_t now_s() const;

 private:
  enum class Flow { kNext, kBreak, kContinue };

  Result<Flow> Run(const Body& body, const std::shared_ptr<Scope>& scope);
  Result<Flow> RunNode(const Node& node, const std::shared_ptr<Scope>& scope);
  Result<Flow> RunIf(const Node& node, const std::shared_ptr<Scope>& scope);
  Result<Flow> RunFor(const Node& node, const std::shared_ptr<Scope>& scope);
  Result<Flow> RunWith(const Node& node, const std::shared_ptr<Scope>& scope);
  Status RunCaptured(const Node& node, const std::shared_ptr<Scope>& scope);
  Status RunCallBlock(const Node& node, const std::shared_ptr<Scope>& scope);
  Status RunMacro(const Node& node, const std::shared_ptr<Scope>& scope);
  Result<List> LoopItems(const Node& node, const std::shared_ptr<Scope>& scope);
  Status Assign(const Target& target, const Value& value, Scope* scope);
  Status Print(const Value& value);
  // The output of `body` as a string.
  Result<Value> Capture(const Body& body, const std::shared_ptr<Scope>& scope);

  Result<Value> Eval(const Expr& expr, Scope* scope);
  Result<Value> EvalKind(const Expr& expr, Scope* scope);
  Result<Value> EvalName(const Expr& expr, const Scope* scope);
  Result<Value> EvalList(const Expr& expr, Scope* scope);
  Result<Value> EvalDict(const Expr& expr, Scope* scope);
  Result<Value> EvalAttribute(const Expr& expr, Scope* scope);
  Result<Value> EvalItem(const Expr& expr, Scope* scope);
  Result<Value> EvalSlice(const Expr& expr, Scope* scope);
  Result<Value> EvalCall(const Expr& expr, Scope* scope);
  Result<Value> EvalFilter(const Expr& expr, Scope* scope);
  Result<Value> EvalTest(const Expr& expr, Scope* scope);
  Result<Value> EvalSign(const Expr& expr, Scope* scope);
  Result<Value> EvalBinary(const Expr& expr, Scope* scope);
  Result<Value> EvalLogic(const Expr& expr, Scope* scope);
  Result<Value> EvalCompare(const Expr& expr, Scope* scope);
  Result<Value> EvalConditional(const Expr& expr, Scope* scope);
  Result<Arguments> EvalArguments(const Expr& expr, Scope* scope);

  const Limits limits_;
  const std::optional<int64_t> now_s_;
  int64_t steps_ = 0;
  int64_t bytes_ = 0;
  int depth_ = 0;
  TaggedString* out_ = nullptr;  // where output goes at present
  std::vector<Value> captured_;  // texts of the blocks whose filters are running
  std::deque<Variables> namespaces_;
};

}  // namespace holdfast::jinja

#endif  // HOLDFAST_TOKEN_JINJA_INTERPRETER_H_

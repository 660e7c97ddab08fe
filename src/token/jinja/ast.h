#ifndef HOLDFAST_TOKEN_JINJA_AST_H_
#define HOLDFAST_TOKEN_JINJA_AST_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "token/jinja/value.h"

namespace holdfast::jinja {

// A parsed expression. One struct for all kinds; which members a kind uses stands beside it.
struct Expr {
  enum class Kind {
    kLiteral,      // literal
    kName,         // name
    kCaptured,     // the text that a block (set, filter) has captured
    kList,         // children; also tuples
    kDict,         // children: key, value, key, value, ...
    kAttribute,    // children[0].name
    kItem,         // children[0][children[1]]
    kSlice,        // children[0][children[1]:children[2]:children[3]], the last three may be null
    kCall,         // children[0](arguments)
    kFilter,       // children[0] | name(arguments)
    kTest,         // children[0] is name(arguments)
    kNot,          // not children[0]
    kNegate,       // -children[0]
    kPlus,         // +children[0]
    kBinary,       // children[0] <name> children[1]: + - * / // % ** ~
    kAnd,          // children[0] and children[1]
    kOr,           // children[0] or children[1]
    kCompare,      // children[0] ops[0] children[1] ops[1] children[2] ...
    kConditional,  // children[1] if children[0] else children[2], which may be null
  };
  struct Argument {
    std::string name;  // empty: positional
    std::unique_ptr<Expr> value;
  };

  Kind kind = Kind::kLiteral;
  int line = 0;
  int depth = 1;  // of the tree below, this included
  std::string name;
  Value literal;
  std::vector<std::unique_ptr<Expr>> children;
  std::vector<Argument> arguments;
  std::vector<std::string> ops;  // == != < <= > >= in, "not in"
};
using ExprPtr = std::unique_ptr<Expr>;

// What `set` and `for` assign to: a name, an attribute of a namespace, or several names at once.
struct Target {
  std::string name;
  std::string attribute;      // empty: the name itself
  std::vector<Target> parts;  // not empty: unpacks a list
};

struct Node;
using NodePtr = std::unique_ptr<Node>;
using Body = std::vector<NodePtr>;

struct Macro {
  struct Parameter {
    std::string name;
    ExprPtr default_value;  // null: undefined
  };
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
};

// A statement or literal output.
struct Node {
  enum class Kind {
    kText,         // text
    kPrint,        // expr
    kIf,           // branches; one without condition is the else
    kFor,          // target, expr (what is walked), filter (may be null), body, else_body
    kSet,          // target, expr
    kSetBlock,     // target, expr (filters over kCaptured), body
    kMacro,        // macro
    kCallBlock,    // macro (the caller), expr (a call)
    kFilterBlock,  // expr (filters over kCaptured), body
    kWith,         // assignments, body
    kBreak,
    kContinue,
  };
  struct Branch {
    ExprPtr condition;
    Body body;
  };

  Kind kind = Kind::kText;
  int line = 0;
  Value text;
  Target target;
  ExprPtr expr;
  ExprPtr filter;
  Body body;
  Body else_body;
  std::vector<Branch> branches;
  std::vector<std::pair<std::string, ExprPtr>> assignments;
  std::shared_ptr<const Macro> macro;
};

}  // namespace holdfast::jinja

#endif  // HOLDFAST_TOKEN_JINJA_AST_H_

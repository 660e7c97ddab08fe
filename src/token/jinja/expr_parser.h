#ifndef HOLDFAST_TOKEN_JINJA_EXPR_PARSER_H_
#define HOLDFAST_TOKEN_JINJA_EXPR_PARSER_H_

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "token/jinja/ast.h"
#include "token/jinja/lexeme_cursor.h"
#include "token/jinja/lexer.h"

namespace holdfast::jinja {

// Parses expressions by recursive descent, one function per level of binding, loosest first. The
// depth of recursion and of the trees is limited (kMaxExprDepth).
class ExprParser : public LexemeCursor {
 public:
  using LexemeCursor::LexemeCursor;

  ExprPtr NewExpr(Expr::Kind kind) const;
  // An expression, or several with commas between them, which make a list.
  Result<ExprPtr> ParseTuple(bool with_conditional = true);
  Result<ExprPtr> ParseExpr(bool with_conditional = true);
  Result<ExprPtr> ParseFilters(ExprPtr expr);
  Result<ExprPtr> ParseFilter(ExprPtr expr);

 protected:
  int expr_depth_ = 0;

 private:
  // Adds a child (null allowed) and keeps the tree's depth in bounds: long chains of operators nest
  // without any recursion of the parser.
  Status Adopt(Expr* parent, ExprPtr child);
  Status Deepen(Expr* parent, int child_depth);
  Result<ExprPtr> Parent(Expr::Kind kind, std::string name, ExprPtr a, ExprPtr b = nullptr);
  Result<ExprPtr> ParseConditional();
  Result<ExprPtr> ParseOr();
  Result<ExprPtr> ParseAnd();
  Result<ExprPtr> ParseNot();
  // The comparison operator that comes next; empty: none. Takes it.
  std::string TakeComparison();
  Result<ExprPtr> ParseCompare();
  using Level = Result<ExprPtr> (ExprParser::*)();
  Result<ExprPtr> ParseBinary(Words ops, Level next);
  Result<ExprPtr> ParseSum();
  Result<ExprPtr> ParseConcat();
  Result<ExprPtr> ParseProduct();
  Result<ExprPtr> ParsePower();
  Result<ExprPtr> ParseUnaryAndFilters();
  Result<ExprPtr> ParseUnary();
  Result<ExprPtr> ParsePrimaryAndPostfix();
  Result<ExprPtr> ParsePostfix(ExprPtr expr);
  // Behind the '['.
  Result<ExprPtr> ParseSubscript(ExprPtr object);
  Status ParseArguments(Expr* call);
  Result<ExprPtr> ParseFiltersAndTests(ExprPtr expr);
  // A test's one argument may stand without brackets: "x is divisibleby 3".
  bool AtBareArgument() const;
  Result<ExprPtr> ParseTest(ExprPtr expr);
  ExprPtr Literal(Value value) const;
  Result<ExprPtr> ParsePrimary();
  Result<ExprPtr> ParseName();
  Result<ExprPtr> ParseBrackets();
  Result<ExprPtr> ParseList();
  Result<ExprPtr> ParseDict();
};

}  // namespace holdfast::jinja

#endif  // HOLDFAST_TOKEN_JINJA_EXPR_PARSER_H_

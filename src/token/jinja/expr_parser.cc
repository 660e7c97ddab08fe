#include "token/jinja/expr_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "token/jinja/parser.h"
#include "weights/gguf_value.h"

namespace holdfast::jinja {

ExprPtr ExprParser::NewExpr(Expr::Kind kind) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = Peek().line;
  return expr;
}

Status ExprParser::Adopt(Expr* parent, ExprPtr child) {
  if (child != nullptr) HF_RETURN_IF_ERROR(Deepen(parent, child->depth));
  parent->children.push_back(std::move(child));
  return OkStatus();
}

Status ExprParser::Deepen(Expr* parent, int child_depth) {
  parent->depth = std::max(parent->depth, child_depth + 1);
  if (parent->depth <= kMaxExprDepth) return OkStatus();
  return Error(fmt::format("an expression nested deeper than {}", kMaxExprDepth));
}

Result<ExprPtr> ExprParser::Parent(Expr::Kind kind, std::string name, ExprPtr a, ExprPtr b) {
  ExprPtr expr = NewExpr(kind);
  expr->name = std::move(name);
  expr->line = a->line;
  HF_RETURN_IF_ERROR(Adopt(expr.get(), std::move(a)));
  if (b != nullptr) HF_RETURN_IF_ERROR(Adopt(expr.get(), std::move(b)));
  return expr;
}

Result<ExprPtr> ExprParser::ParseTuple(bool with_conditional) {
  HF_ASSIGN_OR_RETURN(ExprPtr first, ParseExpr(with_conditional));
  if (!IsOp(",")) return first;
  HF_ASSIGN_OR_RETURN(ExprPtr tuple, Parent(Expr::Kind::kList, "", std::move(first)));
  while (TakeOp(",")) {
    if (IsOp(")") || Peek().kind == K::kBlockEnd || Peek().kind == K::kPrintEnd) break;
    HF_ASSIGN_OR_RETURN(ExprPtr next, ParseExpr(with_conditional));
    HF_RETURN_IF_ERROR(Adopt(tuple.get(), std::move(next)));
  }
  return tuple;
}

Result<ExprPtr> ExprParser::ParseExpr(bool with_conditional) {
  // Each level of brackets costs a dozen frames.
  if (++expr_depth_ > kMaxExprDepth) {
    return Error(fmt::format("an expression nested deeper than {}", kMaxExprDepth));
  }
  Result<ExprPtr> expr = with_conditional ? ParseConditional() : ParseOr();
  --expr_depth_;
  return expr;
}

Result<ExprPtr> ExprParser::ParseConditional() {
  HF_ASSIGN_OR_RETURN(ExprPtr value, ParseOr());
  while (IsName("if")) {
    Next();
    ExprPtr expr = NewExpr(Expr::Kind::kConditional);
    HF_ASSIGN_OR_RETURN(ExprPtr condition, ParseOr());
    ExprPtr otherwise;
    if (TakeName("else")) {
      HF_ASSIGN_OR_RETURN(otherwise, ParseExpr());
    }
    HF_RETURN_IF_ERROR(Adopt(expr.get(), std::move(condition)));
    HF_RETURN_IF_ERROR(Adopt(expr.get(), std::move(value)));
    HF_RETURN_IF_ERROR(Adopt(expr.get(), std::move(otherwise)));
    value = std::move(expr);
  }
  return value;
}

Result<ExprPtr> ExprParser::ParseOr() {
  HF_ASSIGN_OR_RETURN(ExprPtr left, ParseAnd());
  while (TakeName("or")) {
    HF_ASSIGN_OR_RETURN(ExprPtr right, ParseAnd());
    HF_ASSIGN_OR_RETURN(left, Parent(Expr::Kind::kOr, "or", std::move(left), std::move(right)));
  }
  return left;
}

Result<ExprPtr> ExprParser::ParseAnd() {
  HF_ASSIGN_OR_RETURN(ExprPtr left, ParseNot());
  while (TakeName("and")) {
    HF_ASSIGN_OR_RETURN(ExprPtr right, ParseNot());
    HF_ASSIGN_OR_RETURN(left, Parent(Expr::Kind::kAnd, "and", std::move(left), std::move(right)));
  }
  return left;
}

Result<ExprPtr> ExprParser::ParseNot() {
  if (!IsName("not")) return ParseCompare();
  if (++expr_depth_ > kMaxExprDepth) return Error("'not' nested too deeply");
  Next();
  HF_ASSIGN_OR_RETURN(ExprPtr inner, ParseNot());
  --expr_depth_;
  return Parent(Expr::Kind::kNot, "not", std::move(inner));
}

std::string ExprParser::TakeComparison() {
  for (const std::string_view op : {"==", "!=", "<=", ">=", "<", ">"}) {
    if (TakeOp(op)) return std::string(op);
  }
  if (TakeName("in")) return "in";
  if (IsName("not") && Peek(1).kind == K::kName && Peek(1).text == "in") {
    at_ += 2;
    return "not in";
  }
  return "";
}

Result<ExprPtr> ExprParser::ParseCompare() {
  HF_ASSIGN_OR_RETURN(ExprPtr left, ParseSum());
  std::string op = TakeComparison();
  if (op.empty()) return left;
  HF_ASSIGN_OR_RETURN(ExprPtr expr, Parent(Expr::Kind::kCompare, "", std::move(left)));
  while (!op.empty()) {
    HF_ASSIGN_OR_RETURN(ExprPtr right, ParseSum());
    HF_RETURN_IF_ERROR(Adopt(expr.get(), std::move(right)));
    expr->ops.push_back(std::move(op));
    op = TakeComparison();
  }
  return expr;
}

Result<ExprPtr> ExprParser::ParseBinary(Words ops, Level next) {
  HF_ASSIGN_OR_RETURN(ExprPtr left, (this->*next)());
  while (true) {
    const auto op =
        std::find_if(ops.begin(), ops.end(), [this](std::string_view text) { return IsOp(text); });
    if (op == ops.end()) return left;
    Next();
    HF_ASSIGN_OR_RETURN(ExprPtr right, (this->*next)());
    HF_ASSIGN_OR_RETURN(
        left, Parent(Expr::Kind::kBinary, std::string(*op), std::move(left), std::move(right)));
  }
}

Result<ExprPtr> ExprParser::ParseSum() { return ParseBinary({"+", "-"}, &ExprParser::ParseConcat); }

Result<ExprPtr> ExprParser::ParseConcat() { return ParseBinary({"~"}, &ExprParser::ParseProduct); }

Result<ExprPtr> ExprParser::ParseProduct() {
  return ParseBinary({"*", "/", "//", "%"}, &ExprParser::ParsePower);
}

Result<ExprPtr> ExprParser::ParsePower() {
  return ParseBinary({"**"}, &ExprParser::ParseUnaryAndFilters);
}

Result<ExprPtr> ExprParser::ParseUnaryAndFilters() {
  HF_ASSIGN_OR_RETURN(ExprPtr expr, ParseUnary());
  return ParseFiltersAndTests(std::move(expr));
}

Result<ExprPtr> ExprParser::ParseUnary() {
  const bool minus = IsOp("-");
  if (!minus && !IsOp("+")) return ParsePrimaryAndPostfix();
  if (++expr_depth_ > kMaxExprDepth) return Error("signs nested too deeply");
  Next();
  HF_ASSIGN_OR_RETURN(ExprPtr inner, ParseUnary());
  --expr_depth_;
  return Parent(minus ? Expr::Kind::kNegate : Expr::Kind::kPlus, "", std::move(inner));
}

Result<ExprPtr> ExprParser::ParsePrimaryAndPostfix() {
  HF_ASSIGN_OR_RETURN(ExprPtr expr, ParsePrimary());
  return ParsePostfix(std::move(expr));
}

Result<ExprPtr> ExprParser::ParsePostfix(ExprPtr expr) {
  while (true) {
    if (TakeOp(".")) {
      if (Peek().kind == K::kInteger) {  // foo.0 is foo[0]
        HF_ASSIGN_OR_RETURN(ExprPtr index, ParsePrimary());
        HF_ASSIGN_OR_RETURN(expr, Parent(Expr::Kind::kItem, "", std::move(expr), std::move(index)));
        continue;
      }
      HF_ASSIGN_OR_RETURN(std::string name, Identifier());
      HF_ASSIGN_OR_RETURN(expr, Parent(Expr::Kind::kAttribute, std::move(name), std::move(expr)));
    } else if (TakeOp("[")) {
      HF_ASSIGN_OR_RETURN(expr, ParseSubscript(std::move(expr)));
    } else if (IsOp("(")) {
      HF_ASSIGN_OR_RETURN(ExprPtr call, Parent(Expr::Kind::kCall, "", std::move(expr)));
      HF_RETURN_IF_ERROR(ParseArguments(call.get()));
      expr = std::move(call);
    } else {
      return expr;
    }
  }
}

Result<ExprPtr> ExprParser::ParseSubscript(ExprPtr object) {
  ExprPtr parts[3];
  size_t n_colons = 0;
  while (!IsOp("]")) {
    if (TakeOp(":")) {
      if (++n_colons > 2) return Error("a slice has at most three parts");
      continue;
    }
    if (parts[n_colons] != nullptr) return Error(fmt::format("wanted ']', found {}", Found()));
    HF_ASSIGN_OR_RETURN(parts[n_colons], ParseExpr());
  }
  Next();
  if (n_colons == 0) {
    if (parts[0] == nullptr) return Error("empty brackets behind a value");
    return Parent(Expr::Kind::kItem, "", std::move(object), std::move(parts[0]));
  }
  HF_ASSIGN_OR_RETURN(ExprPtr slice, Parent(Expr::Kind::kSlice, "", std::move(object)));
  for (ExprPtr& part : parts) HF_RETURN_IF_ERROR(Adopt(slice.get(), std::move(part)));
  return slice;
}

Status ExprParser::ParseArguments(Expr* call) {
  HF_RETURN_IF_ERROR(ExpectOp("("));
  bool is_first = true;
  while (!TakeOp(")")) {
    if (!is_first) {
      HF_RETURN_IF_ERROR(ExpectOp(","));
      if (TakeOp(")")) break;
    }
    is_first = false;
    Expr::Argument argument;
    if (Peek().kind == K::kName && Peek(1).kind == K::kOperator && Peek(1).text == "=") {
      argument.name = Next().text;
      Next();
    } else if (!call->arguments.empty() && !call->arguments.back().name.empty()) {
      return Error("a positional argument behind a named one");
    }
    HF_ASSIGN_OR_RETURN(argument.value, ParseExpr());
    HF_RETURN_IF_ERROR(Deepen(call, argument.value->depth));
    call->arguments.push_back(std::move(argument));
  }
  return OkStatus();
}

Result<ExprPtr> ExprParser::ParseFiltersAndTests(ExprPtr expr) {
  while (true) {
    if (IsOp("|")) {
      Next();
      HF_ASSIGN_OR_RETURN(expr, ParseFilter(std::move(expr)));
    } else if (TakeName("is")) {
      HF_ASSIGN_OR_RETURN(expr, ParseTest(std::move(expr)));
    } else if (IsOp("(") || IsOp("[") || IsOp(".")) {  // (x | f).y needs no brackets in Jinja
      HF_ASSIGN_OR_RETURN(expr, ParsePostfix(std::move(expr)));
    } else {
      return expr;
    }
  }
}

Result<ExprPtr> ExprParser::ParseFilters(ExprPtr expr) {
  while (TakeOp("|")) {
    HF_ASSIGN_OR_RETURN(expr, ParseFilter(std::move(expr)));
  }
  return expr;
}

Result<ExprPtr> ExprParser::ParseFilter(ExprPtr expr) {
  HF_ASSIGN_OR_RETURN(std::string name, Identifier());
  HF_ASSIGN_OR_RETURN(ExprPtr filter,
                      Parent(Expr::Kind::kFilter, std::move(name), std::move(expr)));
  if (IsOp("(")) HF_RETURN_IF_ERROR(ParseArguments(filter.get()));
  return filter;
}

bool ExprParser::AtBareArgument() const {
  if (Peek().kind == K::kName) {
    for (const std::string_view word : {"else", "or", "and", "if", "is", "not", "in"}) {
      if (Peek().text == word) return false;
    }
    return true;
  }
  return Peek().kind == K::kString || Peek().kind == K::kInteger || Peek().kind == K::kFloat ||
         IsOp("[") || IsOp("{");
}

Result<ExprPtr> ExprParser::ParseTest(ExprPtr expr) {
  const bool negated = TakeName("not");
  HF_ASSIGN_OR_RETURN(std::string name, Identifier());
  HF_ASSIGN_OR_RETURN(ExprPtr test, Parent(Expr::Kind::kTest, std::move(name), std::move(expr)));
  if (IsOp("(")) {
    HF_RETURN_IF_ERROR(ParseArguments(test.get()));
  } else if (AtBareArgument()) {
    Expr::Argument argument;
    HF_ASSIGN_OR_RETURN(argument.value, ParsePrimaryAndPostfix());
    HF_RETURN_IF_ERROR(Deepen(test.get(), argument.value->depth));
    test->arguments.push_back(std::move(argument));
  }
  if (!negated) return test;
  return Parent(Expr::Kind::kNot, "not", std::move(test));
}

ExprPtr ExprParser::Literal(Value value) const {
  ExprPtr expr = NewExpr(Expr::Kind::kLiteral);
  expr->literal = std::move(value);
  return expr;
}

Result<ExprPtr> ExprParser::ParsePrimary() {
  switch (Peek().kind) {
    case K::kName:
      return ParseName();
    case K::kString: {
      std::string text;
      while (Peek().kind == K::kString) text += Next().text;  // 'a' 'b' is 'ab'
      return Literal(Value::String(text, kTemplate));
    }
    case K::kInteger: {
      int64_t value = 0;
      const std::string& text = Peek().text;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc() || end != text.data() + text.size()) {
        return Error(fmt::format("the number {} does not fit in 64 bits", Quoted(text)));
      }
      Next();
      return Literal(Value::Int(value));
    }
    case K::kFloat:
      return Literal(Value::Float(std::strtod(Next().text.c_str(), nullptr)));
    default:
      break;
  }
  if (TakeOp("(")) return ParseBrackets();
  if (TakeOp("[")) return ParseList();
  if (TakeOp("{")) return ParseDict();
  return Error(fmt::format("wanted a value, found {}", Found()));
}

Result<ExprPtr> ExprParser::ParseName() {
  const std::string& name = Peek().text;
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    return Literal(Value::Bool(Next().text.front() == 't' || lexemes_[at_ - 1].text == "True"));
  }
  if (name == "none" || name == "None") {
    Next();
    return Literal(Value::None());
  }
  ExprPtr expr = NewExpr(Expr::Kind::kName);
  expr->name = Next().text;
  return expr;
}

Result<ExprPtr> ExprParser::ParseBrackets() {
  if (TakeOp(")")) return NewExpr(Expr::Kind::kList);
  HF_ASSIGN_OR_RETURN(ExprPtr expr, ParseTuple());
  HF_RETURN_IF_ERROR(ExpectOp(")"));
  return expr;
}

Result<ExprPtr> ExprParser::ParseList() {
  ExprPtr list = NewExpr(Expr::Kind::kList);
  while (!TakeOp("]")) {
    if (!list->children.empty()) {
      HF_RETURN_IF_ERROR(ExpectOp(","));
      if (TakeOp("]")) break;
    }
    HF_ASSIGN_OR_RETURN(ExprPtr item, ParseExpr());
    HF_RETURN_IF_ERROR(Adopt(list.get(), std::move(item)));
  }
  return list;
}

Result<ExprPtr> ExprParser::ParseDict() {
  ExprPtr dict = NewExpr(Expr::Kind::kDict);
  while (!TakeOp("}")) {
    if (!dict->children.empty()) {
      HF_RETURN_IF_ERROR(ExpectOp(","));
      if (TakeOp("}")) break;
    }
    HF_ASSIGN_OR_RETURN(ExprPtr key, ParseExpr());
    HF_RETURN_IF_ERROR(ExpectOp(":"));
    HF_ASSIGN_OR_RETURN(ExprPtr value, ParseExpr());
    HF_RETURN_IF_ERROR(Adopt(dict.get(), std::move(key)));
    HF_RETURN_IF_ERROR(Adopt(dict.get(), std::move(value)));
  }
  return dict;
}

}  // namespace holdfast::jinja

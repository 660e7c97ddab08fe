#include "token/jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <initializer_list>

#include "token/jinja/lexer.h"
#include "weights/gguf_value.h"

namespace holdfast::jinja {
namespace {

class Parser {
 public:
  explicit Parser(std::vector<Lexeme> lexemes) : lexemes_(std::move(lexemes)) {}

  Result<Body> Run() {
    HF_ASSIGN_OR_RETURN(Body body, ParseBody({}));
    return body;
  }

 private:
  using K = Lexeme::Kind;
  using Words = std::initializer_list<std::string_view>;

  const Lexeme& Peek(size_t offset = 0) const {
    return lexemes_[std::min(at_ + offset, lexemes_.size() - 1)];
  }
  Lexeme Next() {
    Lexeme lexeme = Peek();
    if (at_ + 1 < lexemes_.size()) ++at_;
    return lexeme;
  }
  bool IsOp(std::string_view op) const { return Peek().kind == K::kOperator && Peek().text == op; }
  bool IsName(std::string_view name) const {
    return Peek().kind == K::kName && Peek().text == name;
  }
  bool TakeOp(std::string_view op) {
    if (!IsOp(op)) return false;
    ++at_;
    return true;
  }
  bool TakeName(std::string_view name) {
    if (!IsName(name)) return false;
    ++at_;
    return true;
  }
  Status Error(std::string_view what) const {
    return InvalidArgumentError(fmt::format("line {}: {}", Peek().line, what));
  }
  std::string Found() const {
    switch (Peek().kind) {
      case K::kEnd:
        return "the end of the template";
      case K::kPrintEnd:
      case K::kBlockEnd:
        return "the end of the tag";
      case K::kText:
      case K::kPrintBegin:
      case K::kBlockBegin:
        return "text";
      default:
        return Quoted(Peek().text);
    }
  }
  Status ExpectOp(std::string_view op) {
    if (TakeOp(op)) return OkStatus();
    return Error(fmt::format("wanted '{}', found {}", op, Found()));
  }
  Status ExpectName(std::string_view name) {
    if (TakeName(name)) return OkStatus();
    return Error(fmt::format("wanted '{}', found {}", name, Found()));
  }
  Status ExpectKind(K kind, std::string_view what) {
    if (Peek().kind != kind) return Error(fmt::format("wanted {}, found {}", what, Found()));
    if (kind != K::kEnd) ++at_;
    return OkStatus();
  }
  Result<std::string> Identifier() {
    if (Peek().kind != K::kName) return Error(fmt::format("wanted a name, found {}", Found()));
    return Next().text;
  }

  // --- statements ---

  // Everything up to a block tag that starts with one of `ends` (not taken), or the template's end.
  Result<Body> ParseBody(Words ends) {
    Body body;
    while (true) {
      const Lexeme& lexeme = Peek();
      if (lexeme.kind == K::kEnd) {
        if (ends.size() == 0) return body;
        return Error(
            fmt::format("the template ends inside a block; wanted {{% {} %}}", *(ends.end() - 1)));
      }
      if (lexeme.kind == K::kText) {
        auto node = NewNode(Node::Kind::kText);
        node->text = Value::String(Next().text, kTemplate);
        body.push_back(std::move(node));
      } else if (lexeme.kind == K::kPrintBegin) {
        HF_ASSIGN_OR_RETURN(NodePtr node, ParsePrint());
        body.push_back(std::move(node));
      } else {
        const std::string_view word = Peek(1).text;
        if (Peek(1).kind == K::kName && std::find(ends.begin(), ends.end(), word) != ends.end()) {
          return body;
        }
        HF_RETURN_IF_ERROR(ParseStatement(&body));
      }
    }
  }

  NodePtr NewNode(Node::Kind kind) const {
    auto node = std::make_unique<Node>();
    node->kind = kind;
    node->line = Peek().line;
    return node;
  }

  Result<NodePtr> ParsePrint() {
    auto node = NewNode(Node::Kind::kPrint);
    Next();
    HF_ASSIGN_OR_RETURN(node->expr, ParseTuple());
    HF_RETURN_IF_ERROR(ExpectKind(K::kPrintEnd, "'}}'"));
    return node;
  }

  Status EndTag() { return ExpectKind(K::kBlockEnd, "'%}'"); }

  // "{% word %}"
  Status CloseBlock(std::string_view word) {
    HF_RETURN_IF_ERROR(ExpectKind(K::kBlockBegin, "'{%'"));
    HF_RETURN_IF_ERROR(ExpectName(word));
    return EndTag();
  }

  // A body and the tag that closes it.
  Result<Body> ClosedBody(std::string_view end) {
    HF_RETURN_IF_ERROR(EndTag());
    HF_ASSIGN_OR_RETURN(Body body, ParseBody({end}));
    HF_RETURN_IF_ERROR(CloseBlock(end));
    return body;
  }

  Status ParseStatement(Body* body) {
    if (++block_depth_ > kMaxBlockDepth) {
      return Error(fmt::format("blocks nested deeper than {}", kMaxBlockDepth));
    }
    const Status status = ParseStatementInside(body);
    --block_depth_;
    return status;
  }

  Status ParseStatementInside(Body* body) {
    Next();
    HF_ASSIGN_OR_RETURN(const std::string word, Identifier());
    if (word == "generation") {  // transformers' marks for training; they print their body
      HF_ASSIGN_OR_RETURN(Body inner, ClosedBody("endgeneration"));
      std::move(inner.begin(), inner.end(), std::back_inserter(*body));
      return OkStatus();
    }
    HF_ASSIGN_OR_RETURN(NodePtr node, ParseNode(word));
    body->push_back(std::move(node));
    return OkStatus();
  }

  Result<NodePtr> ParseNode(std::string_view word) {
    if (word == "if") return ParseIf();
    if (word == "for") return ParseFor();
    if (word == "set") return ParseSet();
    if (word == "macro") return ParseMacro();
    if (word == "call") return ParseCallBlock();
    if (word == "filter") return ParseFilterBlock();
    if (word == "with") return ParseWith();
    if (word == "break" || word == "continue") {
      if (loop_depth_ == 0) return Error(fmt::format("'{}' outside of a loop", word));
      auto node = NewNode(word == "break" ? Node::Kind::kBreak : Node::Kind::kContinue);
      HF_RETURN_IF_ERROR(EndTag());
      return node;
    }
    return Error(fmt::format("unknown or unsupported tag {}", Quoted(word)));
  }

  Result<NodePtr> ParseIf() {
    auto node = NewNode(Node::Kind::kIf);
    while (true) {
      Node::Branch branch;
      HF_ASSIGN_OR_RETURN(branch.condition, ParseTuple());
      HF_RETURN_IF_ERROR(EndTag());
      HF_ASSIGN_OR_RETURN(branch.body, ParseBody({"elif", "else", "endif"}));
      node->branches.push_back(std::move(branch));
      Next();
      if (TakeName("elif")) continue;
      if (TakeName("else")) {
        HF_RETURN_IF_ERROR(EndTag());
        Node::Branch otherwise;
        HF_ASSIGN_OR_RETURN(otherwise.body, ParseBody({"endif"}));
        node->branches.push_back(std::move(otherwise));
        Next();
      }
      HF_RETURN_IF_ERROR(ExpectName("endif"));
      HF_RETURN_IF_ERROR(EndTag());
      return node;
    }
  }

  Result<NodePtr> ParseFor() {
    auto node = NewNode(Node::Kind::kFor);
    HF_ASSIGN_OR_RETURN(node->target, ParseTargets(/*attributes=*/false));
    HF_RETURN_IF_ERROR(ExpectName("in"));
    // Without conditional expression: "if" begins the loop's filter.
    HF_ASSIGN_OR_RETURN(node->expr, ParseTuple(/*with_conditional=*/false));
    if (TakeName("if")) {
      HF_ASSIGN_OR_RETURN(node->filter, ParseExpr());
    }
    if (IsName("recursive")) return Error("recursive loops are not supported");
    HF_RETURN_IF_ERROR(EndTag());
    ++loop_depth_;
    HF_ASSIGN_OR_RETURN(node->body, ParseBody({"else", "endfor"}));
    --loop_depth_;
    Next();
    if (TakeName("else")) {
      HF_RETURN_IF_ERROR(EndTag());
      HF_ASSIGN_OR_RETURN(node->else_body, ParseBody({"endfor"}));
      Next();
    }
    HF_RETURN_IF_ERROR(ExpectName("endfor"));
    HF_RETURN_IF_ERROR(EndTag());
    return node;
  }

  Result<Target> ParseTarget(bool attributes) {
    Target target;
    if (TakeOp("(")) {
      HF_ASSIGN_OR_RETURN(target, ParseTargets(attributes));
      HF_RETURN_IF_ERROR(ExpectOp(")"));
      return target;
    }
    HF_ASSIGN_OR_RETURN(target.name, Identifier());
    if (attributes && TakeOp(".")) {
      HF_ASSIGN_OR_RETURN(target.attribute, Identifier());
    }
    return target;
  }

  Result<Target> ParseTargets(bool attributes) {
    if (++expr_depth_ > kMaxExprDepth) return Error("assignment nested too deeply");
    HF_ASSIGN_OR_RETURN(Target first, ParseTarget(attributes));
    --expr_depth_;
    if (!IsOp(",")) return first;
    Target all;
    all.parts.push_back(std::move(first));
    while (TakeOp(",")) {
      if (Peek().kind != K::kName && !IsOp("(")) break;  // a trailing comma
      HF_ASSIGN_OR_RETURN(Target next, ParseTarget(attributes));
      all.parts.push_back(std::move(next));
    }
    return all;
  }

  Result<NodePtr> ParseSet() {
    auto node = NewNode(Node::Kind::kSet);
    HF_ASSIGN_OR_RETURN(node->target, ParseTargets(/*attributes=*/true));
    if (TakeOp("=")) {
      HF_ASSIGN_OR_RETURN(node->expr, ParseTuple());
      HF_RETURN_IF_ERROR(EndTag());
      return node;
    }
    node->kind = Node::Kind::kSetBlock;
    HF_ASSIGN_OR_RETURN(node->expr, ParseFilters(NewExpr(Expr::Kind::kCaptured)));
    HF_ASSIGN_OR_RETURN(node->body, ClosedBody("endset"));
    return node;
  }

  Result<std::vector<Macro::Parameter>> ParseParameters() {
    std::vector<Macro::Parameter> parameters;
    HF_RETURN_IF_ERROR(ExpectOp("("));
    while (!TakeOp(")")) {
      if (!parameters.empty()) {
        HF_RETURN_IF_ERROR(ExpectOp(","));
        if (TakeOp(")")) break;
      }
      Macro::Parameter parameter;
      HF_ASSIGN_OR_RETURN(parameter.name, Identifier());
      if (TakeOp("=")) {
        HF_ASSIGN_OR_RETURN(parameter.default_value, ParseExpr());
      }
      parameters.push_back(std::move(parameter));
    }
    return parameters;
  }

  // A macro's body; break and continue do not reach through it.
  Result<Body> MacroBody(std::string_view end) {
    const int loops = std::exchange(loop_depth_, 0);
    HF_ASSIGN_OR_RETURN(Body body, ClosedBody(end));
    loop_depth_ = loops;
    return body;
  }

  Result<NodePtr> ParseMacro() {
    auto node = NewNode(Node::Kind::kMacro);
    auto macro = std::make_shared<Macro>();
    HF_ASSIGN_OR_RETURN(macro->name, Identifier());
    HF_ASSIGN_OR_RETURN(macro->parameters, ParseParameters());
    HF_ASSIGN_OR_RETURN(macro->body, MacroBody("endmacro"));
    node->macro = std::move(macro);
    return node;
  }

  Result<NodePtr> ParseCallBlock() {
    auto node = NewNode(Node::Kind::kCallBlock);
    auto macro = std::make_shared<Macro>();
    macro->name = "caller";
    if (IsOp("(")) {
      HF_ASSIGN_OR_RETURN(macro->parameters, ParseParameters());
    }
    HF_ASSIGN_OR_RETURN(node->expr, ParseExpr());
    if (node->expr->kind != Expr::Kind::kCall) return Error("'call' wants a call of a macro");
    HF_ASSIGN_OR_RETURN(macro->body, MacroBody("endcall"));
    node->macro = std::move(macro);
    return node;
  }

  Result<NodePtr> ParseFilterBlock() {
    auto node = NewNode(Node::Kind::kFilterBlock);
    HF_ASSIGN_OR_RETURN(ExprPtr first, ParseFilter(NewExpr(Expr::Kind::kCaptured)));
    HF_ASSIGN_OR_RETURN(node->expr, ParseFilters(std::move(first)));
    HF_ASSIGN_OR_RETURN(node->body, ClosedBody("endfilter"));
    return node;
  }

  Result<NodePtr> ParseWith() {
    auto node = NewNode(Node::Kind::kWith);
    while (Peek().kind != K::kBlockEnd) {
      if (!node->assignments.empty()) HF_RETURN_IF_ERROR(ExpectOp(","));
      HF_ASSIGN_OR_RETURN(std::string name, Identifier());
      HF_RETURN_IF_ERROR(ExpectOp("="));
      HF_ASSIGN_OR_RETURN(ExprPtr value, ParseExpr());
      node->assignments.emplace_back(std::move(name), std::move(value));
    }
    HF_ASSIGN_OR_RETURN(node->body, ClosedBody("endwith"));
    return node;
  }

  // --- expressions, loosest binding first ---

  ExprPtr NewExpr(Expr::Kind kind) const {
    auto expr = std::make_unique<Expr>();
    expr->kind = kind;
    expr->line = Peek().line;
    return expr;
  }

  // Adds a child (null allowed) and keeps the tree's depth in bounds: long chains of operators nest
  // without any recursion of the parser.
  Status Adopt(Expr* parent, ExprPtr child) {
    if (child != nullptr) HF_RETURN_IF_ERROR(Deepen(parent, child->depth));
    parent->children.push_back(std::move(child));
    return OkStatus();
  }
  Status Deepen(Expr* parent, int child_depth) {
    parent->depth = std::max(parent->depth, child_depth + 1);
    if (parent->depth <= kMaxExprDepth) return OkStatus();
    return Error(fmt::format("an expression nested deeper than {}", kMaxExprDepth));
  }

  Result<ExprPtr> Parent(Expr::Kind kind, std::string name, ExprPtr a, ExprPtr b = nullptr) {
    ExprPtr expr = NewExpr(kind);
    expr->name = std::move(name);
    expr->line = a->line;
    HF_RETURN_IF_ERROR(Adopt(expr.get(), std::move(a)));
    if (b != nullptr) HF_RETURN_IF_ERROR(Adopt(expr.get(), std::move(b)));
    return expr;
  }

  // An expression, or several with commas between them, which make a list.
  Result<ExprPtr> ParseTuple(bool with_conditional = true) {
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

  Result<ExprPtr> ParseExpr(bool with_conditional = true) {
    // Each level of brackets costs a dozen frames.
    if (++expr_depth_ > kMaxExprDepth) {
      return Error(fmt::format("an expression nested deeper than {}", kMaxExprDepth));
    }
    Result<ExprPtr> expr = with_conditional ? ParseConditional() : ParseOr();
    --expr_depth_;
    return expr;
  }

  Result<ExprPtr> ParseConditional() {
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

  Result<ExprPtr> ParseOr() {
    HF_ASSIGN_OR_RETURN(ExprPtr left, ParseAnd());
    while (TakeName("or")) {
      HF_ASSIGN_OR_RETURN(ExprPtr right, ParseAnd());
      HF_ASSIGN_OR_RETURN(left, Parent(Expr::Kind::kOr, "or", std::move(left), std::move(right)));
    }
    return left;
  }

  Result<ExprPtr> ParseAnd() {
    HF_ASSIGN_OR_RETURN(ExprPtr left, ParseNot());
    while (TakeName("and")) {
      HF_ASSIGN_OR_RETURN(ExprPtr right, ParseNot());
      HF_ASSIGN_OR_RETURN(left, Parent(Expr::Kind::kAnd, "and", std::move(left), std::move(right)));
    }
    return left;
  }

  Result<ExprPtr> ParseNot() {
    if (!IsName("not")) return ParseCompare();
    if (++expr_depth_ > kMaxExprDepth) return Error("'not' nested too deeply");
    Next();
    HF_ASSIGN_OR_RETURN(ExprPtr inner, ParseNot());
    --expr_depth_;
    return Parent(Expr::Kind::kNot, "not", std::move(inner));
  }

  // The comparison operator that comes next; empty: none. Takes it.
  std::string TakeComparison() {
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

  Result<ExprPtr> ParseCompare() {
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

  using Level = Result<ExprPtr> (Parser::*)();
  Result<ExprPtr> ParseBinary(Words ops, Level next) {
    HF_ASSIGN_OR_RETURN(ExprPtr left, (this->*next)());
    while (true) {
      const auto op = std::find_if(ops.begin(), ops.end(),
                                   [this](std::string_view text) { return IsOp(text); });
      if (op == ops.end()) return left;
      Next();
      HF_ASSIGN_OR_RETURN(ExprPtr right, (this->*next)());
      HF_ASSIGN_OR_RETURN(
          left, Parent(Expr::Kind::kBinary, std::string(*op), std::move(left), std::move(right)));
    }
  }

  Result<ExprPtr> ParseSum() { return ParseBinary({"+", "-"}, &Parser::ParseConcat); }
  Result<ExprPtr> ParseConcat() { return ParseBinary({"~"}, &Parser::ParseProduct); }
  Result<ExprPtr> ParseProduct() { return ParseBinary({"*", "/", "//", "%"}, &Parser::ParsePower); }
  Result<ExprPtr> ParsePower() { return ParseBinary({"**"}, &Parser::ParseUnaryAndFilters); }

  Result<ExprPtr> ParseUnaryAndFilters() {
    HF_ASSIGN_OR_RETURN(ExprPtr expr, ParseUnary());
    return ParseFiltersAndTests(std::move(expr));
  }

  Result<ExprPtr> ParseUnary() {
    const bool minus = IsOp("-");
    if (!minus && !IsOp("+")) return ParsePrimaryAndPostfix();
    if (++expr_depth_ > kMaxExprDepth) return Error("signs nested too deeply");
    Next();
    HF_ASSIGN_OR_RETURN(ExprPtr inner, ParseUnary());
    --expr_depth_;
    return Parent(minus ? Expr::Kind::kNegate : Expr::Kind::kPlus, "", std::move(inner));
  }

  Result<ExprPtr> ParsePrimaryAndPostfix() {
    HF_ASSIGN_OR_RETURN(ExprPtr expr, ParsePrimary());
    return ParsePostfix(std::move(expr));
  }

  Result<ExprPtr> ParsePostfix(ExprPtr expr) {
    while (true) {
      if (TakeOp(".")) {
        if (Peek().kind == K::kInteger) {  // foo.0 is foo[0]
          HF_ASSIGN_OR_RETURN(ExprPtr index, ParsePrimary());
          HF_ASSIGN_OR_RETURN(expr,
                              Parent(Expr::Kind::kItem, "", std::move(expr), std::move(index)));
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

  // Behind the '['.
  Result<ExprPtr> ParseSubscript(ExprPtr object) {
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

  Status ParseArguments(Expr* call) {
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

  Result<ExprPtr> ParseFiltersAndTests(ExprPtr expr) {
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

  Result<ExprPtr> ParseFilters(ExprPtr expr) {
    while (TakeOp("|")) {
      HF_ASSIGN_OR_RETURN(expr, ParseFilter(std::move(expr)));
    }
    return expr;
  }

  Result<ExprPtr> ParseFilter(ExprPtr expr) {
    HF_ASSIGN_OR_RETURN(std::string name, Identifier());
    HF_ASSIGN_OR_RETURN(ExprPtr filter,
                        Parent(Expr::Kind::kFilter, std::move(name), std::move(expr)));
    if (IsOp("(")) HF_RETURN_IF_ERROR(ParseArguments(filter.get()));
    return filter;
  }

  // A test's one argument may stand without brackets: "x is divisibleby 3".
  bool AtBareArgument() const {
    if (Peek().kind == K::kName) {
      for (const std::string_view word : {"else", "or", "and", "if", "is", "not", "in"}) {
        if (Peek().text == word) return false;
      }
      return true;
    }
    return Peek().kind == K::kString || Peek().kind == K::kInteger || Peek().kind == K::kFloat ||
           IsOp("[") || IsOp("{");
  }

  Result<ExprPtr> ParseTest(ExprPtr expr) {
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

  ExprPtr Literal(Value value) const {
    ExprPtr expr = NewExpr(Expr::Kind::kLiteral);
    expr->literal = std::move(value);
    return expr;
  }

  Result<ExprPtr> ParsePrimary() {
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

  Result<ExprPtr> ParseName() {
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

  Result<ExprPtr> ParseBrackets() {
    if (TakeOp(")")) return NewExpr(Expr::Kind::kList);
    HF_ASSIGN_OR_RETURN(ExprPtr expr, ParseTuple());
    HF_RETURN_IF_ERROR(ExpectOp(")"));
    return expr;
  }

  Result<ExprPtr> ParseList() {
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

  Result<ExprPtr> ParseDict() {
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

  std::vector<Lexeme> lexemes_;
  size_t at_ = 0;
  int expr_depth_ = 0;
  int block_depth_ = 0;
  int loop_depth_ = 0;
};

}  // namespace

Result<Body> Parse(std::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    return InvalidArgumentError(fmt::format("the template has {} bytes, the limit is {}",
                                            source.size(), kMaxTemplateBytes));
  }
  HF_ASSIGN_OR_RETURN(std::vector<Lexeme> lexemes, Lex(source));
  return Parser(std::move(lexemes)).Run();
}

}  // namespace holdfast::jinja

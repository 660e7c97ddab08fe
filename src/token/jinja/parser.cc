#include "token/jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "token/jinja/expr_parser.h"
#include "token/jinja/lexer.h"
#include "weights/gguf_value.h"

namespace holdfast::jinja {
namespace {

class Parser : public ExprParser {
 public:
  using ExprParser::ExprParser;

  Result<Body> Run() {
    HF_ASSIGN_OR_RETURN(Body body, ParseBody({}));
    return body;
  }

 private:
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

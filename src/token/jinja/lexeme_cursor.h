#ifndef HOLDFAST_TOKEN_JINJA_LEXEME_CURSOR_H_
#define HOLDFAST_TOKEN_JINJA_LEXEME_CURSOR_H_

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "token/jinja/lexer.h"
#include "weights/gguf_value.h"

namespace holdfast::jinja {

// A place in a list of lexemes that ends with kEnd, and what parsers ask there. Take functions move
// on when they find what they are asked for; Expect functions make it an error when they do not.
class LexemeCursor {
 public:
  explicit LexemeCursor(std::vector<Lexeme> lexemes) : lexemes_(std::move(lexemes)) {}

 protected:
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

  std::vector<Lexeme> lexemes_;
  size_t at_ = 0;
};

}  // namespace holdfast::jinja

#endif  // HOLDFAST_TOKEN_JINJA_LEXEME_CURSOR_H_

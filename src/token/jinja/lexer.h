#ifndef HOLDFAST_TOKEN_JINJA_LEXER_H_
#define HOLDFAST_TOKEN_JINJA_LEXER_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace holdfast::jinja {

struct Lexeme {
  enum class Kind {
    kText,        // literal output
    kPrintBegin,  // {{
    kPrintEnd,
    kBlockBegin,  // {%
    kBlockEnd,
    kName,
    kString,  // text: with escapes resolved
    kInteger,
    kFloat,
    kOperator,
    kEnd,  // of the template
  };
  Kind kind = Kind::kEnd;
  std::string text;
  int line = 0;
};

// Cuts a template into lexemes, the last of which is kEnd. Whitespace control is resolved here: the
// explicit - and + of tags, and trim_blocks and lstrip_blocks, which transformers switches on.
// kInvalidArgument naming the line for tags and strings that do not end and characters that do not
// belong into an expression.
Result<std::vector<Lexeme>> Lex(std::string_view source);

}  // namespace holdfast::jinja

#endif  // HOLDFAST_TOKEN_JINJA_LEXER_H_

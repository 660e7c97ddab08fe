#ifndef HOLDFAST_TOKEN_JINJA_PARSER_H_
#define HOLDFAST_TOKEN_JINJA_PARSER_H_

#include <string_view>

#include "base/status.h"
#include "token/jinja/ast.h"

namespace holdfast::jinja {

// How deep expressions and blocks may nest; also bounds every later recursion over the tree.
inline constexpr int kMaxExprDepth = 100;
inline constexpr int kMaxBlockDepth = 60;
inline constexpr size_t kMaxTemplateBytes = size_t{4} << 20;

// Parses a template. kInvalidArgument naming the line for what is no Jinja, or Jinja that chat
// templates do not use (include, import, extends, block).
Result<Body> Parse(std::string_view source);

}  // namespace holdfast::jinja

#endif  // HOLDFAST_TOKEN_JINJA_PARSER_H_

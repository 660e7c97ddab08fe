#ifndef HOLDFAST_TOKEN_JINJA_OUTPUT_H_
#define HOLDFAST_TOKEN_JINJA_OUTPUT_H_

#include <optional>

#include "base/status.h"
#include "token/jinja/interpreter.h"
#include "token/jinja/value.h"

namespace holdfast::jinja {

// Python's repr: what a list or mapping looks like when it is printed.
Status WriteRepr(Interpreter& interpreter, const Value& value, TaggedString* out);

// json.dumps as transformers' tojson calls it.
struct JsonStyle {
  std::optional<int64_t> indent;  // spaces per level, one line per element; not set: one line
  TaggedString item_separator = TaggedString(", ", kTemplate);
  TaggedString key_separator = TaggedString(": ", kTemplate);
  bool ensure_ascii = false;
  bool sort_keys = false;
};
// kInvalidArgument for undefined values, namespaces and functions.
Status WriteJson(Interpreter& interpreter, const Value& value, const JsonStyle& style,
                 TaggedString* out);

}  // namespace holdfast::jinja

#endif  // HOLDFAST_TOKEN_JINJA_OUTPUT_H_

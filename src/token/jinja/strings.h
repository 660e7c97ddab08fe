#ifndef HOLDFAST_TOKEN_JINJA_STRINGS_H_
#define HOLDFAST_TOKEN_JINJA_STRINGS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "token/jinja/interpreter.h"
#include "token/jinja/tagged_string.h"

namespace holdfast::jinja {

// Python's string operations on tagged strings. Positions and lengths are characters where Python
// counts characters; results keep the source of every byte.

// Python's str.isspace, one character.
bool IsSpace(char32_t c);

enum class Side { kLeft, kRight, kBoth };
// Without leading and trailing characters of `chars` (nothing given: white space).
TaggedString Strip(const TaggedString& text, Side side, std::optional<std::string_view> chars);

// Each character through `map`, which gets the code point and whether it begins a word.
TaggedString MapCharacters(const TaggedString& text,
                           const std::function<char32_t(char32_t, bool)>& map);
TaggedString Upper(const TaggedString& text);
TaggedString Lower(const TaggedString& text);
TaggedString Title(const TaggedString& text);
TaggedString Capitalize(const TaggedString& text);

// Appends `text` with characters replaced by what `escape` returns for them (empty: they stay). A
// replacement has the source of its character.
void AppendEscaped(const TaggedString& text, const std::function<std::string(char32_t)>& escape,
                   TaggedString* out);

// Parts between `separator` (nothing given: runs of white space), at most `limit` cuts from the
// left or right; a negative limit: all.
Result<List> SplitText(Interpreter& interpreter, const TaggedString& text,
                       std::optional<std::string_view> separator, int64_t limit, bool from_right);
Result<List> SplitLines(Interpreter& interpreter, const TaggedString& text, bool keep_ends);

// The first `limit` (negative: all) occurrences of `from` replaced.
Result<Value> Replace(Interpreter& interpreter, const TaggedString& text, const TaggedString& from,
                      const TaggedString& to, int64_t limit);

// `times` copies one after another.
Result<Value> Repeat(Interpreter& interpreter, const TaggedString& text, int64_t times);

Result<Value> Join(Interpreter& interpreter, const List& items, const TaggedString& separator);

// Each line but the first (and empty ones, unless asked) moved in by `indent`.
Result<Value> Indent(Interpreter& interpreter, const TaggedString& text, const TaggedString& indent,
                     bool first, bool blank);

// Python's format % values: %s %r %d %i %f %x %%, with width, precision, 0 and -.
Result<Value> FormatPercent(Interpreter& interpreter, const TaggedString& format,
                            const List& values);

// Accounts for looking for `n_needle` bytes in `n_text` bytes, which may cost their product.
Status ChargeSearch(Interpreter& interpreter, size_t n_text, size_t n_needle);

// Byte positions at which the characters of valid UTF-8 begin, and the size at the end.
std::vector<size_t> CharacterOffsets(std::string_view text);

}  // namespace holdfast::jinja

#endif  // HOLDFAST_TOKEN_JINJA_STRINGS_H_

#ifndef HOLDFAST_TOKEN_UTF8_H_
#define HOLDFAST_TOKEN_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast {

// What stands at the front of a byte string.
struct Utf8Char {
  enum class Kind {
    kValid,
    kInvalid,     // these bytes can never be part of a character
    kIncomplete,  // the text ends inside what may become a character
  };
  Kind kind = Kind::kInvalid;
  char32_t code_point = 0xFFFD;  // U+FFFD unless valid
  size_t n_bytes = 1;            // invalid: the maximal part of a character that was begun
};

// Reads the character at the front of `text`, which is not empty. Surrogates, overlong forms and
// values above U+10FFFF are invalid, as Unicode's table 3-7 says.
Utf8Char ReadUtf8(std::string_view text);

void AppendUtf8(char32_t code_point, std::string* out);

bool IsValidUtf8(std::string_view text);

// `text` with each maximal invalid (or at the end incomplete) sequence replaced by U+FFFD.
std::string RepairUtf8(std::string_view text);

// Moves the complete characters at the front of `*pending` to the result, repaired; an incomplete
// one at the end stays.
std::string TakeCompleteUtf8(std::string* pending);

// Number of characters of valid UTF-8.
int64_t CountUtf8(std::string_view text);

}  // namespace holdfast

#endif  // HOLDFAST_TOKEN_UTF8_H_

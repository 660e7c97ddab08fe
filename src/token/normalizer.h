#ifndef HOLDFAST_TOKEN_NORMALIZER_H_
#define HOLDFAST_TOKEN_NORMALIZER_H_

#include <string>
#include <string_view>

namespace holdfast {

// Unicode NFC of valid UTF-8. Time O(n log n) also for texts made of combining marks only.
std::string NormalizeNfc(std::string_view text);

// True when NormalizeNfc would return `text` itself for a cheap reason: nothing at or above U+0300,
// the first character that composes, decomposes into another order or has a combining class.
bool IsTriviallyNfc(std::string_view text);

}  // namespace holdfast

#endif  // HOLDFAST_TOKEN_NORMALIZER_H_

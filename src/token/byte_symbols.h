#ifndef HOLDFAST_TOKEN_BYTE_SYMBOLS_H_
#define HOLDFAST_TOKEN_BYTE_SYMBOLS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast {

// The byte-to-unicode map of byte-level BPE: printable bytes stand for themselves, the other 68 for
// U+0100 onwards, so that vocabulary texts have no spaces and no control characters.

// The one-character text that stands for `byte` in vocabularies.
std::string ByteSymbol(uint8_t byte);

// The bytes that a vocabulary text stands for; nothing when a character of it is no byte symbol.
std::optional<std::string> BytesOfSymbols(std::string_view text);

}  // namespace holdfast

#endif  // HOLDFAST_TOKEN_BYTE_SYMBOLS_H_

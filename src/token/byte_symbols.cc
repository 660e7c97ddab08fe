#include "token/byte_symbols.h"

#include <array>

#include "token/utf8.h"

namespace holdfast {
namespace {

constexpr char32_t kEnd = 0x100 + 68;  // one past the last symbol

bool StandsForItself(uint32_t byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

std::array<char32_t, 256> MakeSymbols() {
  std::array<char32_t, 256> symbols{};
  char32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    symbols[byte] = StandsForItself(byte) ? byte : next++;
  }
  return symbols;
}

const std::array<char32_t, 256>& Symbols() {
  static const std::array<char32_t, 256> symbols = MakeSymbols();
  return symbols;
}

std::array<int, kEnd> MakeBytes() {
  std::array<int, kEnd> bytes{};
  bytes.fill(-1);
  for (int byte = 0; byte < 256; ++byte) bytes[Symbols()[static_cast<size_t>(byte)]] = byte;
  return bytes;
}

}  // namespace

std::string ByteSymbol(uint8_t byte) {
  std::string out;
  AppendUtf8(Symbols()[byte], &out);
  return out;
}

std::optional<std::string> BytesOfSymbols(std::string_view text) {
  static const std::array<int, kEnd> bytes = MakeBytes();
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Char c = ReadUtf8(text);
    if (c.kind != Utf8Char::Kind::kValid || c.code_point >= kEnd || bytes[c.code_point] < 0) {
      return std::nullopt;
    }
    out.push_back(static_cast<char>(bytes[c.code_point]));
    text.remove_prefix(c.n_bytes);
  }
  return out;
}

}  // namespace holdfast

#include "token/utf8.h"

namespace holdfast {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// How many bytes a character with this lead byte has and what its second byte may be.
struct Lead {
  int n_bytes;
  uint8_t low, high;
};

Lead LeadOf(uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Char ReadUtf8(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (byte(0) < 0x80) return {Utf8Char::Kind::kValid, byte(0), 1};
  const Lead lead = LeadOf(byte(0));
  if (lead.n_bytes == 0) return {};
  char32_t code_point = byte(0) & (0xFF >> (lead.n_bytes + 1));
  for (int i = 1; i < lead.n_bytes; ++i) {
    const size_t n = static_cast<size_t>(i);
    if (n >= text.size()) return {Utf8Char::Kind::kIncomplete, 0xFFFD, n};
    const uint8_t low = i == 1 ? lead.low : 0x80;
    const uint8_t high = i == 1 ? lead.high : 0xBF;
    if (byte(n) < low || byte(n) > high) return {Utf8Char::Kind::kInvalid, 0xFFFD, n};
    code_point = code_point << 6 | (byte(n) & 0x3F);
  }
  return {Utf8Char::Kind::kValid, code_point, static_cast<size_t>(lead.n_bytes)};
}

void AppendUtf8(char32_t c, std::string* out) {
  const auto put = [out](char32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Char c = ReadUtf8(text);
    if (c.kind != Utf8Char::Kind::kValid) return false;
    text.remove_prefix(c.n_bytes);
  }
  return true;
}

std::string RepairUtf8(std::string_view text) {
  std::string pending(text);
  std::string out = TakeCompleteUtf8(&pending);
  if (!pending.empty()) out += kReplacement;
  return out;
}

std::string TakeCompleteUtf8(std::string* pending) {
  std::string out;
  out.reserve(pending->size());
  std::string_view rest = *pending;
  while (!rest.empty()) {
    const Utf8Char c = ReadUtf8(rest);
    if (c.kind == Utf8Char::Kind::kIncomplete) break;
    out += c.kind == Utf8Char::Kind::kValid ? rest.substr(0, c.n_bytes) : kReplacement;
    rest.remove_prefix(c.n_bytes);
  }
  pending->erase(0, pending->size() - rest.size());
  return out;
}

int64_t CountUtf8(std::string_view text) {
  int64_t n = 0;
  for (const char c : text) n += (static_cast<uint8_t>(c) & 0xC0) != 0x80;
  return n;
}

}  // namespace holdfast

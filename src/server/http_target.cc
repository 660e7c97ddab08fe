#include "server/http_target.h"

#include <fmt/format.h>

namespace holdfast {
namespace {

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string PercentDecode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      const int high = HexValue(text[i + 1]), low = HexValue(text[i + 2]);
      if (high >= 0 && low >= 0) {
        out += static_cast<char>(high * 16 + low);
        i += 2;
        continue;
      }
    }
    out += text[i];
  }
  return out;
}

}  // namespace

void SplitTarget(std::string_view target, HttpRequest* request) {
  if (target.starts_with("http://") || target.starts_with("https://")) {
    const size_t slash = target.find('/', target.find("://") + 3);
    target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
  }
  const size_t question = target.find('?');
  request->path = PercentDecode(target.substr(0, question));
  if (question != std::string_view::npos) request->query = target.substr(question + 1);
}

std::string LogText(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 200)) {
    if (c > ' ' && c < 127) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return text.size() > 200 ? out + "..." : out;
}

}  // namespace holdfast

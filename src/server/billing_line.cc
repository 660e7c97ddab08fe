#include "server/billing_line.h"

#include <string_view>

namespace holdfast {
namespace {

constexpr std::string_view kName = "x-anthropic-billing-header:";
constexpr std::string_view kPinned = "x-anthropic-billing-header: pinned;";
constexpr size_t kMaxLine = 512;

bool IsNameLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

// The length of " name=value;" at the front of `text`, 0 if there is none.
size_t PairLength(std::string_view text) {
  size_t at = text.starts_with(' ') ? 1 : 0;
  const size_t name = at;
  while (at < text.size() && IsNameLetter(text[at])) ++at;
  if (at == name || at == text.size() || text[at] != '=') return 0;
  ++at;
  while (at < text.size() && text[at] > ' ' && text[at] < '\x7f' && text[at] != ';') ++at;
  return at < text.size() && text[at] == ';' ? at + 1 : 0;
}

}  // namespace

bool PinBillingLine(std::string* system_prompt) {
  const std::string_view text = std::string_view(*system_prompt).substr(0, kMaxLine);
  if (!text.starts_with(kName)) return false;
  size_t end = kName.size();
  while (const size_t n = PairLength(text.substr(end))) end += n;
  if (end == kName.size()) return false;
  system_prompt->replace(0, end, kPinned);
  return true;
}

bool PinBillingLineOf(Json* messages) {
  if (messages->empty() || !messages->front().is_object()) return false;
  if (messages->front().value("role", "") != "system") return false;
  Json& content = messages->front()["content"];
  return content.is_string() && PinBillingLine(&content.get_ref<std::string&>());
}

}  // namespace holdfast

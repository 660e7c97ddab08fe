// Any bytes as a chat template over a small conversation: it renders or fails with an error, and
// the markers that the request carries are never outside of what is marked as its text.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "token/chat_template.h"

namespace {

using namespace holdfast;  // NOLINT: a fuzzer is one file

// Characters that no template text is allowed to have here, so that each one in the output must
// have come from the request.
constexpr std::string_view kMark = "\xE2\x98\x83";  // U+2603

ChatTemplate::Input Conversation() {
  ChatTemplate::Input input;
  input.messages = nlohmann::ordered_json::parse(R"([
    {"role": "system", "content": "s\u2603"},
    {"role": "user", "content": [{"type": "text", "text": "u\u2603"}]},
    {"role": "assistant", "content": "a\n\u2603", "reasoning_content": "r\u2603", "tool_calls": [
      {"id": "1", "function": {"name": "f\u2603", "arguments": "{\"k\u2603\": \"v\u2603\", \"n\": 1.50}"}}]},
    {"role": "tool", "content": "t\u2603"}])");
  input.tools =
      nlohmann::ordered_json::parse(R"([{"function": {"name": "f", "description": "d\u2603"}}])");
  input.now_s = 0;
  return input;
}

bool IsPlain(const MarkedText& text, int64_t at) {
  for (const Span& span : text.plain) {
    if (span.begin <= at && at < span.end) return true;
  }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ChatTemplate::Input input = Conversation();
  const std::string source(reinterpret_cast<const char*>(data), size);
  // The mark may not be spelled by the template: neither its bytes nor an escape for them.
  if (source.find(kMark[0]) != std::string::npos) return 0;
  for (size_t at = source.find('\\'); at < source.size() - 1; at = source.find('\\', at + 1)) {
    if (std::string_view("xuU01234567").find(source[at + 1]) != std::string_view::npos) return 0;
  }
  const auto chat = ChatTemplate::Create(source.empty() ? " " : source);
  if (!chat.ok()) return 0;
  const auto prompt = chat->Render(input);
  if (!prompt.ok()) return 0;
  int64_t end = 0;
  for (const Span& span : prompt->plain) {
    HF_CHECK(span.begin >= end && span.begin < span.end);
    end = span.end;
  }
  HF_CHECK(end <= static_cast<int64_t>(prompt->text.size()));
  for (size_t at = prompt->text.find(kMark); at != std::string::npos;
       at = prompt->text.find(kMark, at + 1)) {
    HF_CHECK(IsPlain(*prompt, static_cast<int64_t>(at)));
  }
  return 0;
}

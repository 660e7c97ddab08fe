// Any tokens as a generated reply: however they are cut, what a client gets is valid UTF-8, the
// arguments of every call are a JSON object, and calls begin, grow and end in order.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "server/fake_generator.h"
#include "server/json.h"
#include "token/reply_parser.h"
#include "token/utf8.h"

namespace {

using namespace holdfast;  // NOLINT: a fuzzer is one file

Json Tools() {
  return Json::parse(R"([{"type":"function","function":{"name":"f","parameters":{"type":"object",
    "properties":{"s":{"type":"string"},"n":{"type":"number"},"o":{"type":"object"},
    "a":{"type":"array"},"b":{"type":"boolean"}}}}}])");
}

struct Seen {
  std::string reasoning, content;
  std::vector<std::string> arguments;
  bool open = false;

  void Add(const std::vector<ReplyEvent>& events) {
    for (const ReplyEvent& event : events) {
      HF_CHECK(RepairUtf8(event.text) == event.text);
      switch (event.kind) {
        case ReplyEvent::Kind::kReasoning:
          reasoning += event.text;
          break;
        case ReplyEvent::Kind::kContent:
          content += event.text;
          break;
        case ReplyEvent::Kind::kToolCallBegin:
          HF_CHECK(!open && event.index == static_cast<int>(arguments.size()));
          HF_CHECK(!event.id.empty());
          arguments.emplace_back();
          open = true;
          break;
        case ReplyEvent::Kind::kToolCallArguments:
          HF_CHECK(open && event.index + 1 == static_cast<int>(arguments.size()));
          arguments.back() += event.text;
          break;
        case ReplyEvent::Kind::kToolCallEnd:
          HF_CHECK(open);
          open = false;
          break;
      }
    }
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Json tools = Tools();
  if (size == 0 || size > (16 << 10)) return 0;
  const Tokenizer& tokenizer = *DemoVocabulary::Get().tokenizer;
  ReplyParser::Options options;
  options.starts_in_think = (data[0] & 1) != 0;
  if ((data[0] & 2) != 0) options.tools = tools;
  const bool as_ids = (data[0] & 4) != 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::vector<TokenId> ids;
  if (as_ids) {
    for (size_t i = 0; i + 1 < rest.size(); i += 2) {
      const int id = static_cast<uint8_t>(rest[i]) | static_cast<uint8_t>(rest[i + 1]) << 8;
      ids.push_back(static_cast<TokenId>(id % tokenizer.vocab_size()));
    }
  } else {
    ids = tokenizer.Encode(rest, AddedTokens::kAll);
  }
  ReplyParser parser(&tokenizer, std::move(options));
  Seen seen;
  for (const TokenId id : ids) seen.Add(parser.Push(id));
  seen.Add(parser.Finish());
  HF_CHECK(!seen.open);
  HF_CHECK(parser.has_tool_calls() == !seen.arguments.empty());
  for (const std::string& arguments : seen.arguments) {
    const Result<Json> parsed = ParseJson(arguments, {.max_depth = 100'000});
    HF_CHECK(parsed.ok() && parsed->is_object());
  }
  return 0;
}

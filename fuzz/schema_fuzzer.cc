// Any JSON as a schema, in a reply and in a tool call: it is compiled or refused within bounds, an
// error says where, and whatever a walk through the grammar says is a whole JSON text at its end.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/check.h"
#include "grammar/grammar_machine.h"
#include "grammar/reply_format.h"

namespace {

using namespace holdfast;  // NOLINT: a fuzzer is one file
using Json = ReplyFormat::Json;

constexpr int kMaxSteps = 600;

// Follows the grammar by the bytes of `choices`; at every place something must be possible.
void Walk(const Grammar& grammar, std::string_view choices, bool is_json) {
  GrammarMachine machine(&grammar);
  auto position = machine.Start(grammar.root);
  std::string text;
  for (int i = 0; i < kMaxSteps && !machine.overflowed(); ++i) {
    HF_CHECK(position != GrammarMachine::kNowhere);
    const unsigned first = choices.empty() ? 0 : static_cast<uint8_t>(choices[i % choices.size()]);
    auto next = GrammarMachine::kNowhere;
    for (unsigned k = 0; k < kSymbols && next == GrammarMachine::kNowhere; ++k) {
      const Symbol symbol = static_cast<Symbol>((first + k * 7) % kSymbols);
      next = machine.Step(position, symbol);
      if (next != GrammarMachine::kNowhere && symbol < 256)
        text.push_back(static_cast<char>(symbol));
    }
    if (next == GrammarMachine::kNowhere) {
      HF_CHECK(machine.complete(position) || machine.overflowed());
      break;
    }
    position = next;
    if (is_json && machine.complete(position)) HF_CHECK(Json::accept(text));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > (8 << 10)) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t cut = std::min(all.find('\0'), size);  // behind it: the choices of the walk
  const Json schema = Json::parse(all.substr(0, cut), nullptr, /*allow_exceptions=*/false);
  if (schema.is_discarded()) return 0;
  const std::string_view choices = all.substr(std::min(cut + 1, size));

  ReplyFormat reply{.text = ReplyFormat::Text::kJson, .schema = schema, .schema_where = "schema"};
  ReplyFormat call{.text = ReplyFormat::Text::kNone,
                   .calls = ReplyFormat::Calls::kOne,
                   .tools = {{.name = "f", .where = "tool", .parameters = schema}}};
  for (const ReplyFormat& format : {reply, call}) {
    std::string where;
    const Result<Grammar> grammar = CompileFormat(format, &where);
    if (grammar.ok()) {
      HF_CHECK(grammar->states.size() <= kMaxGrammarStates);
      Walk(*grammar, choices, format.text == ReplyFormat::Text::kJson);
    } else {
      HF_CHECK(!where.empty() && !grammar.status().message().empty());
      HF_CHECK(grammar.status().code() != StatusCode::kInternal);
    }
  }
  return 0;
}

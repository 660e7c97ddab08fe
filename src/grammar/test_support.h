#ifndef HOLDFAST_GRAMMAR_TEST_SUPPORT_H_
#define HOLDFAST_GRAMMAR_TEST_SUPPORT_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "grammar/grammar_machine.h"
#include "grammar/reply_format.h"
#include "token/tokenizer.h"
#include "token/vocabulary.h"
#include "weights/gguf.h"

namespace holdfast {

inline ReplyFormat JsonFormat(std::string_view schema) {
  return {.text = ReplyFormat::Text::kJson,
          .schema = ReplyFormat::Json::parse(schema),
          .schema_where = "schema"};
}

// A compiled format that whole texts are tried on.
class TriedFormat {
 public:
  explicit TriedFormat(const ReplyFormat& format) {
    Result<Grammar> compiled = CompileFormat(format, &where_);
    status_ = compiled.status();
    if (!compiled.ok()) return;
    grammar_ = *std::move(compiled);
    machine_ = std::make_unique<GrammarMachine>(&grammar_);
  }
  explicit TriedFormat(std::string_view schema) : TriedFormat(JsonFormat(schema)) {}

  const Status& status() const { return status_; }
  const std::string& where() const { return where_; }
  const Grammar& grammar() const { return grammar_; }

  // Markers of calls are spelled <tool_call> and </tool_call>.
  bool Accepts(std::string_view text) { return Run(text, /*whole=*/true); }
  bool AcceptsBeginning(std::string_view text) { return Run(text, /*whole=*/false); }

 private:
  bool Run(std::string_view text, bool whole) {
    if (machine_ == nullptr) return false;
    auto position = machine_->Start(grammar_.root);
    while (!text.empty() && position != GrammarMachine::kNowhere) {
      Symbol symbol = static_cast<uint8_t>(text.front());
      size_t n = 1;
      for (const auto& [marker, marked] :
           {std::pair<std::string_view, Symbol>{"<tool_call>", kCallBegin},
            {"</tool_call>", kCallEnd}}) {
        if (!text.starts_with(marker)) continue;
        symbol = marked;
        n = marker.size();
      }
      position = machine_->Step(position, symbol);
      text.remove_prefix(n);
    }
    return position != GrammarMachine::kNowhere && (!whole || machine_->complete(position));
  }

  Status status_;
  std::string where_;
  Grammar grammar_;
  std::unique_ptr<GrammarMachine> machine_;
};

// The demo model's.
inline const Tokenizer& DemoTokenizer() {
  static const std::unique_ptr<Tokenizer> tokenizer = [] {
    const auto file = GgufFile::Open(HOLDFAST_SOURCE_DIR "/models/demo/holdfast-demo-Q4_K_M.gguf");
    EXPECT_TRUE(file.ok()) << file.status().ToString();
    return Tokenizer::Create(*ReadVocabulary(**file)).value();
  }();
  return *tokenizer;
}

}  // namespace holdfast

#endif  // HOLDFAST_GRAMMAR_TEST_SUPPORT_H_

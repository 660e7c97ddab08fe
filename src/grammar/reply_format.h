#ifndef HOLDFAST_GRAMMAR_REPLY_FORMAT_H_
#define HOLDFAST_GRAMMAR_REPLY_FORMAT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "grammar/grammar.h"

namespace holdfast {

// What a request wants its reply to be, behind the thinking.
struct ReplyFormat {
  using Json = nlohmann::ordered_json;

  enum class Text {
    kAny,   // whatever the model says
    kJson,  // a JSON text that is valid for `schema`
    kNone,  // no text: tools are called
  };
  enum class Calls {
    kNone,
    kFree,     // instead of the text; nothing is asked of the arguments
    kOne,      // one call of one of `tools`
    kSeveral,  // at least one
  };
  struct Tool {
    std::string name;   // in the prompt
    std::string where;  // of its schema in the request
    Json parameters;    // null: it has none
  };

  Text text = Text::kAny;
  Json schema;
  std::string schema_where;
  Calls calls = Calls::kNone;
  std::vector<Tool> tools;

  bool constrains() const { return text != Text::kAny; }
  // Equal for formats that are the same but for where they stand.
  std::string Key() const;
};

// The grammar of a format that constrains. An error sets `where` to its place in the request:
// kUnimplemented for keywords of schemas that are
// not supported, kInvalidArgument for wrong ones and for schemas that nothing satisfies,
// kOutOfRange past a limit of size.
Result<Grammar> CompileFormat(const ReplyFormat& format, std::string* where);

inline constexpr size_t kMaxGrammarStates = 100'000;
inline constexpr size_t kMaxFormatBytes = 256 << 10;  // of all its schemas

}  // namespace holdfast

#endif  // HOLDFAST_GRAMMAR_REPLY_FORMAT_H_

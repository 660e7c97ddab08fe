#ifndef HOLDFAST_TOKEN_REPLY_PARSER_H_
#define HOLDFAST_TOKEN_REPLY_PARSER_H_

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "token/vocabulary.h"

namespace holdfast {

class Tokenizer;

// One step of a reply as a client sees it. Texts are valid UTF-8 and never empty for deltas.
struct ReplyEvent {
  enum class Kind {
    kReasoning,          // text: more of the thinking
    kContent,            // text: more of the answer
    kToolCallBegin,      // index, id, name
    kToolCallArguments,  // index, text: more of the arguments, a JSON object when put together
    kToolCallEnd,        // index, complete
  };
  Kind kind = Kind::kContent;
  std::string text;
  int index = 0;         // of the call in this reply, from 0
  std::string id;        // begin only
  std::string name;      // begin only
  bool complete = true;  // end only: false when the reply was cut inside the call
};

// Splits generated ids, as they come, into thinking, answer and tool calls.
//
// The markers (<think>, </think>, <tool_call>, </tool_call>) count only as the single ids of the
// vocabulary. Inside a call both <function=NAME><parameter=KEY>value</parameter></function> and
// {"name": ..., "arguments": {...}} are understood. Types of parameters come from the tool's
// schema: strings are taken raw, others as JSON, and as a string where they are not valid JSON.
// Missing closers and a cut reply still give well-formed arguments. No part of a marker is ever
// shown.
class ReplyParser {
 public:
  struct Options {
    bool starts_in_think = false;  // the prompt ended inside a think block
    // The request's tools (OpenAI's shape). Without any, tool-call markers are ordinary text.
    nlohmann::ordered_json tools;
    std::function<std::string()> make_call_id;  // not set: "call_" and 24 random letters
  };

  // `tokenizer` must outlive this object.
  ReplyParser(const Tokenizer* tokenizer, Options options);
  ~ReplyParser();
  ReplyParser(ReplyParser&&) noexcept;
  ReplyParser& operator=(ReplyParser&&) noexcept;

  std::vector<ReplyEvent> Push(TokenId id);
  // Ends the reply: gives what was held back and closes what is open.
  std::vector<ReplyEvent> Finish();

  // Whether the reply so far has called a tool.
  bool has_tool_calls() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Whether a reply to `prompt` begins inside a think block: its last think marker opens one, and no
// turn has ended since.
bool PromptEndsInThink(const Tokenizer& tokenizer, std::span<const TokenId> prompt);

}  // namespace holdfast

#endif  // HOLDFAST_TOKEN_REPLY_PARSER_H_

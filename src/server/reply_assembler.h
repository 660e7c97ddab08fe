#ifndef HOLDFAST_SERVER_REPLY_ASSEMBLER_H_
#define HOLDFAST_SERVER_REPLY_ASSEMBLER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/stop_matcher.h"
#include "token/detokenizer.h"
#include "token/reply_parser.h"
#include "token/tokenizer.h"

namespace holdfast {

// Generated ids to what a client sees, with stop strings. A chat reply is split into thinking,
// answer and tool calls; a raw one is all content.
//
// Stop strings are looked for in the answer only: one inside the thinking or a tool call's
// arguments would cut the reply before it says anything.
class ReplyAssembler {
 public:
  // A chat reply. `tokenizer` must outlive this.
  ReplyAssembler(const Tokenizer* tokenizer, ReplyParser::Options options,
                 std::vector<std::string> stop);
  // A raw completion.
  ReplyAssembler(const Tokenizer* tokenizer, std::vector<std::string> stop);

  // What `id` makes certain. After stopped() nothing more comes.
  std::vector<ReplyEvent> Push(TokenId id);
  // Ends the reply: what was held back.
  std::vector<ReplyEvent> Finish();

  bool stopped() const { return stop_.stopped(); }
  const std::string& stop_matched() const { return stop_.matched(); }
  bool has_tool_calls() const { return parser_ && parser_->has_tool_calls(); }
  bool in_think() const { return in_think_; }
  // Tokens of the thinking, markers included.
  int64_t n_reasoning_tokens() const { return n_reasoning_tokens_; }

 private:
  void AddContent(std::string text, std::vector<ReplyEvent>* out);
  void FilterEvents(std::vector<ReplyEvent> events, std::vector<ReplyEvent>* out);
  void CountReasoning(TokenId id);

  std::optional<ReplyParser> parser_;       // of a chat reply
  std::optional<Detokenizer> detokenizer_;  // of a raw one
  StopMatcher stop_;
  std::optional<TokenId> think_begin_, think_end_;
  bool in_think_ = false;
  int64_t n_reasoning_tokens_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_REPLY_ASSEMBLER_H_

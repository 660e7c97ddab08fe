#ifndef HOLDFAST_SERVER_HISTORY_H_
#define HOLDFAST_SERVER_HISTORY_H_

// The messages of a request seen as the conversation they continue: which of them are replies of
// ours, the tokens those were made of, and every message's place among the prompt's tokens.

#include <cstdint>
#include <optional>
#include <vector>

#include "server/model_service.h"
#include "server/reply_memory.h"
#include "store/store_types.h"
#include "token/chat_template.h"
#include "token/tokenizer.h"

namespace holdfast {

struct History {
  Json messages;                                   // replies of ours as they were given
  std::vector<std::optional<GivenReply>> replies;  // by message
  std::vector<Hash128> names;                      // of the history up to and with each message
  std::vector<Hash128> answers;                    // of the history before each message
  HistoryName name;                                // of all
};

// `replies` may be null: then nothing is known of any reply.
History ReadHistory(ReplyMemory* replies, const Json& messages, const Json& tools);

// Byte `offset` of a text as a number of tokens: how many begin before it.
int64_t TokensBefore(const TokenizedText& text, int64_t offset);

// `text` (the tokens of `prompt`, which `history` was rendered to) with the tokens that were
// generated in the place of the last reply of ours and everything before it; none when there is no
// such reply. What stands before the reply must be spelled byte for byte as it was read then. The
// reply itself may be spelled otherwise by the template, but its thinking must be there: a template
// that leaves it out means it.
std::optional<TokenizedText> Replay(const ModelService& model, const History& history,
                                    const ChatTemplate::Rendered& prompt,
                                    const TokenizedText& text);

// The messages for the store, with their places in `text`.
std::vector<StoredMessage> MessagesOf(const Tokenizer& tokenizer, const History& history,
                                      const ChatTemplate::Rendered& prompt,
                                      const TokenizedText& text);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_HISTORY_H_

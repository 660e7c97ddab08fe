#ifndef HOLDFAST_SERVER_CHAT_REQUEST_H_
#define HOLDFAST_SERVER_CHAT_REQUEST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/hash128.h"
#include "engine/generator.h"
#include "engine/sampling_params.h"
#include "grammar/reply_format.h"
#include "server/model_service.h"
#include "server/thinking_budget.h"
#include "store/store_types.h"
#include "token/chat_template.h"

namespace holdfast {

// What every text-generating API boils down to: how to sample and when to stop.
struct GenerationOptions {
  SamplingParams sampling;
  std::vector<std::string> stop;
  int64_t max_tokens = -1;  // -1: until the context is full
  int n_top_logprobs = -1;  // -1: no logprobs
  bool ignore_eos = false;
  ThinkingBudget thinking;
  int slot = -1;  // the number its conversation is to have; -1: any
};

// A chat turn, whichever API it came by. Messages and tools are in OpenAI's shape.
struct ChatRequest {
  ChatTemplate::Input input;
  GenerationOptions options;
  ReplyFormat format;
  // Of the format, when it constrains the reply.
  std::shared_ptr<TokenGrammar> grammar;
  std::string prefill;  // the reply begins with this text of the client
  std::string note;     // on what was done to the prompt, for the explanation of what was reused
  // Indices of messages behind which the client wants a checkpoint (cache_control), any order.
  std::vector<size_t> cache_marks;
};

// A chat turn as the engine takes it, and what its reply must be read with.
struct PreparedChat {
  GenerateRequest request;
  bool starts_in_think = false;  // the prompt ends inside a think block
  std::string note;              // the request's
  Hash128 answer;                // names the replies to this history
  // For the store: the messages with their places in the prompt, and what to call the conversation.
  std::vector<StoredMessage> messages;
  std::string title;
};

// Renders, tokenises (replies of ours get the tokens that were generated) and finds the places
// worth a checkpoint: the end of the system and tools block, before the generation prompt, and
// behind the messages that the client marked.
// Errors: those of ChatTemplate::RenderWithSpans.
Result<PreparedChat> PrepareChat(const ModelService& model, const ChatRequest& chat);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_CHAT_REQUEST_H_

#include "server/chat_generation.h"

#include <memory>
#include <utility>
#include <vector>

#include "server/reply_memory.h"

namespace holdfast {

Result<std::shared_ptr<Generation>> StartChat(const std::shared_ptr<const ModelService>& model,
                                              const ChatRequest& chat, PreparedChat prepared,
                                              ChatReplyOptions reply) {
  ReplyParser::Options parser;
  parser.starts_in_think = prepared.starts_in_think;
  parser.tools = chat.input.tools;
  parser.make_call_id = std::move(reply.make_call_id);
  ReplyAssembler assembler(model->tokenizer, std::move(parser), chat.options.stop);
  Generation::Options options;
  options.progress = reply.progress;
  options.single_tool_call = reply.single_tool_call;
  options.prefill = chat.prefill;
  options.thinking = chat.options.thinking;
  options.slot = chat.options.slot;
  options.reuse_note = prepared.note;
  options.on_end = [replies = model->replies, prompt = prepared.request.prompt,
                    answer = prepared.answer, messages = std::move(prepared.messages),
                    title = std::move(prepared.title)](const Json* message,
                                                       const std::vector<TokenId>& tokens) mutable {
    auto record = std::make_shared<TurnRecord>();
    record->messages = std::move(messages);
    record->title = std::move(title);
    if (message == nullptr) return record;
    GivenReply reply{.message = *message, .n_prompt = static_cast<int64_t>(prompt.size())};
    prompt.insert(prompt.end(), tokens.begin(), tokens.end());
    record->messages.push_back({.role = "assistant",
                                .content = ToText(*message),
                                .tool_call_ids = ToolCallIds(*message),
                                .hash = answer,
                                .token_begin = reply.n_prompt,
                                .token_end = static_cast<int64_t>(prompt.size())});
    reply.tokens = std::make_shared<const std::vector<TokenId>>(std::move(prompt));
    if (replies != nullptr) replies->Remember(answer, std::move(reply));
    return record;
  };
  return Generation::Start(model, std::move(prepared.request), std::move(assembler), options);
}

}  // namespace holdfast

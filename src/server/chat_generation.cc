#include "server/chat_generation.h"

#include <utility>
#include <vector>

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
  options.reuse_note = prepared.note;
  if (model->replies) {
    options.on_reply = [replies = model->replies, prompt = prepared.request.prompt,
                        history = prepared.history](const Json& message,
                                                    const std::vector<TokenId>& tokens) mutable {
      history.Add(message);
      prompt.insert(prompt.end(), tokens.begin(), tokens.end());
      replies->Remember(history.value(), std::move(prompt));
    };
  }
  return Generation::Start(model, std::move(prepared.request), std::move(assembler), options);
}

}  // namespace holdfast

#include "server/chat_request.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "server/history.h"
#include "server/reply_match.h"
#include "token/reply_parser.h"

namespace holdfast {
namespace {

// The number of prompt tokens up to the turn of the first message that is not the system's: the
// last turn opener at or before its content.
std::optional<int64_t> SystemEnd(TokenId opener, const ChatTemplate::Input& input,
                                 const ChatTemplate::Rendered& rendered,
                                 const TokenizedText& text) {
  for (size_t i = 0; i < input.messages.size() && i < rendered.message_spans.size(); ++i) {
    if (input.messages[i].value("role", "") == "system" || rendered.message_spans[i].empty()) {
      continue;
    }
    int64_t n = TokensBefore(text, rendered.message_spans[i].begin);
    while (n > 0 && (n == static_cast<int64_t>(text.ids.size()) || text.ids[n] != opener)) --n;
    if (n == 0) return std::nullopt;
    return n;
  }
  return std::nullopt;
}

// Where a message's turn ends: at the next turn opener behind its content. None when the prompt
// ends before.
std::optional<int64_t> TurnEnd(TokenId opener, const Span& message, const TokenizedText& text) {
  if (message.empty()) return std::nullopt;
  const auto from = text.ids.begin() + TokensBefore(text, message.end);
  const auto it = std::find(from, text.ids.end(), opener);
  if (it == text.ids.end()) return std::nullopt;
  return it - text.ids.begin();
}

std::vector<CheckpointMark> Checkpoints(const Tokenizer& tokenizer, const ChatRequest& chat,
                                        const ChatTemplate::Rendered& rendered,
                                        const TokenizedText& text) {
  std::vector<CheckpointMark> marks;
  const auto add = [&](std::optional<int64_t> n, CheckpointKind kind) {
    if (n && *n > 0) marks.push_back({*n, kind});
  };
  if (const std::optional<TokenId> opener = tokenizer.FindToken("<|im_start|>")) {
    add(SystemEnd(*opener, chat.input, rendered, text), CheckpointKind::kSystem);
    for (size_t i : chat.cache_marks) {
      if (i >= rendered.message_spans.size()) continue;
      add(TurnEnd(*opener, rendered.message_spans[i], text), CheckpointKind::kMark);
    }
  }
  if (rendered.generation_prompt_begin) {
    add(TokensBefore(text, *rendered.generation_prompt_begin), CheckpointKind::kBeforeReply);
  }
  return marks;
}

void AppendPlain(const std::string& plain, MarkedText* text) {
  if (plain.empty()) return;
  const int64_t begin = static_cast<int64_t>(text->text.size());
  text->text += plain;
  text->plain.push_back({begin, begin + static_cast<int64_t>(plain.size())});
}

// The first words of the first user message, on one line.
std::string TitleOf(const Json& messages) {
  constexpr size_t kMaxBytes = 80;
  for (const Json& message : messages) {
    if (TextOf(message, "role") != "user") continue;
    std::string title;
    for (const char c : TextOf(message, "content")) {
      const bool is_space = static_cast<unsigned char>(c) <= ' ';
      if (is_space && (title.empty() || title.back() == ' ')) continue;
      title += is_space ? ' ' : c;
      if (title.size() > kMaxBytes) break;
    }
    size_t end = std::min(title.size(), kMaxBytes);
    if (end < title.size()) {  // not within a character
      while (end > 0 && (static_cast<unsigned char>(title[end]) & 0xc0) == 0x80) --end;
    }
    title.resize(end);
    if (title.ends_with(' ')) title.pop_back();
    return title;
  }
  return "";
}

}  // namespace

Result<PreparedChat> PrepareChat(const ModelService& model, const ChatRequest& chat) {
  const Tokenizer& tokenizer = *model.tokenizer;
  const History history = ReadHistory(model.replies.get(), chat.input.messages, chat.input.tools);
  ChatTemplate::Input input = chat.input;
  input.messages = history.messages;
  HF_ASSIGN_OR_RETURN(ChatTemplate::Rendered rendered, model.chat_template->RenderWithSpans(input));
  AppendPlain(chat.prefill, &rendered.prompt);
  TokenizedText text = tokenizer.EncodeWithOffsets(rendered.prompt);
  if (model.replies) {
    auto replayed = Replay(model, history, rendered, text);
    if (replayed) text = *std::move(replayed);
  }
  // A template may already have written the BOS that the vocabulary asks for.
  const std::optional<TokenId> bos = tokenizer.leading_bos();
  if (bos && (text.ids.empty() || text.ids.front() != *bos)) {
    text.ids.insert(text.ids.begin(), *bos);
    text.begins.insert(text.begins.begin(), 0);
  }
  if (text.ids.empty()) {
    return InvalidArgumentError("the chat template gives an empty prompt for these messages");
  }
  PreparedChat prepared{.answer = history.name.answer(),
                        .messages = MessagesOf(tokenizer, history, rendered, text),
                        .title = TitleOf(history.messages)};
  GenerateRequest& request = prepared.request;
  request.checkpoints = Checkpoints(tokenizer, chat, rendered, text);
  request.prompt = std::move(text.ids);
  request.sampling = chat.options.sampling;
  request.max_tokens = chat.options.max_tokens;
  request.ignore_eos = chat.options.ignore_eos;
  request.grammar = chat.grammar;
  request.n_top_logprobs = chat.options.n_top_logprobs;
  prepared.note = chat.note;
  prepared.starts_in_think = PromptEndsInThink(tokenizer, request.prompt);
  return prepared;
}

}  // namespace holdfast

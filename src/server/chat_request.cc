#include "server/chat_request.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "token/reply_parser.h"

namespace holdfast {
namespace {

// How many tokens begin before byte `offset`.
int64_t TokensBefore(const TokenizedText& text, int64_t offset) {
  const auto it = std::lower_bound(text.begins.begin(), text.begins.end(), offset);
  return it - text.begins.begin();
}

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

// Bytes [begin, end of text) of a marked text.
MarkedText Rest(const MarkedText& text, int64_t begin) {
  MarkedText rest{.text = text.text.substr(begin)};
  for (const Span& span : text.plain) {
    if (span.end > begin)
      rest.plain.push_back({std::max(span.begin - begin, int64_t{0}), span.end - begin});
  }
  return rest;
}

// Byte offsets of tokens that spell a text byte for byte.
std::vector<int64_t> BeginsOf(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::vector<int64_t> begins;
  begins.reserve(ids.size());
  int64_t at = 0;
  for (TokenId id : ids) {
    begins.push_back(at);
    at += static_cast<int64_t>(tokenizer.TokenBytes(id, /*include_control=*/true).size());
  }
  return begins;
}

// The prompt's text with the tokens that were generated for its longest beginning that ends with a
// reply of ours and repeats that reply byte for byte; none when there is no such reply. The name
// made sure that the messages are the same ones in the same roles, so no text becomes a marker that
// was not one.
std::optional<TokenizedText> Replay(const ModelService& model, const std::vector<Hash128>& names,
                                    const Json& messages, const MarkedText& prompt) {
  for (size_t i = names.size(); i-- > 0;) {
    if (messages[i].value("role", "") != "assistant") continue;
    const auto tokens = model.replies->Find(names[i]);
    if (tokens == nullptr) continue;
    const std::string text = model.tokenizer->Decode(*tokens, /*include_control=*/true);
    const int64_t bytes = static_cast<int64_t>(text.size());
    if (!prompt.text.starts_with(text)) continue;
    const MarkedText rest = Rest(prompt, bytes);
    const bool on_template_text =
        !rest.text.empty() && (rest.plain.empty() || rest.plain[0].begin > 0);
    const TokenizedText rest_tokens = model.tokenizer->EncodeWithOffsets(rest);
    // Only a marker is a seam that no token can lie across.
    if (!on_template_text || rest_tokens.ids.empty() ||
        model.tokenizer->type(rest_tokens.ids[0]) != TokenType::kControl) {
      continue;
    }
    TokenizedText replayed{.ids = *tokens, .begins = BeginsOf(*model.tokenizer, *tokens)};
    replayed.ids.insert(replayed.ids.end(), rest_tokens.ids.begin(), rest_tokens.ids.end());
    for (int64_t begin : rest_tokens.begins) replayed.begins.push_back(bytes + begin);
    return replayed;
  }
  return std::nullopt;
}

}  // namespace

Result<PreparedChat> PrepareChat(const ModelService& model, const ChatRequest& chat) {
  HF_ASSIGN_OR_RETURN(ChatTemplate::Rendered rendered,
                      model.chat_template->RenderWithSpans(chat.input));
  AppendPlain(chat.prefill, &rendered.prompt);
  TokenizedText text = model.tokenizer->EncodeWithOffsets(rendered.prompt);

  PreparedChat prepared{.history = HistoryName(chat.input.tools)};
  std::vector<Hash128> names;
  for (const Json& message : chat.input.messages) {
    prepared.history.Add(message);
    names.push_back(prepared.history.value());
  }
  if (model.replies) {
    auto replayed = Replay(model, names, chat.input.messages, rendered.prompt);
    if (replayed) text = *std::move(replayed);
  }
  GenerateRequest& request = prepared.request;
  request.checkpoints = Checkpoints(*model.tokenizer, chat, rendered, text);
  request.prompt = std::move(text.ids);
  // A template may already have written the BOS that the vocabulary asks for.
  const std::optional<TokenId> bos = model.tokenizer->leading_bos();
  if (bos && (request.prompt.empty() || request.prompt.front() != *bos)) {
    request.prompt.insert(request.prompt.begin(), *bos);
    for (CheckpointMark& mark : request.checkpoints) ++mark.position;
  }
  if (request.prompt.empty()) {
    return InvalidArgumentError("the chat template gives an empty prompt for these messages");
  }
  request.sampling = chat.options.sampling;
  request.max_tokens = chat.options.max_tokens;
  request.ignore_eos = chat.options.ignore_eos;
  request.n_top_logprobs = chat.options.n_top_logprobs;
  prepared.note = chat.note;
  prepared.starts_in_think = PromptEndsInThink(*model.tokenizer, request.prompt);
  return prepared;
}

}  // namespace holdfast

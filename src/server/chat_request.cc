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
std::optional<int64_t> SystemEnd(const Tokenizer& tokenizer, const ChatTemplate::Input& input,
                                 const ChatTemplate::Rendered& rendered,
                                 const TokenizedText& text) {
  const std::optional<TokenId> opener = tokenizer.FindToken("<|im_start|>");
  if (!opener) return std::nullopt;
  for (size_t i = 0; i < input.messages.size() && i < rendered.message_spans.size(); ++i) {
    if (input.messages[i].value("role", "") == "system" || rendered.message_spans[i].empty()) {
      continue;
    }
    int64_t n = TokensBefore(text, rendered.message_spans[i].begin);
    while (n > 0 && (n == static_cast<int64_t>(text.ids.size()) || text.ids[n] != *opener)) --n;
    if (n == 0) return std::nullopt;
    return n;
  }
  return std::nullopt;
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

// The longest beginning of the messages that ends with a reply of ours whose text the prompt
// repeats byte for byte, as the tokens that were generated; and what follows it. The name made sure
// that the messages are the same ones in the same roles, so no text becomes a marker that was not
// one.
struct Replayed {
  std::shared_ptr<const std::vector<TokenId>> tokens;
  int64_t bytes = 0;  // of the prompt's text that they stand for
  TokenizedText rest;
};
std::optional<Replayed> Replay(const ModelService& model, const std::vector<Hash128>& names,
                               const Json& messages, const MarkedText& prompt) {
  for (size_t i = names.size(); i-- > 0;) {
    if (messages[i].value("role", "") != "assistant") continue;
    auto tokens = model.replies->Find(names[i]);
    if (tokens == nullptr) continue;
    const std::string text = model.tokenizer->Decode(*tokens, /*include_control=*/true);
    const int64_t bytes = static_cast<int64_t>(text.size());
    if (!prompt.text.starts_with(text)) continue;
    const MarkedText rest = Rest(prompt, bytes);
    const bool on_template_text =
        !rest.text.empty() && (rest.plain.empty() || rest.plain[0].begin > 0);
    TokenizedText rest_tokens = model.tokenizer->EncodeWithOffsets(rest);
    // Only a marker is a seam that no token can lie across.
    if (!on_template_text || rest_tokens.ids.empty() ||
        model.tokenizer->type(rest_tokens.ids[0]) != TokenType::kControl) {
      continue;
    }
    return Replayed{std::move(tokens), bytes, std::move(rest_tokens)};
  }
  return std::nullopt;
}

}  // namespace

Result<PreparedChat> PrepareChat(const ModelService& model, const ChatRequest& chat) {
  HF_ASSIGN_OR_RETURN(const ChatTemplate::Rendered rendered,
                      model.chat_template->RenderWithSpans(chat.input));
  TokenizedText text = model.tokenizer->EncodeWithOffsets(rendered.prompt);

  PreparedChat prepared{.history = HistoryName(chat.input.tools)};
  std::vector<Hash128> names;
  for (const Json& message : chat.input.messages) {
    prepared.history.Add(message);
    names.push_back(prepared.history.value());
  }
  GenerateRequest& request = prepared.request;
  std::vector<int64_t>& checkpoints = request.checkpoints;
  if (const auto n = SystemEnd(*model.tokenizer, chat.input, rendered, text)) {
    checkpoints.push_back(*n);
  }
  if (rendered.generation_prompt_begin) {
    const int64_t n = TokensBefore(text, *rendered.generation_prompt_begin);
    if (n > 0 && (checkpoints.empty() || checkpoints.back() < n)) checkpoints.push_back(n);
  }

  std::optional<Replayed> replayed;
  if (model.replies) replayed = Replay(model, names, chat.input.messages, rendered.prompt);
  if (replayed) {
    const int64_t n = static_cast<int64_t>(replayed->tokens->size());
    // Positions behind the reply move with its number of tokens.
    for (int64_t& checkpoint : checkpoints) {
      const int64_t byte = checkpoint < static_cast<int64_t>(text.begins.size())
                               ? text.begins[checkpoint]
                               : static_cast<int64_t>(rendered.prompt.text.size());
      if (byte >= replayed->bytes) {
        checkpoint = n + TokensBefore(replayed->rest, byte - replayed->bytes);
      }
    }
    text.ids = *replayed->tokens;
    text.ids.insert(text.ids.end(), replayed->rest.ids.begin(), replayed->rest.ids.end());
  }
  request.prompt = std::move(text.ids);
  // A template may already have written the BOS that the vocabulary asks for.
  const std::optional<TokenId> bos = model.tokenizer->leading_bos();
  if (bos && (request.prompt.empty() || request.prompt.front() != *bos)) {
    request.prompt.insert(request.prompt.begin(), *bos);
    for (int64_t& n : checkpoints) ++n;
  }
  if (request.prompt.empty()) {
    return InvalidArgumentError("the chat template gives an empty prompt for these messages");
  }
  request.sampling = chat.options.sampling;
  request.max_tokens = chat.options.max_tokens;
  request.ignore_eos = chat.options.ignore_eos;
  request.n_top_logprobs = chat.options.n_top_logprobs;
  prepared.starts_in_think = PromptEndsInThink(*model.tokenizer, request.prompt);
  return prepared;
}

}  // namespace holdfast

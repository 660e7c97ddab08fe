#include "server/history.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "server/reply_match.h"
#include "token/reply_parser.h"

namespace holdfast {
namespace {

// When the newest replies do not fit, a template leaves something out that was there before, and
// that is mostly so for older ones too.
constexpr int kMaxTries = 8;

// Bytes [begin, end of text) of a marked text.
MarkedText Rest(const MarkedText& text, int64_t begin) {
  MarkedText rest{.text = text.text.substr(begin)};
  for (const Span& span : text.plain) {
    if (span.end > begin) {
      rest.plain.push_back({std::max(span.begin - begin, int64_t{0}), span.end - begin});
    }
  }
  return rest;
}

// Where the turn of message i ends: at the end token behind its text, which must come before any
// text of a later message. None when there is no such place.
std::optional<int64_t> EndOfTurn(const Tokenizer& tokenizer, const std::vector<Span>& messages,
                                 size_t i, const TokenizedText& text) {
  if (messages[i].empty()) return std::nullopt;
  for (size_t n = TokensBefore(text, messages[i].end); n < text.ids.size(); ++n) {
    if (!tokenizer.IsEndOfGeneration(text.ids[n])) continue;
    const auto next = std::find_if(messages.begin() + static_cast<ptrdiff_t>(i) + 1, messages.end(),
                                   [](const Span& span) { return !span.empty(); });
    if (next != messages.end() && next->begin < text.begins[n]) return std::nullopt;
    return text.begins[n];
  }
  return std::nullopt;
}

// An earlier reply of ours: tokens [n_prompt, n_tokens) of what was read then stand for the text up
// to byte `end`, however the template writes it.
struct Detour {
  int64_t n_prompt = 0, n_tokens = 0;
  int64_t end = 0;
};

// How far tokens spell the beginning of a text, byte for byte but for earlier replies.
struct Spelled {
  int64_t n_tokens = 0;
  std::vector<int64_t> begins;  // of each of them, and the end of the last
};

Spelled SpellsAlong(const Tokenizer& tokenizer, std::span<const TokenId> ids, std::string_view text,
                    const std::vector<Detour>& detours) {
  Spelled spelled{.begins = {0}};
  auto detour = detours.begin();
  const auto n_ids = static_cast<int64_t>(ids.size());
  for (int64_t n = 0; n < n_ids; n = spelled.n_tokens) {
    const std::string_view bytes = tokenizer.TokenBytes(ids[n], /*include_control=*/true);
    const int64_t at = spelled.begins.back();
    if (text.substr(at).starts_with(bytes)) {
      ++spelled.n_tokens;
      spelled.begins.push_back(at + static_cast<int64_t>(bytes.size()));
      continue;
    }
    while (detour != detours.end() && detour->n_tokens <= n) ++detour;
    if (detour == detours.end() || detour->n_prompt > n || detour->n_tokens > n_ids ||
        spelled.begins[detour->n_prompt] >= detour->end) {
      break;
    }
    // From its beginning on, with places inside the reply's text.
    spelled.begins.resize(detour->n_prompt + 1);
    for (int64_t i = detour->n_prompt; i + 1 < detour->n_tokens; ++i) {
      const int64_t size = static_cast<int64_t>(tokenizer.TokenBytes(ids[i], true).size());
      spelled.begins.push_back(std::min(spelled.begins.back() + size, detour->end - 1));
    }
    spelled.begins.push_back(detour->end);
    spelled.n_tokens = detour->n_tokens;
    ++detour;
  }
  return spelled;
}

// Where the reply that `ids` end with stands in the prompt, when the prompt repeats what was read
// before it: its end as a byte of the prompt, and the beginnings of all tokens.
struct Place {
  int64_t end = 0;
  std::vector<int64_t> begins;
};

std::optional<Place> FindPlace(const Tokenizer& tokenizer, const GivenReply& reply, size_t i,
                               std::span<const TokenId> ids, const std::vector<Detour>& detours,
                               const ChatTemplate::Rendered& prompt, const TokenizedText& text) {
  const std::string_view all = prompt.prompt.text;
  Spelled spelled = SpellsAlong(tokenizer, ids, all, detours);
  if (spelled.n_tokens < reply.n_prompt) return std::nullopt;
  const auto end = EndOfTurn(tokenizer, prompt.message_spans, i, text);
  Place place;
  if (spelled.n_tokens == static_cast<int64_t>(ids.size())) {
    place.end = spelled.begins.back();
    spelled.begins.pop_back();
    place.begins = std::move(spelled.begins);
    return place;
  }
  // The template has its own way of writing this reply.
  const int64_t begin = spelled.begins[reply.n_prompt];
  if (!end || *end <= begin) return std::nullopt;
  const std::string reasoning = TextOf(reply.message, "reasoning_content");
  if (!reasoning.empty() && all.substr(begin, *end - begin).find(reasoning) == all.npos) {
    return std::nullopt;
  }
  place.end = *end;
  place.begins.assign(spelled.begins.begin(), spelled.begins.begin() + reply.n_prompt);
  for (int64_t n = reply.n_prompt, at = begin; n < static_cast<int64_t>(ids.size()); ++n) {
    place.begins.push_back(std::min(at, *end - 1));
    at += static_cast<int64_t>(tokenizer.TokenBytes(ids[n], true).size());
  }
  return place;
}

// Whether a reply's tokens are what its message says, as far as that has no tool calls.
bool TokensSay(const Tokenizer& tokenizer, std::span<const TokenId> ids, const GivenReply& reply) {
  ReplyParser::Options options;
  options.starts_in_think = PromptEndsInThink(tokenizer, ids.first(reply.n_prompt));
  ReplyParser parser(&tokenizer, std::move(options));
  ReplyRecorder recorder;
  const auto record = [&](const std::vector<ReplyEvent>& events) {
    for (const ReplyEvent& event : events) {
      if (event.kind == ReplyEvent::Kind::kReasoning) recorder.AddReasoning(event.text);
      if (event.kind == ReplyEvent::Kind::kContent) recorder.AddContent(event.text);
    }
  };
  for (TokenId id : ids.subspan(reply.n_prompt)) record(parser.Push(id));
  record(parser.Finish());
  return IsSameReply(reply.message, recorder.Message());
}

// The replies before message i that `ids` hold in their places. A reply whose thinking the template
// leaves out is none: it is meant to be left out.
std::vector<Detour> DetoursBefore(const Tokenizer& tokenizer, const History& history, size_t i,
                                  std::span<const TokenId> ids,
                                  const ChatTemplate::Rendered& prompt, const TokenizedText& text) {
  std::vector<Detour> detours;
  for (size_t j = 0; j < i; ++j) {
    const std::optional<GivenReply>& reply = history.replies[j];
    if (!reply || reply->n_tokens > static_cast<int64_t>(ids.size()) ||
        reply->n_prompt >= reply->n_tokens) {
      continue;
    }
    const bool same = reply->tokens != nullptr
                          ? std::ranges::equal(*reply->tokens, ids.first(reply->n_tokens))
                          : TokensSay(tokenizer, ids.first(reply->n_tokens), *reply);
    const std::string reasoning = TextOf(reply->message, "reasoning_content");
    const Span& span = prompt.message_spans[j];
    const std::string_view shown =
        std::string_view(prompt.prompt.text).substr(span.begin, span.end - span.begin);
    if (!same || (!reasoning.empty() && shown.find(reasoning) == shown.npos)) continue;
    const auto end = EndOfTurn(tokenizer, prompt.message_spans, j, text);
    if (end) detours.push_back({reply->n_prompt, reply->n_tokens, *end});
  }
  return detours;
}

std::optional<TokenizedText> ReplayAt(const ModelService& model, const History& history, size_t i,
                                      const ChatTemplate::Rendered& prompt,
                                      const TokenizedText& text) {
  const Tokenizer& tokenizer = *model.tokenizer;
  const GivenReply& reply = *history.replies[i];
  const auto tokens = model.replies->TokensOf(reply);
  if (!tokens.ok()) {
    spdlog::warn("a reply is tokenised from its text: {}", tokens.status().ToString());
    return std::nullopt;
  }
  std::span<const TokenId> ids = **tokens;
  GivenReply placed = reply;
  std::vector<Detour> detours = DetoursBefore(tokenizer, history, i, ids, prompt, text);
  // The leading BOS that the template has not written is added to the whole prompt later.
  const std::optional<TokenId> bos = tokenizer.leading_bos();
  if (bos && ids.front() == *bos &&
      !prompt.prompt.text.starts_with(tokenizer.TokenBytes(*bos, /*include_control=*/true))) {
    ids = ids.subspan(1);
    --placed.n_prompt;
    for (Detour& detour : detours) --detour.n_prompt, --detour.n_tokens;
  }
  // With ignore_eos a reply may have ends inside. From the store such a place must be what it says:
  // another one would put the end of a turn where the history has none.
  if (reply.tokens == nullptr &&
      std::ranges::any_of(ids.subspan(placed.n_prompt),
                          [&](TokenId id) { return tokenizer.IsEndOfGeneration(id); }) &&
      !TokensSay(tokenizer, ids, placed)) {
    return std::nullopt;
  }
  auto place = FindPlace(tokenizer, placed, i, ids, detours, prompt, text);
  if (!place) return std::nullopt;
  const MarkedText rest = Rest(prompt.prompt, place->end);
  const bool on_template_text =
      !rest.text.empty() && (rest.plain.empty() || rest.plain[0].begin > 0);
  const TokenizedText rest_tokens = tokenizer.EncodeWithOffsets(rest);
  // Only a marker is a seam that no token can lie across.
  if (!on_template_text || rest_tokens.ids.empty() ||
      tokenizer.type(rest_tokens.ids[0]) != TokenType::kControl) {
    return std::nullopt;
  }
  TokenizedText replayed{.ids = {ids.begin(), ids.end()}, .begins = std::move(place->begins)};
  replayed.ids.insert(replayed.ids.end(), rest_tokens.ids.begin(), rest_tokens.ids.end());
  for (int64_t begin : rest_tokens.begins) replayed.begins.push_back(place->end + begin);
  return replayed;
}

}  // namespace

int64_t TokensBefore(const TokenizedText& text, int64_t offset) {
  const auto it = std::lower_bound(text.begins.begin(), text.begins.end(), offset);
  return it - text.begins.begin();
}

History ReadHistory(ReplyMemory* replies, const Json& messages, const Json& tools) {
  History history{.messages = messages, .name = HistoryName(tools)};
  for (Json& message : history.messages) {
    history.answers.push_back(history.name.answer());
    std::optional<GivenReply> reply;
    if (replies != nullptr && TextOf(message, "role") == "assistant") {
      reply = replies->Match(history.answers.back(), message);
      if (reply) message = AsGiven(reply->message, message);
    }
    history.replies.push_back(std::move(reply));
    history.name.Add(message);
    history.names.push_back(history.name.value());
  }
  return history;
}

std::optional<TokenizedText> Replay(const ModelService& model, const History& history,
                                    const ChatTemplate::Rendered& prompt,
                                    const TokenizedText& text) {
  if (prompt.message_spans.size() != history.replies.size()) return std::nullopt;
  int n_tried = 0;
  for (size_t i = history.replies.size(); i-- > 0 && n_tried < kMaxTries;) {
    if (!history.replies[i]) continue;
    ++n_tried;
    if (auto replayed = ReplayAt(model, history, i, prompt, text)) return replayed;
  }
  return std::nullopt;
}

std::vector<StoredMessage> MessagesOf(const Tokenizer& tokenizer, const History& history,
                                      const ChatTemplate::Rendered& prompt,
                                      const TokenizedText& text) {
  std::vector<StoredMessage> messages;
  const auto n_tokens = static_cast<int64_t>(text.ids.size());
  int64_t end = 0;
  for (size_t i = 0; i < history.messages.size(); ++i) {
    const Json& message = history.messages[i];
    StoredMessage& stored = messages.emplace_back();
    stored.role = TextOf(message, "role");
    stored.content = ToText(message);
    stored.tool_call_ids = ToolCallIds(message);
    stored.hash = history.names[i];
    stored.token_begin = stored.token_end = end;
    if (i < prompt.message_spans.size() && !prompt.message_spans[i].empty()) {
      stored.token_begin = std::max(end, TokensBefore(text, prompt.message_spans[i].begin));
      stored.token_end =
          std::max(stored.token_begin, TokensBefore(text, prompt.message_spans[i].end));
    }
    // A reply can be found again where it stands among the tokens it was given with.
    const std::optional<GivenReply>& reply = history.replies[i];
    if (reply && reply->n_prompt >= end && reply->n_prompt < reply->n_tokens &&
        reply->n_tokens < n_tokens && tokenizer.IsEndOfGeneration(text.ids[reply->n_tokens])) {
      stored.content = ToText(reply->message);
      stored.hash = history.answers[i];
      stored.token_begin = reply->n_prompt;
      stored.token_end = reply->n_tokens;
    }
    end = stored.token_end;
  }
  return messages;
}

}  // namespace holdfast

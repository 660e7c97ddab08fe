#include "token/reply_parser.h"

#include <algorithm>
#include <optional>
#include <random>
#include <string_view>
#include <utility>

#include "token/tokenizer.h"
#include "token/tool_call_parser.h"
#include "token/tool_schema.h"
#include "token/utf8.h"

namespace holdfast {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";

std::string RandomCallId() {
  constexpr std::string_view kLetters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::random_device random;
  std::uniform_int_distribution<size_t> letter(0, kLetters.size() - 1);
  std::string id = "call_";
  for (int i = 0; i < 24; ++i) id.push_back(kLetters[letter(random)]);
  return id;
}

// Ids of the markers, as far as a vocabulary has them as added tokens.
struct Markers {
  std::optional<TokenId> think, think_end, call, call_end;

  explicit Markers(const Tokenizer& tokenizer)
      : think(Find(tokenizer, "<think>")),
        think_end(Find(tokenizer, "</think>")),
        call(Find(tokenizer, "<tool_call>")),
        call_end(Find(tokenizer, "</tool_call>")) {}

  static std::optional<TokenId> Find(const Tokenizer& tokenizer, std::string_view text) {
    const std::optional<TokenId> id = tokenizer.FindToken(text);
    if (!id) return std::nullopt;
    const TokenType type = tokenizer.type(*id);
    const bool added = type == TokenType::kControl || type == TokenType::kUserDefined;
    return added ? id : std::nullopt;
  }
};

}  // namespace

struct ReplyParser::Impl {
  enum class State { kThink, kContent, kCall };

  Impl(const Tokenizer* t, Options o)
      : tokenizer(t),
        markers(*t),
        schemas(o.tools),
        make_call_id(o.make_call_id ? std::move(o.make_call_id) : RandomCallId),
        state(o.starts_in_think ? State::kThink : State::kContent),
        skip_newlines(o.starts_in_think) {}

  const Tokenizer* tokenizer;
  Markers markers;
  ToolSchemas schemas;
  std::function<std::string()> make_call_id;
  State state;
  bool skip_newlines;  // none of the next text's leading newlines are shown
  bool any_reasoning = false;
  bool any_content = false;
  std::string pending;  // bytes of an incomplete character
  std::string held;     // white space that is shown only if text follows
  std::optional<ToolCallParser> call;
  int call_index = -1;
  bool call_announced = false;
  std::vector<ReplyEvent> events;

  void Emit(ReplyEvent::Kind kind, std::string text) {
    if (text.empty()) return;
    if (!events.empty() && events.back().kind == kind && events.back().index == ShownIndex(kind)) {
      events.back().text += text;
      return;
    }
    ReplyEvent event;
    event.kind = kind;
    event.text = std::move(text);
    event.index = ShownIndex(kind);
    events.push_back(std::move(event));
  }
  int ShownIndex(ReplyEvent::Kind kind) const {
    return kind == ReplyEvent::Kind::kToolCallArguments ? call_index : 0;
  }

  // More bytes of thinking, answer or call.
  void Bytes(std::string_view bytes) {
    pending += bytes;
    Text(TakeCompleteUtf8(&pending));
  }
  void Text(std::string_view text);
  void EndRegion();  // before the state changes
  void BeginCall();
  void EndCall(bool closed);
  void ShowCall();
  void Marker(TokenId id);
  bool IsMarker(TokenId id) const {
    return id == markers.think || id == markers.think_end || id == markers.call ||
           id == markers.call_end;
  }
  void MarkerInThink(TokenId id);
  void MarkerInContent(TokenId id);
  void MarkerInCall(TokenId id);
  void Literal(TokenId id) { Bytes(tokenizer->TokenBytes(id, /*include_control=*/true)); }
};

void ReplyParser::Impl::Text(std::string_view text) {
  if (state == State::kCall) {
    call->Push(text);
    ShowCall();
    return;
  }
  if (skip_newlines) {
    const size_t begin = std::min(text.find_first_not_of("\r\n"), text.size());
    text.remove_prefix(begin);
    if (text.empty()) return;
    skip_newlines = false;
  }
  const size_t last = text.find_last_not_of(kSpaces);
  if (last == std::string_view::npos) {
    held += text;
    return;
  }
  std::string shown = std::exchange(held, std::string(text.substr(last + 1)));
  shown += text.substr(0, last + 1);
  const bool thinking = state == State::kThink;
  (thinking ? any_reasoning : any_content) = true;
  Emit(thinking ? ReplyEvent::Kind::kReasoning : ReplyEvent::Kind::kContent, std::move(shown));
}

void ReplyParser::Impl::EndRegion() {
  if (!pending.empty()) Text(RepairUtf8(std::exchange(pending, {})));
}

void ReplyParser::Impl::BeginCall() {
  EndRegion();
  held.clear();
  state = State::kCall;
  call.emplace(&schemas);
  call_announced = false;
}

void ReplyParser::Impl::ShowCall() {
  if (!call->has_name()) return;
  if (!call_announced) {
    call_announced = true;
    ++call_index;
    ReplyEvent event;
    event.kind = ReplyEvent::Kind::kToolCallBegin;
    event.index = call_index;
    event.id = make_call_id();
    event.name = call->name();
    events.push_back(std::move(event));
  }
  Emit(ReplyEvent::Kind::kToolCallArguments, call->TakeArguments());
}

void ReplyParser::Impl::EndCall(bool closed) {
  EndRegion();
  call->Finish(closed);
  ShowCall();
  const std::string raw = call->raw();
  const bool complete = call->complete();
  call.reset();
  state = State::kContent;
  skip_newlines = true;
  if (call_announced) {
    ReplyEvent event;
    event.kind = ReplyEvent::Kind::kToolCallEnd;
    event.index = call_index;
    event.complete = complete;
    events.push_back(std::move(event));
  } else if (closed) {
    Text(raw);  // no call at all: better shown than lost
    held.clear();
  }
}

void ReplyParser::Impl::MarkerInThink(TokenId id) {
  if (id == markers.think_end) {
    EndRegion();
    held.clear();
    state = State::kContent;
    skip_newlines = true;
  } else if (id == markers.call && !schemas.empty()) {
    BeginCall();  // a model that forgets to end its thinking
  } else if (id != markers.think || any_reasoning) {
    Literal(id);
  }
}

void ReplyParser::Impl::MarkerInContent(TokenId id) {
  const bool has_calls = call_index >= 0;
  if (id == markers.call && !schemas.empty()) {
    BeginCall();
  } else if (id == markers.call_end && !schemas.empty()) {
    return;  // closes nothing
  } else if (id == markers.think && !any_content && !has_calls) {
    EndRegion();
    held.clear();
    state = State::kThink;
    skip_newlines = true;
  } else if (id == markers.think_end && !any_content) {
    held.clear();
    skip_newlines = true;
  } else {
    Literal(id);
  }
}

void ReplyParser::Impl::MarkerInCall(TokenId id) {
  if (id == markers.call_end && !call->in_quoted_call()) {
    EndCall(/*closed=*/true);
  } else if (id == markers.call && !call->in_value()) {
    EndCall(/*closed=*/true);
    BeginCall();
  } else {
    Literal(id);
  }
}

void ReplyParser::Impl::Marker(TokenId id) {
  switch (state) {
    case State::kThink:
      return MarkerInThink(id);
    case State::kContent:
      return MarkerInContent(id);
    case State::kCall:
      return MarkerInCall(id);
  }
}

ReplyParser::ReplyParser(const Tokenizer* tokenizer, Options options)
    : impl_(std::make_unique<Impl>(tokenizer, std::move(options))) {}
ReplyParser::~ReplyParser() = default;
ReplyParser::ReplyParser(ReplyParser&&) noexcept = default;
ReplyParser& ReplyParser::operator=(ReplyParser&&) noexcept = default;

std::vector<ReplyEvent> ReplyParser::Push(TokenId id) {
  if (impl_->IsMarker(id)) {
    impl_->Marker(id);
  } else {
    impl_->Bytes(impl_->tokenizer->TokenBytes(id, /*include_control=*/false));
  }
  return std::exchange(impl_->events, {});
}

std::vector<ReplyEvent> ReplyParser::Finish() {
  if (impl_->state == Impl::State::kCall) impl_->EndCall(/*closed=*/false);
  impl_->EndRegion();
  // White space at the end of an answer is part of it; behind calls or thinking it is layout.
  if (impl_->state == Impl::State::kContent && impl_->any_content && impl_->call_index < 0) {
    impl_->Emit(ReplyEvent::Kind::kContent, std::exchange(impl_->held, {}));
  }
  return std::exchange(impl_->events, {});
}

bool ReplyParser::has_tool_calls() const { return impl_->call_index >= 0; }

bool PromptEndsInThink(const Tokenizer& tokenizer, std::span<const TokenId> prompt) {
  const Markers markers(tokenizer);
  for (size_t i = prompt.size(); i > 0; --i) {
    const TokenId id = prompt[i - 1];
    if (id == markers.think) return true;
    if (id == markers.think_end || tokenizer.IsEndOfGeneration(id)) return false;
  }
  return false;
}

}  // namespace holdfast

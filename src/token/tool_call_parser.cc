#include "token/tool_call_parser.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace holdfast {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFunction = "<function=";
constexpr std::string_view kFunctionEnd = "</function>";
constexpr std::string_view kParameter = "<parameter=";
constexpr std::string_view kParameterEnd = "</parameter>";
constexpr std::string_view kCall = "<tool_call>";
constexpr std::string_view kCallEnd = "</tool_call>";
constexpr std::string_view kSpaces = " \t\r\n";
constexpr size_t kMaxKeyBytes = 256;
constexpr int kMaxJsonDepth = 100;

std::string_view SkipSpaces(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpaces);
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

std::string Trimmed(std::string_view text) {
  text = SkipSpaces(text);
  while (!text.empty() && kSpaces.find(text.back()) != std::string_view::npos) {
    text.remove_suffix(1);
  }
  return std::string(text);
}

// Whether `text` could grow into something that starts with `word`.
bool MayBecome(std::string_view text, std::string_view word) {
  return text.size() < word.size() && word.starts_with(text);
}

// The name in "<function=NAME>" or "<parameter=KEY>": up to '>' or, as a slip, the end of the line.
// Npos: not there yet.
size_t NameEnd(std::string_view text, std::string_view opener) {
  return text.find_first_of(">\n", opener.size());
}

}  // namespace

void ToolCallParser::Push(std::string_view text) {
  raw_ += text;
  buffer_ += text;
  Run(/*at_end=*/false);
}

std::string ToolCallParser::TakeArguments() { return std::exchange(arguments_, {}); }

void ToolCallParser::Run(bool at_end) {
  bool moved = true;
  while (moved) {
    switch (state_) {
      case State::kStart:
        moved = RunStart();
        break;
      case State::kBetween:
        moved = RunBetween();
        break;
      case State::kValue:
        moved = RunValue(at_end);
        break;
      case State::kJson:
      case State::kAfter:
        moved = false;
        break;
    }
  }
}

bool ToolCallParser::RunStart() {
  if (SkipSpaces(buffer_).starts_with('{')) {
    state_ = State::kJson;
    return false;
  }
  const size_t at = buffer_.find(kFunction);
  if (at == std::string::npos) return false;
  const std::string_view text = std::string_view(buffer_).substr(at);
  const size_t end = NameEnd(text, kFunction);
  if (end == std::string_view::npos) return false;
  name_ = Trimmed(text.substr(kFunction.size(), end - kFunction.size()));
  if (name_.empty()) return false;  // no call that a client could make: it stays text
  has_name_ = true;
  buffer_.erase(0, at + end + 1);
  state_ = State::kBetween;
  return true;
}

bool ToolCallParser::RunBetween() {
  const std::string_view all = buffer_;
  const size_t parameter = all.find(kParameter), end = all.find(kFunctionEnd);
  if (end < parameter) {
    complete_ = true;
    state_ = State::kAfter;
    return true;
  }
  if (parameter == std::string_view::npos) return false;
  const std::string_view text = all.substr(parameter);
  const size_t key_end = NameEnd(text, kParameter);
  if (key_end == std::string_view::npos) return false;
  key_ = Trimmed(text.substr(kParameter.size(), key_end - kParameter.size()));
  type_ = schemas_->TypeOf(name_, key_);
  // The newline that ended a key without '>' is the one before the value.
  buffer_.erase(0, parameter + key_end + (text[key_end] == '>' ? 1 : 0));
  value_begun_ = false;
  value_given_ = false;
  quoted_calls_ = 0;
  scanned_ = 0;
  state_ = State::kValue;
  return true;
}

// --- values ---

ToolCallParser::Mark ToolCallParser::ParameterCloser(std::string_view text, bool at_end) const {
  const std::string_view next = SkipSpaces(text.substr(kParameterEnd.size()));
  if (next.starts_with(kParameter) || next.starts_with(kFunctionEnd)) return Mark::kClose;
  const bool open = next.empty() || MayBecome(next, kParameter) || MayBecome(next, kFunctionEnd);
  if (!open) return Mark::kText;
  return at_end ? Mark::kClose : Mark::kUndecided;
}

// "<parameter=KEY>" at the start of a line: a new parameter when the tool has it.
ToolCallParser::Mark ToolCallParser::NextParameter(std::string_view text, bool at_end) const {
  const size_t end = NameEnd(text, kParameter);
  if (end == std::string_view::npos) {
    return at_end || text.size() > kMaxKeyBytes ? Mark::kText : Mark::kUndecided;
  }
  const std::string key = Trimmed(text.substr(kParameter.size(), end - kParameter.size()));
  return key != key_ && schemas_->HasParameter(name_, key) ? Mark::kClose : Mark::kText;
}

ToolCallParser::Mark ToolCallParser::QuotedCall(std::string_view text, bool at_end) const {
  const std::string_view next = SkipSpaces(text.substr(kCall.size()));
  if (next.starts_with(kFunction)) return Mark::kQuoteOpens;
  return !at_end && (next.empty() || MayBecome(next, kFunction)) ? Mark::kUndecided : Mark::kText;
}

ToolCallParser::Mark ToolCallParser::MarkAt(size_t at, bool at_end) const {
  const std::string_view text = std::string_view(buffer_).substr(at);
  if (text.starts_with(kCall)) return QuotedCall(text, at_end);
  if (text.starts_with(kCallEnd)) return quoted_calls_ > 0 ? Mark::kQuoteCloses : Mark::kText;
  if (!at_end &&
      (MayBecome(text, kCall) || MayBecome(text, kCallEnd) || MayBecome(text, kParameterEnd))) {
    return Mark::kUndecided;
  }
  if (quoted_calls_ > 0) return Mark::kText;
  if (text.starts_with(kParameterEnd)) return ParameterCloser(text, at_end);
  if (!AtLineStart(at)) return Mark::kText;
  if (text.starts_with(kParameter)) return NextParameter(text, at_end);
  if (text.starts_with(kFunctionEnd)) {
    if (!SkipSpaces(text.substr(kFunctionEnd.size())).empty()) return Mark::kText;
    return at_end ? Mark::kClose : Mark::kUndecided;
  }
  const bool open = MayBecome(text, kParameter) || MayBecome(text, kFunctionEnd);
  return open && !at_end ? Mark::kUndecided : Mark::kText;
}

bool ToolCallParser::RunValue(bool at_end) {
  if (!value_begun_) {
    if (buffer_.empty() && !at_end) return false;
    if (buffer_.starts_with('\n')) buffer_.erase(0, 1);
    value_begun_ = true;
    BeginParameter();
  }
  while (true) {
    const size_t at = buffer_.find('<', scanned_);
    if (at == std::string::npos) {
      scanned_ = buffer_.size();
      break;
    }
    const Mark mark = MarkAt(at, at_end);
    if (mark == Mark::kClose) {
      const bool closer = std::string_view(buffer_).substr(at).starts_with(kParameterEnd);
      EndParameter(at, closer ? at + kParameterEnd.size() : at);
      return true;
    }
    if (mark == Mark::kUndecided) {
      scanned_ = at;
      break;
    }
    if (mark == Mark::kQuoteOpens) ++quoted_calls_;
    if (mark == Mark::kQuoteCloses) --quoted_calls_;
    scanned_ = at + 1;
  }
  // A newline may turn out to be the one before the closer.
  const size_t sure = scanned_ > 0 && buffer_[scanned_ - 1] == '\n' ? scanned_ - 1 : scanned_;
  if (type_ == ParameterType::kString && sure > 0) {
    GiveValue(std::string_view(buffer_).substr(0, sure));
    buffer_.erase(0, sure);
    scanned_ -= sure;
    value_given_ = true;
  }
  return false;
}

void ToolCallParser::BeginParameter() {
  if (type_ != ParameterType::kString) return;  // given as a whole, at its end
  arguments_ += (any_parameter_ ? ", " : "{") + JsonString(key_) + ": \"";
  any_parameter_ = true;
}

void ToolCallParser::GiveValue(std::string_view text) { arguments_ += JsonStringInside(text); }

// The value ends before `value_end`; reading goes on at `next`.
void ToolCallParser::EndParameter(size_t value_end, size_t next) {
  std::string_view value = std::string_view(buffer_).substr(0, value_end);
  if (value.ends_with('\n')) value.remove_suffix(1);
  if (type_ == ParameterType::kString) {
    GiveValue(value);
    arguments_ += '"';
  } else {
    arguments_ +=
        (any_parameter_ ? ", " : "{") + JsonString(key_) + ": " + ArgumentJson(value, type_);
    any_parameter_ = true;
  }
  buffer_.erase(0, next);
  state_ = State::kBetween;
}

// --- the end ---

namespace {

// Nesting of brackets outside of strings; printing a parsed value recurses that deep.
int JsonDepth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

Json ParseJson(std::string_view text) {
  if (JsonDepth(text) > kMaxJsonDepth) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace

void ToolCallParser::FinishJson() {
  // Behind the object there may be anything.
  const size_t end = buffer_.rfind('}');
  const Json call =
      ParseJson(std::string_view(buffer_).substr(0, end == std::string::npos ? 0 : end + 1));
  if (!call.is_object() || !call.contains("name") || !call["name"].is_string()) return;
  if (call["name"].get_ref<const std::string&>().empty()) return;
  Json arguments = Json::object();
  for (const char* key : {"arguments", "parameters"}) {
    if (!call.contains(key)) continue;
    arguments = call[key];
    break;
  }
  if (arguments.is_string()) arguments = ParseJson(arguments.get<std::string>());
  if (!arguments.is_object()) return;
  name_ = call["name"].get<std::string>();
  has_name_ = true;
  complete_ = true;
  arguments_ = arguments.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void ToolCallParser::Finish(bool closed) {
  if (state_ == State::kJson) return FinishJson();
  if (closed) Run(/*at_end=*/true);
  if (state_ == State::kStart) return;
  if (state_ == State::kValue) {
    if (closed) {
      EndParameter(buffer_.size(), buffer_.size());
    } else if (type_ == ParameterType::kString && value_begun_) {
      arguments_ += '"';  // what is held back is half a closer, or the newline before it
    }
  }
  arguments_ += any_parameter_ ? "}" : "{}";
  complete_ = complete_ || closed;
}

}  // namespace holdfast

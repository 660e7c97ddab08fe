#include "server/reply_match.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace holdfast {
namespace {

constexpr std::string_view kSpace = " \t\r\n\f\v";

// Without space at the ends of lines and of the text.
std::string Trimmed(std::string_view text) {
  std::string out;
  size_t line_end = 0;  // of out, without the space behind it
  for (const char c : text) {
    if (c == '\n') {
      out.resize(line_end);
      if (!out.empty()) out += '\n', line_end = out.size();
      continue;
    }
    out += c;
    if (kSpace.find(c) == std::string_view::npos) line_end = out.size();
  }
  out.resize(line_end);
  while (out.ends_with('\n')) out.pop_back();
  const size_t begin = out.find_first_not_of(kSpace);
  return begin == std::string::npos ? "" : out.substr(begin);
}

// The texts of a message, the thinking apart from the answer wherever the client put it.
struct Texts {
  std::string reasoning, content;
};

Texts TextsOf(const Json& message) {
  Texts texts{TextOf(message, "reasoning_content"), TextOf(message, "content")};
  constexpr std::string_view kBegin = "<think>", kEnd = "</think>";
  const std::string trimmed = Trimmed(texts.content);
  if (trimmed.starts_with(kBegin) && trimmed.find(kEnd) != std::string::npos) {
    const size_t end = trimmed.find(kEnd);
    if (texts.reasoning.empty()) {
      texts.reasoning = trimmed.substr(kBegin.size(), end - kBegin.size());
    }
    texts.content = trimmed.substr(end + kEnd.size());
  }
  texts.reasoning = Trimmed(texts.reasoning);
  texts.content = Trimmed(texts.content);
  return texts;
}

// A text that is itself the JSON of a text, or of an array of text parts.
std::string DecodedOnce(const std::string& text) {
  if (!text.starts_with('"') && !text.starts_with('[')) return text;
  const Result<Json> json = ParseJson(text);
  if (!json.ok()) return text;
  if (json->is_string()) return Trimmed(json->get<std::string>());
  std::string joined;
  for (const Json& part : *json) {
    if (!part.is_object() || !part.contains("text") || !part["text"].is_string()) return text;
    joined += part["text"].get<std::string>();
  }
  return Trimmed(joined);
}

const Json& CallsOf(const Json& message) {
  static const Json none = Json::array();
  const auto it = message.find("tool_calls");
  return it == message.end() || !it->is_array() ? none : *it;
}

// Without regard to the order of keys.
bool SameValue(const Json& a, const Json& b) { return nlohmann::json(a) == nlohmann::json(b); }

bool SameCalls(const Json& given, const Json& received) {
  if (given.size() != received.size()) return false;
  for (size_t i = 0; i < given.size(); ++i) {
    const Json &a = FunctionOf(given[i]), &b = FunctionOf(received[i]);
    if (TextOf(a, "name") != TextOf(b, "name") || !SameValue(ArgumentsOf(a), ArgumentsOf(b))) {
      return false;
    }
  }
  return true;
}

bool SameIds(const Json& given, const Json& received) {
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string id = TextOf(given[i], "id");
    if (id.empty() || id != TextOf(received[i], "id")) return false;
  }
  return !given.empty();
}

}  // namespace

std::string TextOf(const Json& message, const char* member) {
  if (!message.is_object()) return "";
  const auto it = message.find(member);
  if (it == message.end() || it->is_null()) return "";
  return it->is_string() ? it->get<std::string>() : ToText(*it);
}

Json ArgumentsOf(const Json& call) {
  if (!call.is_object()) return {};
  const auto it = call.find("arguments");
  if (it == call.end()) return {};
  Json value = *it;
  for (int i = 0; i < 2 && value.is_string(); ++i) {  // some encode twice
    Result<Json> parsed = ParseJson(value.get_ref<const std::string&>());
    if (!parsed.ok()) break;
    value = *std::move(parsed);
  }
  return value;
}

const Json& FunctionOf(const Json& call) {
  if (!call.is_object()) return call;
  const auto it = call.find("function");
  return it != call.end() && it->is_object() ? *it : call;
}

bool IsSameReply(const Json& given, const Json& received) {
  const Json &our_calls = CallsOf(given), &calls = CallsOf(received);
  if (!SameCalls(our_calls, calls)) return false;
  const Texts ours = TextsOf(given), theirs = TextsOf(received);
  if (!theirs.reasoning.empty() && theirs.reasoning != ours.reasoning) return false;
  if (theirs.content == ours.content) return true;
  if (theirs.content.empty() && SameIds(our_calls, calls)) return true;
  return DecodedOnce(theirs.content) == ours.content;
}

Json AsGiven(const Json& given, const Json& received) {
  Json message = received;
  for (const char* member : {"content", "reasoning_content"}) {
    if (given.contains(member)) {
      message[member] = given[member];
    } else {
      message.erase(member);
    }
  }
  const Json& our_calls = CallsOf(given);
  for (size_t i = 0; i < our_calls.size(); ++i) {
    Json& call = message["tool_calls"][i];
    Json& function = call.contains("function") ? call["function"] : call;
    function["arguments"] = FunctionOf(our_calls[i])["arguments"];
  }
  return message;
}

}  // namespace holdfast

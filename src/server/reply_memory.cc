#include "server/reply_memory.h"

namespace holdfast {
namespace {

std::string TextOf(const Json& message, const char* field) {
  const auto it = message.find(field);
  if (it == message.end() || it->is_null()) return "";
  return it->is_string() ? it->get<std::string>() : ToText(*it);
}

// Arguments come as an object or as the JSON text of one, with any spacing.
std::string Arguments(const Json& call) {
  const auto it = call.find("arguments");
  if (it == call.end()) return "";
  if (!it->is_string()) return ToText(*it);
  const Result<Json> parsed = ParseJson(it->get<std::string>());
  return parsed.ok() ? ToText(*parsed) : it->get<std::string>();
}

}  // namespace

HistoryName::HistoryName(const Json& tools) {
  Hash128Stream stream;
  stream.Add(tools.is_null() ? std::string_view() : std::string_view(ToText(tools)));
  value_ = stream.Value();
}

void HistoryName::Add(const Json& message) {
  Hash128Stream stream;
  stream.Add(value_.low);
  stream.Add(value_.high);
  for (const char* field : {"role", "content", "reasoning_content", "tool_call_id", "name"}) {
    stream.Add(std::string_view(TextOf(message, field)));
  }
  const auto calls = message.find("tool_calls");
  if (calls != message.end() && calls->is_array()) {
    for (const Json& call : *calls) {
      const auto function = call.find("function");
      const Json& what = function != call.end() ? *function : call;
      stream.Add(std::string_view(TextOf(what, "name")));
      stream.Add(std::string_view(Arguments(what)));
    }
  }
  value_ = stream.Value();
}

void ReplyMemory::Remember(const Hash128& history, std::vector<TokenId> tokens) {
  const int64_t n = static_cast<int64_t>(tokens.size());
  if (n > max_tokens_) return;
  const Name name{history.low, history.high};
  const std::lock_guard lock(mutex_);
  if (const auto it = by_name_.find(name); it != by_name_.end()) {
    n_tokens_ -= static_cast<int64_t>(it->second->tokens->size());
    entries_.erase(it->second);
    by_name_.erase(it);
  }
  entries_.push_front({name, std::make_shared<const std::vector<TokenId>>(std::move(tokens))});
  by_name_[name] = entries_.begin();
  n_tokens_ += n;
  while (n_tokens_ > max_tokens_) {
    n_tokens_ -= static_cast<int64_t>(entries_.back().tokens->size());
    by_name_.erase(entries_.back().name);
    entries_.pop_back();
  }
}

std::shared_ptr<const std::vector<TokenId>> ReplyMemory::Find(const Hash128& history) {
  const std::lock_guard lock(mutex_);
  const auto it = by_name_.find({history.low, history.high});
  if (it == by_name_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, it->second);
  return it->second->tokens;
}

Json ReplyRecorder::Message() const {
  Json message;
  message["role"] = "assistant";
  message["content"] = content_;
  if (!reasoning_.empty()) message["reasoning_content"] = reasoning_;
  for (const auto& [name, arguments] : calls_) {
    message["tool_calls"].push_back({{"function", {{"name", name}, {"arguments", arguments}}}});
  }
  return message;
}

}  // namespace holdfast

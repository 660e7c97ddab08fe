#include "server/reply_memory.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "server/reply_match.h"

namespace holdfast {

HistoryName::HistoryName(const Json& tools) {
  Hash128Stream stream;
  stream.Add(tools.is_null() ? std::string_view() : std::string_view(ToText(tools)));
  value_ = stream.Value();
}

// Ids of tool calls are left out: some clients make up their own.
void HistoryName::Add(const Json& message) {
  Hash128Stream stream;
  stream.Add(value_.low);
  stream.Add(value_.high);
  for (const char* member : {"role", "content", "reasoning_content", "name"}) {
    stream.Add(std::string_view(TextOf(message, member)));
  }
  const auto calls = message.find("tool_calls");
  if (calls != message.end() && calls->is_array()) {
    for (const Json& call : *calls) {
      stream.Add(std::string_view(TextOf(FunctionOf(call), "name")));
      stream.Add(std::string_view(ToText(ArgumentsOf(FunctionOf(call)))));
    }
  }
  value_ = stream.Value();
}

Hash128 HistoryName::answer() const {
  Hash128Stream stream;
  stream.Add(value_.low);
  stream.Add(value_.high);
  stream.Add(std::string_view("answer"));
  return stream.Value();
}

void ReplyMemory::Remember(const Hash128& answer, GivenReply reply) {
  reply.n_tokens = static_cast<int64_t>(reply.tokens->size());
  if (reply.n_tokens > max_tokens_) return;
  const Name name{answer.low, answer.high};
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = by_name_.equal_range(name);
  for (auto it = begin; it != end; ++it) {
    if (it->second->reply.message != reply.message) continue;
    Erase(it->second);
    break;
  }
  n_tokens_ += reply.n_tokens;
  entries_.push_front({name, std::move(reply)});
  by_name_.emplace(name, entries_.begin());
  for (const std::string& id : ToolCallIds(entries_.front().reply.message)) {
    by_call_.emplace(id, entries_.begin());
  }
  while (n_tokens_ > max_tokens_) Erase(std::prev(entries_.end()));
}

void ReplyMemory::Erase(Entries::iterator entry) {
  n_tokens_ -= entry->reply.n_tokens;
  const auto is_it = [&](const auto& item) { return item.second == entry; };
  std::erase_if(by_name_, is_it);
  std::erase_if(by_call_, is_it);
  entries_.erase(entry);
}

std::optional<GivenReply> ReplyMemory::MatchInMemory(const Name& name, const Json& received) {
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = by_name_.equal_range(name);
  for (auto it = end; it != begin;) {  // the newest first
    const Entries::iterator entry = (--it)->second;
    if (!IsSameReply(entry->reply.message, received)) continue;
    entries_.splice(entries_.begin(), entries_, entry);
    return entry->reply;
  }
  return std::nullopt;
}

std::optional<GivenReply> ReplyMemory::MatchCallInMemory(const std::string& id,
                                                         const Json& received) {
  const std::lock_guard lock(mutex_);
  const auto it = by_call_.find(id);
  if (it == by_call_.end() || !IsSameReply(it->second->reply.message, received)) {
    return std::nullopt;
  }
  return it->second->reply;
}

namespace {

std::optional<GivenReply> MatchAmong(Result<std::vector<FoundMessage>> found,
                                     const Json& received) {
  if (!found.ok()) {
    spdlog::error("store: {}", found.status().ToString());
    return std::nullopt;
  }
  for (FoundMessage& item : *found) {
    Result<Json> message = ParseJson(item.message.content);
    if (!message.ok() || !message->is_object() || item.message.role != "assistant") continue;
    if (!IsSameReply(*message, received)) continue;
    return GivenReply{.message = *std::move(message),
                      .n_prompt = item.message.token_begin,
                      .n_tokens = item.message.token_end,
                      .conversation = std::move(item.conversation)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<GivenReply> ReplyMemory::Match(const Hash128& answer, const Json& received) {
  std::optional<GivenReply> reply = MatchInMemory({answer.low, answer.high}, received);
  if (!reply && store_ != nullptr) reply = MatchAmong(store_->FindMessages(answer), received);
  // Something before it may have come back in another shape.
  for (const std::string& id : ToolCallIds(received)) {
    if (reply) break;
    reply = MatchCallInMemory(id, received);
    if (!reply && store_ != nullptr) reply = MatchAmong(store_->FindToolCall(id), received);
  }
  return reply;
}

Result<std::shared_ptr<const std::vector<TokenId>>> ReplyMemory::TokensOf(const GivenReply& reply) {
  if (reply.tokens != nullptr) return reply.tokens;
  if (store_ == nullptr) return NotFoundError("the tokens of a reply: there is no store");
  HF_ASSIGN_OR_RETURN(ConversationTokens tokens, store_->Tokens(reply.conversation));
  const auto n = static_cast<int64_t>(tokens.ids.size());
  if (reply.n_tokens > n || reply.n_prompt >= reply.n_tokens) {
    return DataLossError(fmt::format("conversation {}: a reply at tokens {} to {} of {}",
                                     reply.conversation, reply.n_prompt, reply.n_tokens, n));
  }
  tokens.ids.resize(static_cast<size_t>(reply.n_tokens));
  return std::make_shared<const std::vector<TokenId>>(std::move(tokens.ids));
}

std::vector<std::string> ToolCallIds(const Json& message) {
  std::vector<std::string> ids;
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return ids;
  for (const Json& call : *calls) {
    if (std::string id = TextOf(call, "id"); !id.empty()) ids.push_back(std::move(id));
  }
  return ids;
}

Json ReplyRecorder::Message() const {
  Json message;
  message["role"] = "assistant";
  message["content"] = content_;
  if (!reasoning_.empty()) message["reasoning_content"] = reasoning_;
  for (const Call& call : calls_) {
    message["tool_calls"].push_back(
        {{"id", call.id}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return message;
}

}  // namespace holdfast

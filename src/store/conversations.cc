// What people and clients see of the catalogue: lists, details, messages, forks.

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "store/store_core.h"

namespace holdfast {
namespace {

// Everything of ConversationInfo but `bytes` in one row.
constexpr const char* kInfoColumns =
    "SELECT conversation.id, title, tags, pinned, conversation.bad, forked_from, fork_position, "
    "n_live, durable, created, used, space.model, space.numerics, space.page_tokens, "
    "length(conversation.tail), conversation.space, "
    "(SELECT count(*) FROM kept WHERE kept.conversation = conversation.id), "
    "(SELECT count(*) FROM message WHERE message.conversation = conversation.id) "
    "FROM conversation JOIN space ON space.id = conversation.space ";

ConversationInfo InfoOf(const Query& query, int64_t my_space) {
  ConversationInfo info;
  info.id = query.Text(0);
  info.title = query.Text(1);
  info.tags = TagsFromText(query.Text(2));
  info.pinned = query.Int(3) != 0;
  info.quarantined = query.Text(4);
  info.forked_from = query.Text(5);
  info.fork_position = query.Int(6);
  const int64_t n_live = query.Int(7), page_tokens = std::max<int64_t>(query.Int(13), 1);
  info.n_tokens =
      n_live / page_tokens * page_tokens + query.Int(14) / static_cast<int64_t>(sizeof(int32_t));
  info.durable_tokens = query.Int(8);
  info.created_ms = query.Int(9);
  info.used_ms = query.Int(10);
  info.model = query.Text(11);
  info.numerics_key = query.Text(12);
  info.n_states = query.Int(16);
  info.n_messages = query.Int(17);
  info.usable = my_space != 0 && query.Int(15) == my_space && info.quarantined.empty();
  return info;
}

Result<uint64_t> BytesOf(Database* db, std::string_view id) {
  Query query(db,
              "WITH RECURSIVE "
              "mine(id) AS (SELECT state FROM kept WHERE conversation = ?1), "
              "chain(id) AS ("
              "  SELECT parent FROM conversation WHERE id = ?1"
              "  UNION SELECT page FROM conversation WHERE id = ?1"
              "  UNION SELECT parent FROM state WHERE id IN (SELECT id FROM mine)"
              "  UNION SELECT page FROM state WHERE id IN (SELECT id FROM mine)"
              "  UNION SELECT page.parent FROM page JOIN chain ON page.id = chain.id), "
              "parts(id) AS ("
              "  SELECT trunk FROM page WHERE id IN (SELECT id FROM chain)"
              "  UNION SELECT draft FROM page WHERE id IN (SELECT id FROM chain)"
              "  UNION SELECT trunk FROM state WHERE id IN (SELECT id FROM mine)"
              "  UNION SELECT draft FROM state WHERE id IN (SELECT id FROM mine)) "
              "SELECT coalesce(sum(bytes), 0) FROM part WHERE id IN (SELECT id FROM parts)",
              id);
  const int64_t bytes = query.Next() ? query.Int(0) : 0;
  HF_RETURN_IF_ERROR(query.status());
  return static_cast<uint64_t>(bytes);
}

Result<std::vector<std::string>> ToolCallIds(Database* db, std::string_view id, int64_t number) {
  std::vector<std::string> ids;
  Query query(db, "SELECT id FROM tool_call WHERE conversation = ? AND number = ? ORDER BY place",
              id, number);
  while (query.Next()) ids.push_back(query.Text(0));
  HF_RETURN_IF_ERROR(query.status());
  return ids;
}

// Columns role, content, hash, token_begin, token_end from `column` on. The span is within
// [0, n_tokens], whatever the row says.
StoredMessage MessageOf(const Query& query, int column, int64_t n_tokens) {
  StoredMessage message;
  message.role = query.Text(column);
  message.content = query.Text(column + 1);
  message.hash = query.Hash(column + 2).value_or(Hash128{});
  message.token_begin = std::clamp<int64_t>(query.Int(column + 3), 0, n_tokens);
  message.token_end = std::clamp<int64_t>(query.Int(column + 4), message.token_begin, n_tokens);
  return message;
}

Result<std::vector<StateInfo>> StatesOf(Database* db, std::string_view id, int64_t space) {
  std::vector<StateInfo> states;
  Query query(db,
              "SELECT position, kind, draft, row, coalesce(state.bad, (SELECT page.bad FROM page "
              "WHERE page.id = state.page)) FROM kept JOIN state ON state.id = kept.state "
              "WHERE conversation = ? AND state.space = ? ORDER BY position",
              id, space);
  while (query.Next()) {
    states.push_back({query.Int(0), static_cast<StateKind>(query.Int(1)), query.Int(2) != 0,
                      query.Hash(3).has_value(), query.Text(4)});
  }
  HF_RETURN_IF_ERROR(query.status());
  return states;
}

}  // namespace

Result<std::vector<StoredMessage>> ReadMessages(Database* db, std::string_view id,
                                                int64_t n_tokens) {
  std::vector<StoredMessage> messages;
  std::vector<int64_t> numbers;
  {
    Query query(db,
                "SELECT number, role, content, hash, token_begin, token_end FROM message "
                "WHERE conversation = ? ORDER BY number",
                id);
    while (query.Next()) {
      numbers.push_back(query.Int(0));
      messages.push_back(MessageOf(query, 1, n_tokens));
    }
    HF_RETURN_IF_ERROR(query.status());
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    HF_ASSIGN_OR_RETURN(messages[i].tool_call_ids, ToolCallIds(db, id, numbers[i]));
  }
  return messages;
}

Result<std::vector<ConversationInfo>> ListConversations(StoreCore* core) {
  std::lock_guard lock(core->db_mutex);
  std::vector<ConversationInfo> list;
  {
    const std::string sql = std::string(kInfoColumns) + "ORDER BY used DESC, conversation.id";
    Query query(core->db.get(), sql.c_str());
    while (query.Next()) list.push_back(InfoOf(query, core->spaces.space));
    HF_RETURN_IF_ERROR(query.status());
  }
  for (ConversationInfo& info : list) {
    HF_ASSIGN_OR_RETURN(info.bytes, BytesOf(core->db.get(), info.id));
  }
  return list;
}

Result<ConversationDetail> ShowConversation(StoreCore* core, std::string_view id) {
  std::lock_guard lock(core->db_mutex);
  Database* db = core->db.get();
  HF_ASSIGN_OR_RETURN(ConversationRow row, ReadConversation(db, id));
  ConversationDetail detail;
  {
    const std::string sql = std::string(kInfoColumns) + "WHERE conversation.id = ?";
    Query query(db, sql.c_str(), id);
    if (query.Next()) detail.info = InfoOf(query, core->spaces.space);
    HF_RETURN_IF_ERROR(query.status());
  }
  HF_ASSIGN_OR_RETURN(detail.info.bytes, BytesOf(db, id));
  HF_ASSIGN_OR_RETURN(detail.states, StatesOf(db, id, row.space));
  HF_ASSIGN_OR_RETURN(detail.messages, ReadMessages(db, id, row.tokens.span().size()));
  detail.tokens = std::move(row.tokens.ids);
  detail.content_hashes = std::move(row.tokens.content);
  return detail;
}

Status ForkConversation(StoreCore* core, std::string_view id, std::string_view new_id,
                        int64_t position) {
  HF_RETURN_IF_ERROR(CheckConversationId(new_id));
  std::lock_guard write_lock(core->write_mutex);
  std::lock_guard lock(core->db_mutex);
  Database* db = core->db.get();
  HF_ASSIGN_OR_RETURN(const ConversationRow row, ReadConversation(db, id));
  if (!row.bad.empty()) {
    return FailedPreconditionError(fmt::format("conversation {} is quarantined: {}", id, row.bad));
  }
  if (position < 0) position = row.n_live;
  if (position < 1 || position > row.n_live) {
    return OutOfRangeError(
        fmt::format("fork of {} at {}, wanted 1 to {}", id, position, row.n_live));
  }
  const int64_t n_full = position / row.page_tokens;
  const TokenSpan tail = row.tokens.span().Part(n_full * row.page_tokens, position);
  const int64_t parent = n_full == 0 ? 0 : row.page_ids[n_full - 1];
  int64_t page = 0;
  if (!tail.ids.empty()) {
    page = n_full < static_cast<int64_t>(row.page_ids.size()) ? row.page_ids[n_full] : row.page;
  }
  const int64_t now = core->options.now_ms();
  return core->Change([&]() -> Status {
    {
      Query taken(db, "SELECT 1 FROM conversation WHERE id = ?", new_id);
      if (taken.Next()) {
        return AlreadyExistsError(fmt::format("conversation {} is in the store already", new_id));
      }
      HF_RETURN_IF_ERROR(taken.status());
    }
    HF_RETURN_IF_ERROR(RunSql(
        db,
        "INSERT INTO conversation(id, space, title, tags, pinned, forked_from, fork_position, "
        "created, used, parent, page, tail, content, n_live, durable) "
        "SELECT ?1, space, title, tags, 0, id, ?2, ?3, ?3, ?4, ?5, ?6, ?7, ?2, min(durable, ?2) "
        "FROM conversation WHERE id = ?8",
        new_id, position, now, parent, page, TokenBytes(tail), ContentBytes(tail), id));
    // States past a divergence are at positions the new conversation may never have had; what is
    // not on its chain does no harm there, and is found by its tokens only.
    HF_RETURN_IF_ERROR(RunSql(db,
                              "INSERT INTO kept(conversation, state, kind) "
                              "SELECT ?1, kept.state, kept.kind FROM kept JOIN state "
                              "ON state.id = kept.state "
                              "WHERE kept.conversation = ?2 AND state.position <= ?3",
                              new_id, id, position));
    HF_RETURN_IF_ERROR(RunSql(
        db,
        "INSERT INTO message(conversation, number, role, content, hash, token_begin, token_end) "
        "SELECT ?1, number, role, content, hash, token_begin, token_end FROM message "
        "WHERE conversation = ?2 AND token_end <= ?3",
        new_id, id, position));
    HF_RETURN_IF_ERROR(RunSql(db,
                              "INSERT INTO tool_call(conversation, number, place, id) "
                              "SELECT ?1, number, place, id FROM tool_call WHERE conversation = ?2 "
                              "AND number IN (SELECT number FROM message WHERE conversation = ?1)",
                              new_id, id));
    return RefreshDurable(core, new_id);
  });
}

Result<std::vector<FoundMessage>> FindStoredMessages(StoreCore* core, const Hash128* hash,
                                                     std::string_view tool_call_id) {
  HF_RETURN_IF_ERROR(core->NeedKeys());
  std::lock_guard lock(core->db_mutex);
  Database* db = core->db.get();
  std::vector<FoundMessage> found;
  std::vector<int64_t> numbers;
  {
    // Token ids mean something in this vocabulary only, so other models' messages do not count.
    std::optional<Query> query;
    if (hash != nullptr) {
      query.emplace(db,
                    "SELECT message.conversation, message.number, role, message.content, hash, "
                    "token_begin, token_end FROM message JOIN conversation "
                    "ON conversation.id = message.conversation JOIN space ON space.id = "
                    "conversation.space WHERE message.hash = ? AND space.vocabulary = ? "
                    "ORDER BY conversation.used DESC, message.number LIMIT ?",
                    *hash, core->keys->model.vocabulary, kMaxFoundMessages);
    } else {
      query.emplace(db,
                    "SELECT message.conversation, message.number, role, message.content, hash, "
                    "token_begin, token_end FROM tool_call JOIN message "
                    "ON message.conversation = tool_call.conversation "
                    "AND message.number = tool_call.number JOIN conversation "
                    "ON conversation.id = message.conversation JOIN space ON space.id = "
                    "conversation.space WHERE tool_call.id = ? AND space.vocabulary = ? "
                    "ORDER BY conversation.used DESC, message.number LIMIT ?",
                    tool_call_id, core->keys->model.vocabulary, kMaxFoundMessages);
    }
    while (query->Next()) {
      found.push_back({query->Text(0), MessageOf(*query, 2, std::numeric_limits<int64_t>::max())});
      numbers.push_back(query->Int(1));
    }
    HF_RETURN_IF_ERROR(query->status());
  }
  for (size_t i = 0; i < found.size(); ++i) {
    HF_ASSIGN_OR_RETURN(found[i].message.tool_call_ids,
                        ToolCallIds(db, found[i].conversation, numbers[i]));
  }
  return found;
}

Result<ConversationTokens> TokensOfConversation(StoreCore* core, std::string_view id) {
  std::lock_guard lock(core->db_mutex);
  HF_ASSIGN_OR_RETURN(ConversationRow row, ReadConversation(core->db.get(), id));
  return ConversationTokens{std::move(row.tokens.ids), std::move(row.tokens.content), row.n_live};
}

}  // namespace holdfast

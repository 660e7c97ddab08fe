#include "store/store_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace holdfast {

std::string StoreCore::SegmentPath(int64_t id) const {
  return fmt::format("{}/{:016x}.seg", segments_dir, static_cast<uint64_t>(id));
}

std::string StoreCore::TemporaryPath(int64_t id) const {
  return fmt::format("{}/{:016x}.tmp", segments_dir, static_cast<uint64_t>(id));
}

Result<int64_t> StoreCore::NewSegmentId() {
  for (;;) {
    const auto id = static_cast<int64_t>(options.random() >> 1);
    if (id == 0) continue;
    Query query(db.get(), "SELECT 1 FROM segment WHERE id = ?", id);
    const bool taken = query.Next();
    HF_RETURN_IF_ERROR(query.status());
    if (!taken) return id;
  }
}

Status StoreCore::CheckPresent() {
  HF_ASSIGN_OR_RETURN(const bool there, file_system->Exists(segments_dir));
  if (there) return OkStatus();
  return UnavailableError(
      fmt::format("store {}: the directory has vanished; nothing is saved until "
                  "it is back and the server restarted",
                  options.dir));
}

Status StoreCore::NeedKeys() const {
  if (keys) return OkStatus();
  return FailedPreconditionError(fmt::format(
      "store {}: opened without a model, wanted one to save to or load from it", options.dir));
}

Status StoreCore::Change(const std::function<Status()>& change) {
  HF_RETURN_IF_ERROR(CheckPresent());
  Transaction transaction(db.get());
  HF_RETURN_IF_ERROR(transaction.Begin());
  HF_RETURN_IF_ERROR(change());
  return transaction.Commit();
}

std::string TagsToText(const std::vector<std::string>& tags) {
  return nlohmann::json(tags).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::string> TagsFromText(std::string_view text) {
  std::vector<std::string> tags;
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) return tags;
  for (const auto& tag : json) {
    if (tag.is_string()) tags.push_back(tag.get<std::string>());
  }
  return tags;
}

Result<ConversationRow> ReadConversation(Database* db, std::string_view id) {
  ConversationRow row;
  TokenList tail;
  {
    Query query(db,
                "SELECT conversation.id, conversation.space, conversation.parent, "
                "conversation.page, conversation.n_live, conversation.bad, space.page_tokens, "
                "conversation.tail, conversation.content FROM conversation "
                "JOIN space ON space.id = conversation.space WHERE conversation.id = ?",
                id);
    if (!query.Next()) {
      HF_RETURN_IF_ERROR(query.status());
      return NotFoundError(fmt::format("conversation {} is not in the store", id));
    }
    row.id = query.Text(0);
    row.space = query.Int(1);
    row.parent = query.Int(2);
    row.page = query.Int(3);
    row.n_live = query.Int(4);
    row.bad = query.Text(5);
    const int64_t page_tokens = query.Int(6);
    if (page_tokens < 1 || page_tokens > std::numeric_limits<int>::max()) {
      return DataLossError(fmt::format("catalogue: pages of {} tokens", page_tokens));
    }
    row.page_tokens = static_cast<int>(page_tokens);
    HF_ASSIGN_OR_RETURN(tail, TokensOfRow(query, 7, 8, std::numeric_limits<int32_t>::max()));
  }
  HF_ASSIGN_OR_RETURN(PageChain chain, ReadChain(db, row.parent, row.page_tokens));
  row.page_ids = std::move(chain.ids);
  row.tokens = std::move(chain.tokens);
  const int64_t n_paged = row.tokens.span().size();
  row.tokens.Append(tail.span());
  if (row.n_live < n_paged || row.n_live > row.tokens.span().size() ||
      row.n_live - n_paged >= row.page_tokens || (row.page == 0) != (row.n_live == n_paged)) {
    return DataLossError(
        fmt::format("catalogue: conversation {} has {} live of {} tokens, {} of "
                    "them in full pages",
                    id, row.n_live, row.tokens.ids.size(), n_paged));
  }
  return row;
}

Result<std::optional<StoredPrefix>> FindStored(StoreCore* core, const TokenSpan& tokens,
                                               int64_t at_most) {
  if (core->spaces.space == 0) return std::optional<StoredPrefix>();
  PrefixIndex index = core->Index();
  HF_ASSIGN_OR_RETURN(const std::vector<PageRow> chain, index.FindChain(tokens));
  HF_ASSIGN_OR_RETURN(const std::optional<StateRow> state,
                      index.FindDeepest(chain, tokens, at_most));
  if (!state) return std::optional<StoredPrefix>();
  StoredPrefix prefix;
  prefix.state_id = state->id;
  prefix.position = state->position;
  prefix.proof = state->proof;
  const int64_t draft_space = core->spaces.draft_space;
  prefix.has_draft = draft_space != 0 && state->draft_space == draft_space;
  const auto add_page = [&](const PageRow& page) {
    prefix.page_ids.push_back(page.id);
    prefix.has_draft = prefix.has_draft && page.draft_space == draft_space;
  };
  const int64_t n_full = state->position / core->keys->page_tokens;
  for (int64_t i = 0; i < n_full; ++i) add_page(chain[i]);
  if (state->page != 0) {
    HF_ASSIGN_OR_RETURN(const PageRow page, ReadPage(core->db.get(), state->page));
    add_page(page);
  }
  Query query(core->db.get(),
              "SELECT conversation.id, kept.kind FROM kept JOIN conversation "
              "ON conversation.id = kept.conversation WHERE kept.state = ? "
              "ORDER BY conversation.used DESC LIMIT 1",
              state->id);
  if (query.Next()) {
    prefix.conversation = query.Text(0);
    prefix.kind = static_cast<StateKind>(query.Int(1));
  }
  HF_RETURN_IF_ERROR(query.status());
  return std::optional(std::move(prefix));
}

Status RefreshDurable(StoreCore* core, std::string_view conversation) {
  HF_ASSIGN_OR_RETURN(const ConversationRow row, ReadConversation(core->db.get(), conversation));
  int64_t durable = 0;
  // Of another space nothing can be resumed here, and its figure stays what its engine said.
  if (!core->keys || row.space != core->spaces.space) return OkStatus();
  HF_ASSIGN_OR_RETURN(const auto prefix, FindStored(core, row.tokens.span(), row.n_live));
  if (prefix) durable = prefix->position;
  return RunSql(core->db.get(), "UPDATE conversation SET durable = ? WHERE id = ?", durable,
                conversation);
}

Status RefreshAllDurable(StoreCore* core) {
  std::vector<std::string> ids;
  {
    Query query(core->db.get(), "SELECT id FROM conversation WHERE bad IS NULL");
    while (query.Next()) ids.push_back(query.Text(0));
    HF_RETURN_IF_ERROR(query.status());
  }
  for (const std::string& id : ids) HF_RETURN_IF_ERROR(RefreshDurable(core, id));
  return OkStatus();
}

}  // namespace holdfast

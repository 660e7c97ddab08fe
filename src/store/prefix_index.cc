#include "store/prefix_index.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

#include "store/little_endian.h"

namespace holdfast {
namespace {

// Narrows the search for a page; equal hashes are compared in full.
uint64_t LookupHash(const TokenSpan& tokens) {
  return XXH3_64bits(tokens.ids.data(), tokens.ids.size_bytes());
}

// Pages looked at for the explanation of a miss; it need not be complete to be useful.
constexpr int kMaxSiblings = 4096;

PageRow PageOf(const Query& query) {
  return {query.Int(0), query.Int(1), query.Int(2), query.Int(3), !query.IsNull(4)};
}

bool BeginsWith(const TokenSpan& whole, const TokenSpan& beginning) {
  return whole.size() >= beginning.size() && CommonPrefix(whole, beginning) == beginning.size();
}

StateRow StateOf(const Query& query) {
  StateRow row;
  row.id = query.Int(0);
  row.position = query.Int(1);
  row.page = query.Int(2);
  row.trunk = query.Int(3);
  row.draft = query.Int(4);
  row.draft_space = query.Int(5);
  const std::optional<Hash128> hash = query.Hash(7);
  if (!query.IsNull(6) && hash) {
    row.proof = StateProof{static_cast<int32_t>(query.Int(6)), *hash};
  }
  row.bad = !query.IsNull(8);
  return row;
}

}  // namespace

TokenSpan TokenSpan::Part(int64_t begin, int64_t end) const {
  const size_t n = static_cast<size_t>(end - begin);
  return {ids.subspan(static_cast<size_t>(begin), n),
          content.empty() ? content : content.subspan(static_cast<size_t>(begin), n)};
}

bool TokenSpan::is_text() const {
  return std::all_of(content.begin(), content.end(), [](uint64_t hash) { return hash == 0; });
}

void TokenList::Append(const TokenSpan& tokens) {
  if (!tokens.is_text() || !content.empty()) {
    content.resize(ids.size());
    for (size_t i = 0; i < tokens.ids.size(); ++i) content.push_back(tokens.content_at(i));
  }
  ids.insert(ids.end(), tokens.ids.begin(), tokens.ids.end());
}

Result<TokenList> TokensOfRow(const Query& query, int tokens_column, int content_column,
                              int64_t max_tokens) {
  const std::span<const std::byte> ids = query.Blob(tokens_column);
  const size_t n = ids.size() / sizeof(int32_t);
  if (ids.size() % sizeof(int32_t) != 0 || n > static_cast<size_t>(max_tokens)) {
    return DataLossError(fmt::format("catalogue: {} bytes of token ids, wanted at most {} ids",
                                     ids.size(), max_tokens));
  }
  TokenList tokens;
  tokens.ids = IntegersOf<int32_t>(ids);
  if (query.IsNull(content_column)) return tokens;
  const std::span<const std::byte> content = query.Blob(content_column);
  if (content.size() != n * sizeof(uint64_t)) {
    return DataLossError(
        fmt::format("catalogue: {} bytes of content hashes for {} tokens", content.size(), n));
  }
  tokens.content = IntegersOf<uint64_t>(content);
  return tokens;
}

std::span<const std::byte> TokenBytes(const TokenSpan& tokens) { return std::as_bytes(tokens.ids); }

std::optional<std::vector<std::byte>> ContentBytes(const TokenSpan& tokens) {
  if (tokens.is_text()) return std::nullopt;
  const std::span<const std::byte> bytes = std::as_bytes(tokens.content);
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

int64_t CommonPrefix(const TokenSpan& a, const TokenSpan& b) {
  const int64_t n = std::min(a.size(), b.size());
  for (int64_t i = 0; i < n; ++i) {
    if (a.ids[i] != b.ids[i] || a.content_at(i) != b.content_at(i)) return i;
  }
  return n;
}

Result<std::optional<PageRow>> PrefixIndex::FindPage(int64_t parent, const TokenSpan& tokens) {
  Query query(db_,
              "SELECT id, trunk, draft, draft_space, bad, tokens, content FROM page "
              "WHERE parent = ? AND space = ? AND hash = ?",
              parent, space_, LookupHash(tokens));
  while (query.Next()) {
    HF_ASSIGN_OR_RETURN(const TokenList stored, TokensOfRow(query, 5, 6, page_tokens_));
    if (stored.span().size() == tokens.size() && BeginsWith(stored.span(), tokens)) {
      return std::optional(PageOf(query));
    }
  }
  HF_RETURN_IF_ERROR(query.status());
  return std::optional<PageRow>();
}

Result<std::optional<PageRow>> PrefixIndex::FindCovering(int64_t parent, const TokenSpan& tokens,
                                                         int64_t draft_space) {
  std::optional<PageRow> best;
  Query query(db_,
              "SELECT id, trunk, draft, draft_space, bad, tokens, content FROM page "
              "WHERE parent = ? AND space = ? AND bad IS NULL ORDER BY id DESC",
              parent, space_);
  while (query.Next()) {
    HF_ASSIGN_OR_RETURN(const TokenList stored, TokensOfRow(query, 5, 6, page_tokens_));
    if (!BeginsWith(stored.span(), tokens)) continue;
    const PageRow row = PageOf(query);
    const bool drafted = draft_space != 0 && row.draft_space == draft_space;
    if (!best || drafted) best = row;
    if (draft_space == 0 || drafted) break;
  }
  HF_RETURN_IF_ERROR(query.status());
  return best;
}

Result<std::vector<PageRow>> PrefixIndex::FindChain(const TokenSpan& tokens) {
  std::vector<PageRow> chain;
  int64_t parent = 0;
  for (int64_t end = page_tokens_; end <= tokens.size(); end += page_tokens_) {
    HF_ASSIGN_OR_RETURN(const std::optional<PageRow> page,
                        FindPage(parent, tokens.Part(end - page_tokens_, end)));
    if (!page || page->bad) break;
    chain.push_back(*page);
    parent = page->id;
  }
  return chain;
}

Result<std::optional<StateRow>> PrefixIndex::FindState(int64_t parent, int64_t position,
                                                       const TokenSpan& tail) {
  Query query(db_,
              "SELECT id, position, page, trunk, draft, draft_space, next_token, row, bad, tail, "
              "content FROM state WHERE parent = ? AND space = ? AND position = ?",
              parent, space_, position);
  while (query.Next()) {
    HF_ASSIGN_OR_RETURN(const TokenList stored, TokensOfRow(query, 9, 10, page_tokens_));
    if (stored.span().size() == tail.size() && BeginsWith(stored.span(), tail)) {
      return std::optional(StateOf(query));
    }
  }
  HF_RETURN_IF_ERROR(query.status());
  return std::optional<StateRow>();
}

Result<std::optional<StateRow>> PrefixIndex::FindDeepest(const std::vector<PageRow>& chain,
                                                         const TokenSpan& tokens, int64_t at_most) {
  at_most = std::min(at_most, tokens.size());
  for (int64_t depth = static_cast<int64_t>(chain.size()); depth >= 0; --depth) {
    const int64_t begin = depth * page_tokens_;
    if (begin > at_most) continue;
    Query query(
        db_,
        "SELECT id, position, page, trunk, draft, draft_space, next_token, row, bad, tail, content "
        "FROM state WHERE parent = ? AND space = ? AND position <= ? AND bad IS NULL "
        "AND EXISTS (SELECT 1 FROM kept WHERE kept.state = state.id) "
        "AND (page = 0 OR EXISTS (SELECT 1 FROM page WHERE page.id = state.page AND page.bad IS "
        "NULL)) ORDER BY position DESC, id DESC",
        depth == 0 ? 0 : chain[depth - 1].id, space_, at_most);
    while (query.Next()) {
      const StateRow row = StateOf(query);
      HF_ASSIGN_OR_RETURN(const TokenList tail, TokensOfRow(query, 9, 10, page_tokens_));
      if (row.position != begin + tail.span().size() || row.position < 1) {
        return DataLossError(
            fmt::format("catalogue: state {} at position {} with {} tokens after "
                        "page {}",
                        row.id, row.position, tail.ids.size(), depth));
      }
      if (row.position > at_most || (row.page == 0) != tail.ids.empty()) continue;
      if (BeginsWith(tokens.Part(begin, tokens.size()), tail.span())) return std::optional(row);
    }
    HF_RETURN_IF_ERROR(query.status());
  }
  return std::optional<StateRow>();
}

Result<int64_t> PrefixIndex::InsertPage(int64_t parent, const TokenSpan& tokens, int64_t trunk,
                                        int64_t draft_space, int64_t draft) {
  HF_RETURN_IF_ERROR(RunSql(db_,
                            "INSERT INTO page(space, parent, hash, tokens, content, trunk, "
                            "draft_space, draft) VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
                            space_, parent, LookupHash(tokens), TokenBytes(tokens),
                            ContentBytes(tokens), trunk, draft_space, draft));
  return db_->last_insert_id();
}

Status PrefixIndex::Supersede(int64_t parent, int64_t id, const TokenSpan& tokens,
                              int64_t draft_space) {
  std::vector<int64_t> shorter;
  {
    Query query(db_,
                "SELECT id, trunk, draft, draft_space, bad, tokens, content FROM page "
                "WHERE parent = ? AND space = ? AND id <> ? AND length(tokens) < ?",
                parent, space_, id, static_cast<uint64_t>(tokens.ids.size_bytes()));
    while (query.Next()) {
      const PageRow row = PageOf(query);
      HF_ASSIGN_OR_RETURN(const TokenList stored, TokensOfRow(query, 5, 6, page_tokens_));
      const bool loses_draft = row.draft_space != 0 && row.draft_space != draft_space;
      if (!loses_draft && BeginsWith(tokens, stored.span())) shorter.push_back(row.id);
    }
    HF_RETURN_IF_ERROR(query.status());
  }
  for (const int64_t old : shorter) {
    HF_RETURN_IF_ERROR(RunSql(db_, "UPDATE state SET page = ? WHERE page = ?", id, old));
    HF_RETURN_IF_ERROR(RunSql(db_, "UPDATE conversation SET page = ? WHERE page = ?", id, old));
  }
  return OkStatus();
}

Result<PrefixIndex::Divergence> PrefixIndex::FindDivergence(const std::vector<PageRow>& chain,
                                                            const TokenSpan& tokens) {
  const int64_t begin = static_cast<int64_t>(chain.size()) * page_tokens_;
  const TokenSpan rest = tokens.Part(begin, tokens.size());
  Divergence best{begin, -1};
  Query query(db_,
              "SELECT tokens, content FROM page WHERE parent = ? AND space = ? "
              "ORDER BY id DESC LIMIT ?",
              chain.empty() ? 0 : chain.back().id, space_, kMaxSiblings);
  while (query.Next()) {
    HF_ASSIGN_OR_RETURN(const TokenList stored, TokensOfRow(query, 0, 1, page_tokens_));
    const int64_t n = CommonPrefix(stored.span(), rest);
    if (begin + n < best.matched || (begin + n == best.matched && best.expected >= 0)) continue;
    best.matched = begin + n;
    best.expected = n < stored.span().size() ? stored.ids[n] : -1;
  }
  HF_RETURN_IF_ERROR(query.status());
  return best;
}

Result<PageRow> ReadPage(Database* db, int64_t id) {
  Query query(db, "SELECT id, trunk, draft, draft_space, bad FROM page WHERE id = ?", id);
  if (query.Next()) return PageOf(query);
  HF_RETURN_IF_ERROR(query.status());
  return NotFoundError(fmt::format("catalogue: page {} is not there", id));
}

Result<PageChain> ReadChain(Database* db, int64_t leaf, int page_tokens) {
  std::vector<TokenList> pages;
  PageChain chain;
  for (int64_t id = leaf; id != 0;) {
    Query query(db, "SELECT parent, tokens, content FROM page WHERE id = ?", id);
    if (!query.Next()) {
      HF_RETURN_IF_ERROR(query.status());
      return DataLossError(fmt::format("catalogue: page {} is not there", id));
    }
    const int64_t parent = query.Int(0);
    HF_ASSIGN_OR_RETURN(TokenList tokens, TokensOfRow(query, 1, 2, page_tokens));
    if (parent < 0 || parent >= id || tokens.span().size() != page_tokens) {
      return DataLossError(fmt::format("catalogue: page {} has parent {} and {} of {} tokens", id,
                                       parent, tokens.ids.size(), page_tokens));
    }
    pages.push_back(std::move(tokens));
    chain.ids.push_back(id);
    id = parent;
  }
  std::reverse(chain.ids.begin(), chain.ids.end());
  for (auto page = pages.rbegin(); page != pages.rend(); ++page) chain.tokens.Append(page->span());
  return chain;
}

}  // namespace holdfast

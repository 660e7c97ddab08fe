#ifndef HOLDFAST_STORE_PREFIX_INDEX_H_
#define HOLDFAST_STORE_PREFIX_INDEX_H_

// Finds token prefixes in the catalogue. A hash only narrows the search: every match is compared
// token by token.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/sqlite.h"
#include "store/store_types.h"

namespace holdfast {

// Token ids with their content hashes; no hashes at all stands for zeros.
struct TokenSpan {
  std::span<const int32_t> ids;
  std::span<const uint64_t> content;

  int64_t size() const { return static_cast<int64_t>(ids.size()); }
  uint64_t content_at(size_t i) const { return content.empty() ? 0 : content[i]; }
  TokenSpan Part(int64_t begin, int64_t end) const;
  // All hashes are 0: stored as none.
  bool is_text() const;
};

// The same, owned.
struct TokenList {
  std::vector<int32_t> ids;
  std::vector<uint64_t> content;
  TokenSpan span() const { return {ids, content}; }
  void Append(const TokenSpan& tokens);
};

// Columns `tokens`, `content` as a query gives them; kDataLoss for other sizes than [0, max].
Result<TokenList> TokensOfRow(const Query& query, int tokens_column, int content_column,
                              int64_t max_tokens);
// What to bind for them.
std::span<const std::byte> TokenBytes(const TokenSpan& tokens);
std::optional<std::vector<std::byte>> ContentBytes(const TokenSpan& tokens);

// Tokens both begin with.
int64_t CommonPrefix(const TokenSpan& a, const TokenSpan& b);

struct PageRow {
  int64_t id = 0;
  int64_t trunk = 0, draft = 0, draft_space = 0;
  bool bad = false;
};

struct StateRow {
  int64_t id = 0, position = 0;
  int64_t page = 0;  // covers the tokens since the last full page; 0 when there are none
  int64_t trunk = 0, draft = 0, draft_space = 0;
  std::optional<StateProof> proof;
  bool bad = false;
};

class PrefixIndex {
 public:
  PrefixIndex(Database* db, int64_t space, int page_tokens)
      : db_(db), space_(space), page_tokens_(page_tokens) {}

  // The page with exactly these tokens below `parent` (0: at the beginning).
  Result<std::optional<PageRow>> FindPage(int64_t parent, const TokenSpan& tokens);
  // A sound page below `parent` whose tokens begin with `tokens`; one of `draft_space` if there is.
  Result<std::optional<PageRow>> FindCovering(int64_t parent, const TokenSpan& tokens,
                                              int64_t draft_space);
  // The sound full pages that `tokens` begins with, as far as they are there.
  Result<std::vector<PageRow>> FindChain(const TokenSpan& tokens);
  // The state after exactly `tokens`, of which `chain` holds the full pages.
  Result<std::optional<StateRow>> FindState(int64_t parent, int64_t position,
                                            const TokenSpan& tail);
  // The deepest sound and kept state at a position in [1, at_most] of `tokens`.
  Result<std::optional<StateRow>> FindDeepest(const std::vector<PageRow>& chain,
                                              const TokenSpan& tokens, int64_t at_most);
  // Adds a page; its id.
  Result<int64_t> InsertPage(int64_t parent, const TokenSpan& tokens, int64_t trunk,
                             int64_t draft_space, int64_t draft);
  // Lets everything that uses a shorter page with the same beginning use page `id` instead, so that
  // the shorter one can go. Not those that would lose a draft part.
  Status Supersede(int64_t parent, int64_t id, const TokenSpan& tokens, int64_t draft_space);
  // How far any page below the chain goes along with `tokens`, and the stored token that differs.
  struct Divergence {
    int64_t matched = 0;
    int32_t expected = -1;
  };
  Result<Divergence> FindDivergence(const std::vector<PageRow>& chain, const TokenSpan& tokens);

 private:
  Database* db_;
  int64_t space_;
  int64_t page_tokens_;
};

// A page's row by id. kNotFound when it is not there.
Result<PageRow> ReadPage(Database* db, int64_t id);
// The full pages from the beginning to `leaf`, and their tokens. kDataLoss for a broken chain.
struct PageChain {
  std::vector<int64_t> ids;
  TokenList tokens;
};
Result<PageChain> ReadChain(Database* db, int64_t leaf, int page_tokens);

}  // namespace holdfast

#endif  // HOLDFAST_STORE_PREFIX_INDEX_H_

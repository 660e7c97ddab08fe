#include <fmt/format.h>

#include "store/store_core.h"

namespace holdfast {
namespace {

std::string Explain(const FindResult& result, int64_t n_tokens) {
  const int64_t position = result.prefix ? result.prefix->position : 0;
  std::string where;
  if (result.matched_tokens >= n_tokens) {
    where = "the whole prompt is stored";
  } else if (result.expected >= 0) {
    where = fmt::format("token {} is {}, stored is {}", result.matched_tokens, result.found,
                        result.expected);
  } else if (result.matched_tokens > 0) {
    where = fmt::format("stored up to token {}", result.matched_tokens);
  } else {
    return "nothing stored begins like this";
  }
  if (position == result.matched_tokens || position == n_tokens - 1) return where;
  return where + fmt::format("; the nearest running state before it is at {}", position);
}

}  // namespace

Result<FindResult> FindPrefix(StoreCore* core, const TokenSpan& tokens) {
  HF_RETURN_IF_ERROR(core->NeedKeys());
  std::lock_guard lock(core->db_mutex);
  FindResult result;
  if (core->spaces.space != 0) {
    PrefixIndex index = core->Index();
    HF_ASSIGN_OR_RETURN(const std::vector<PageRow> chain, index.FindChain(tokens));
    HF_ASSIGN_OR_RETURN(const auto divergence, index.FindDivergence(chain, tokens));
    result.matched_tokens = divergence.matched;
    // A stored sequence that goes on where the prompt ends differs from it in nothing.
    if (divergence.matched < tokens.size()) {
      result.found = tokens.ids[static_cast<size_t>(divergence.matched)];
      result.expected = divergence.expected;
    }
    HF_ASSIGN_OR_RETURN(result.prefix, FindStored(core, tokens, tokens.size() - 1));
  }
  result.reason = Explain(result, tokens.size());
  return result;
}

Result<StoredPrefix> FindInConversation(StoreCore* core, std::string_view id, int64_t at_most) {
  HF_RETURN_IF_ERROR(core->NeedKeys());
  std::lock_guard lock(core->db_mutex);
  HF_ASSIGN_OR_RETURN(const ConversationRow row, ReadConversation(core->db.get(), id));
  if (!row.bad.empty()) {
    return FailedPreconditionError(fmt::format("conversation {} is quarantined: {}", id, row.bad));
  }
  if (row.space != core->spaces.space) {
    HF_ASSIGN_OR_RETURN(const StoreKeys theirs, ReadSpaceKeys(core->db.get(), {row.space, 0}));
    return FailedPreconditionError(fmt::format(
        "conversation {} was saved by model {} with layout {:016x} and numerics {}, this engine "
        "has {}, {:016x} and {}: it is read again",
        id, theirs.model.name, theirs.trunk_layout_key, theirs.numerics_key, core->keys->model.name,
        core->keys->trunk_layout_key, core->keys->numerics_key));
  }
  if (at_most < 0) at_most = row.n_live;
  HF_ASSIGN_OR_RETURN(auto prefix,
                      FindStored(core, row.tokens.span(), std::min(at_most, row.n_live)));
  if (prefix) return *std::move(prefix);
  return NotFoundError(
      fmt::format("conversation {} has no stored running state at or before {}", id, at_most));
}

}  // namespace holdfast

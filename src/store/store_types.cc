#include "store/store_types.h"

#include <fmt/format.h>

namespace holdfast {
namespace {

// Far above any layout; they keep sums of sizes within 64 bits.
constexpr int kMaxPageTokens = 1 << 16;
constexpr size_t kMaxBufferBytes = size_t{1} << 40;
constexpr int64_t kMaxTokens = int64_t{1} << 31;

Status CheckSize(const char* what, size_t bytes, size_t least) {
  if (bytes >= least && bytes <= kMaxBufferBytes) return OkStatus();
  return InvalidArgumentError(
      fmt::format("{} of {} bytes, wanted {} to {}", what, bytes, least, kMaxBufferBytes));
}

}  // namespace

Status StoreKeys::Validate() const {
  if (page_tokens < 1 || page_tokens > kMaxPageTokens) {
    return InvalidArgumentError(
        fmt::format("pages of {} tokens, wanted 1 to {}", page_tokens, kMaxPageTokens));
  }
  if (max_tokens < 0 || max_tokens > kMaxTokens || vocab_size < 0 || vocab_size > kMaxTokens) {
    return InvalidArgumentError(
        fmt::format("context of {} tokens and vocabulary of {}, wanted 0 "
                    "to {}",
                    max_tokens, vocab_size, kMaxTokens));
  }
  HF_RETURN_IF_ERROR(CheckSize("page", page_bytes, 1));
  HF_RETURN_IF_ERROR(CheckSize("running state", running_bytes, 0));
  if (draft_layout_key == 0) return OkStatus();
  HF_RETURN_IF_ERROR(CheckSize("draft page", draft_page_bytes, 1));
  return CheckSize("draft running state", draft_running_bytes, 0);
}

StoreKeys MakeStoreKeys(const ModelIdentity& model, const StateLayout& trunk,
                        const StateLayout* draft, std::string numerics_key, int64_t vocab_size,
                        int64_t max_tokens) {
  StoreKeys keys;
  keys.model = model;
  keys.trunk_layout_key = trunk.key();
  keys.kv_format = KvFormatName(trunk.kv_format());
  keys.numerics_key = std::move(numerics_key);
  keys.page_tokens = trunk.page_tokens();
  keys.page_bytes = trunk.page_bytes();
  keys.running_bytes = trunk.running_bytes();
  if (draft != nullptr) {
    keys.draft_layout_key = draft->key();
    keys.draft_page_bytes = draft->page_bytes();
    keys.draft_running_bytes = draft->running_bytes();
  }
  keys.vocab_size = vocab_size;
  keys.max_tokens = max_tokens;
  return keys;
}

std::string_view StateKindName(StateKind kind) {
  switch (kind) {
    case StateKind::kLadder:
      return "ladder";
    case StateKind::kCacheMark:
      return "cache_mark";
    case StateKind::kTurnEnd:
      return "turn_end";
    case StateKind::kBeforeReply:
      return "before_reply";
    case StateKind::kSystem:
      return "system";
    case StateKind::kLiveEnd:
      return "live_end";
  }
  return "?";
}

}  // namespace holdfast

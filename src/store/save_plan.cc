#include "store/save_plan.h"

#include <fmt/format.h>

#include <optional>

namespace holdfast {
namespace {

Status CheckPosition(const char* what, int64_t position, int64_t low, int64_t high) {
  if (position >= low && position <= high) return OkStatus();
  return InvalidArgumentError(
      fmt::format("save: {} {}, wanted {} to {}", what, position, low, high));
}

Status CheckTokens(const StoreKeys& keys, const SaveRequest& request) {
  const auto n = static_cast<int64_t>(request.tokens.size());
  HF_RETURN_IF_ERROR(CheckPosition("live end", request.n_live, 1, n));
  if (keys.max_tokens > 0 && n > keys.max_tokens) {
    return OutOfRangeError(
        fmt::format("save: {} tokens, this engine's context holds {}", n, keys.max_tokens));
  }
  if (!request.content_hashes.empty() && request.content_hashes.size() != request.tokens.size()) {
    return InvalidArgumentError(
        fmt::format("save: {} content hashes for {} tokens", request.content_hashes.size(), n));
  }
  for (const int32_t token : request.tokens) {
    if (token >= 0 && (keys.vocab_size == 0 || token < keys.vocab_size)) continue;
    return InvalidArgumentError(
        fmt::format("save: token {}, wanted 0 to {}", token, keys.vocab_size - 1));
  }
  return OkStatus();
}

Status PlanFullPages(PrefixIndex* index, const SaveRequest& request, int64_t n_full,
                     int64_t page_tokens, int64_t draft_space, SavePlan* plan) {
  bool known = true;  // the page before is stored, so this one may be
  int64_t parent = 0;
  for (int64_t i = 0; i < n_full; ++i) {
    PlannedPage page{plan->tokens.Part(i * page_tokens, (i + 1) * page_tokens)};
    std::optional<PageRow> row;
    if (known) {
      HF_ASSIGN_OR_RETURN(row, index->FindPage(parent, page.tokens));
    }
    if (row) page.id = parent = row->id;
    known = row.has_value();
    page.write_trunk = !row || row->bad;
    page.write_draft =
        request.has_draft && (!row || draft_space == 0 || row->draft_space != draft_space);
    plan->pages.push_back(page);
  }
  return OkStatus();
}

// A stored page whose tokens begin with the live tail serves as it is; only one with exactly these
// tokens may be repaired or given a draft part, because a longer one has cells we do not know.
Status PlanTailPage(PrefixIndex* index, const SaveRequest& request, int64_t n_full,
                    int64_t page_tokens, int64_t draft_space, SavePlan* plan) {
  PlannedPage page{plan->tokens.Part(n_full * page_tokens, request.n_live), 0, true,
                   request.has_draft};
  if (n_full == 0 || plan->pages.back().id != 0) {
    const int64_t parent = n_full == 0 ? 0 : plan->pages.back().id;
    HF_ASSIGN_OR_RETURN(const auto covering, index->FindCovering(parent, page.tokens, draft_space));
    const bool serves = covering && (!request.has_draft ||
                                     (draft_space != 0 && covering->draft_space == draft_space));
    if (serves) {
      page.id = covering->id;
      page.write_trunk = page.write_draft = false;
    } else {
      HF_ASSIGN_OR_RETURN(const auto exact, index->FindPage(parent, page.tokens));
      if (exact) {
        page.id = exact->id;
        page.write_trunk = exact->bad;
      }
    }
  }
  plan->pages.push_back(page);
  return OkStatus();
}

Status PlanStates(PrefixIndex* index, const SaveRequest& request, int64_t page_tokens,
                  int64_t draft_space, SavePlan* plan) {
  for (const SaveState& request_state : request.states) {
    const int64_t n_before = request_state.position / page_tokens;
    PlannedState state;
    state.request = request_state;
    state.tail = plan->tokens.Part(n_before * page_tokens, request_state.position);
    std::optional<StateRow> row;
    if (n_before == 0 || plan->pages[n_before - 1].id != 0) {
      const int64_t parent = n_before == 0 ? 0 : plan->pages[n_before - 1].id;
      HF_ASSIGN_OR_RETURN(row, index->FindState(parent, request_state.position, state.tail));
    }
    if (row) state.id = row->id;
    state.write_trunk = !row || row->bad;
    state.write_draft =
        request_state.has_draft && (!row || draft_space == 0 || row->draft_space != draft_space);
    plan->states.push_back(state);
  }
  return OkStatus();
}

}  // namespace

Status CheckSaveRequest(const StoreKeys& keys, const SaveRequest& request) {
  HF_RETURN_IF_ERROR(CheckConversationId(request.conversation));
  if (!request.forked_from.empty()) HF_RETURN_IF_ERROR(CheckConversationId(request.forked_from));
  HF_RETURN_IF_ERROR(CheckTokens(keys, request));
  const auto n = static_cast<int64_t>(request.tokens.size());
  HF_RETURN_IF_ERROR(CheckPosition("fork position", request.fork_position, 0, n));
  bool any_draft = request.has_draft;
  for (const SaveState& state : request.states) {
    HF_RETURN_IF_ERROR(CheckPosition("state at", state.position, 1, request.n_live));
    any_draft = any_draft || state.has_draft;
  }
  if (any_draft && keys.draft_layout_key == 0) {
    return InvalidArgumentError("save: a draft part, but this engine has no draft layout");
  }
  for (const int64_t position : request.drop_states) {
    HF_RETURN_IF_ERROR(CheckPosition("dropped state at", position, 1, n));
  }
  const std::vector<StoredMessage> none;
  for (const StoredMessage& message : request.messages ? *request.messages : none) {
    HF_RETURN_IF_ERROR(CheckPosition("message's first token", message.token_begin, 0, n));
    HF_RETURN_IF_ERROR(
        CheckPosition("message's last token", message.token_end, message.token_begin, n));
  }
  if (!request.source) return InvalidArgumentError("save: no source of bytes");
  return OkStatus();
}

Result<SavePlan> PlanSave(StoreCore* core, const SaveRequest& request) {
  const StoreKeys& keys = *core->keys;
  const int64_t page_tokens = keys.page_tokens;
  const int64_t draft_space = core->spaces.draft_space;
  const int64_t n_full = request.n_live / page_tokens;
  SavePlan plan;
  plan.tokens = {request.tokens, request.content_hashes};
  PrefixIndex index = core->Index();
  HF_RETURN_IF_ERROR(PlanFullPages(&index, request, n_full, page_tokens, draft_space, &plan));
  if (request.n_live % page_tokens != 0) {
    HF_RETURN_IF_ERROR(PlanTailPage(&index, request, n_full, page_tokens, draft_space, &plan));
  }
  HF_RETURN_IF_ERROR(PlanStates(&index, request, page_tokens, draft_space, &plan));
  const auto count = [&plan](bool written, size_t bytes) {
    if (written) plan.bytes += SegmentFootprint(bytes);
  };
  for (const PlannedPage& page : plan.pages) {
    count(page.write_trunk, keys.page_bytes);
    count(page.write_draft, keys.draft_page_bytes);
  }
  for (const PlannedState& state : plan.states) {
    count(state.write_trunk, keys.running_bytes);
    count(state.write_draft, keys.draft_running_bytes);
  }
  if (plan.bytes > 0) plan.bytes += kSegmentOverheadBytes;
  return plan;
}

}  // namespace holdfast

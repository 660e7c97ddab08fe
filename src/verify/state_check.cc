#include "verify/state_check.h"

#include <algorithm>
#include <cstring>

namespace holdfast {

Status StateCheck::HashRunning(StateSection section, uint64_t prefix, int64_t position,
                               Buffer* buffer, std::vector<Fact>* facts) {
  return backend_->WithHostBytes(buffer, [&](std::span<std::byte> bytes) -> Status {
    const std::vector<Part>& parts = layout(section).running_parts();
    for (size_t i = 0; i < parts.size(); ++i) {
      facts->push_back({.subject = {SubjectKind::kRunning, section, static_cast<int>(i)},
                        .prefix = prefix,
                        .position = position,
                        .value = Hash128Of(bytes.subspan(parts[i].offset, parts[i].bytes))});
    }
    return OkStatus();
  });
}

Status StateCheck::AddRunning(const StateBuffers& state) {
  if (state.tokens.empty() || state.running == nullptr) return OkStatus();
  const uint64_t prefix = HashPrefix(state.tokens);
  const int64_t position = static_cast<int64_t>(state.tokens.size()) - 1;
  std::vector<Fact> facts;
  HF_RETURN_IF_ERROR(HashRunning(StateSection::kTrunk, prefix, position, state.running, &facts));
  if (draft_ != nullptr && state.draft_running != nullptr) {
    HF_RETURN_IF_ERROR(
        HashRunning(StateSection::kDraft, prefix, position, state.draft_running, &facts));
  }
  const bool known = std::ranges::all_of(
      facts, [&](const Fact& fact) { return ledger_->Knows(fact.subject, prefix); });
  if (!known && collect_unknown_) {
    unknown_.push_back({{state.tokens.begin(), state.tokens.end()}, std::move(facts)});
    return OkStatus();
  }
  for (const Fact& fact : facts) ledger_->Add(fact);
  return OkStatus();
}

// Items of a part lie in n_runs runs, each with one piece of every item.
Status StateCheck::AddPage(StateSection section, Buffer* page, int64_t first_token,
                           std::span<const uint64_t> prefixes, int64_t from) {
  const StateLayout& l = layout(section);
  const int64_t n_tokens = static_cast<int64_t>(prefixes.size());
  return backend_->WithHostBytes(page, [&](std::span<std::byte> bytes) -> Status {
    std::vector<std::byte> item;
    for (size_t i = 0; i < l.cell_parts().size(); ++i) {
      const Part& part = l.cell_parts()[i];
      const int64_t n_items = l.page_tokens() / part.tokens_per_item;
      const size_t run_bytes = part.bytes / part.n_runs, piece = run_bytes / n_items;
      item.resize(piece * part.n_runs);
      for (int64_t k = 0; k < n_items; ++k) {
        // An item is a function of the tokens up to its own last one; until then it is undefined.
        const int64_t last = first_token + (k + 1) * part.tokens_per_item - 1;
        if (last < from) continue;
        if (last >= n_tokens) break;
        for (int run = 0; run < part.n_runs; ++run) {
          std::memcpy(item.data() + run * piece,
                      bytes.data() + part.offset + run * run_bytes + k * piece, piece);
        }
        ledger_->Add({.subject = {SubjectKind::kCells, section, static_cast<int>(i)},
                      .prefix = prefixes[last],
                      .position = last,
                      .value = Hash128Of(item)});
      }
    }
    return OkStatus();
  });
}

Status StateCheck::AddCells(const StateBuffers& state, int64_t from) {
  std::vector<uint64_t> prefixes;  // of the tokens up to and with each
  uint64_t prefix = kEmptyPrefix;
  for (const int32_t token : state.tokens) {
    prefixes.push_back(prefix = ExtendPrefix(prefix, token));
  }
  const int page_tokens = trunk_->page_tokens();
  const int64_t n_pages = trunk_->PagesFor(static_cast<int64_t>(prefixes.size()));
  for (int64_t p = from / page_tokens; p < n_pages; ++p) {
    HF_RETURN_IF_ERROR(
        AddPage(StateSection::kTrunk, state.pages[p], p * page_tokens, prefixes, from));
    if (draft_ == nullptr || state.draft_pages.empty()) continue;
    HF_RETURN_IF_ERROR(
        AddPage(StateSection::kDraft, state.draft_pages[p], p * page_tokens, prefixes, from));
  }
  return OkStatus();
}

Status StateCheck::AddConversation(const Conversation& c) {
  const bool draft = c.has_draft();
  StateBuffers state{.tokens = c.tokens().ids.first(c.n_computed()),
                     .running = c.running(),
                     .pages = c.page_buffers(),
                     .draft_running = draft ? c.draft_running() : nullptr};
  if (draft) state.draft_pages = c.draft_page_buffers();
  HF_RETURN_IF_ERROR(AddCells(state, 0));
  HF_RETURN_IF_ERROR(AddRunning(state));
  for (const Checkpoint& checkpoint : c.checkpoints()) {
    if (checkpoint.running == c.running_block() && checkpoint.position == c.n_computed()) continue;
    HF_RETURN_IF_ERROR(
        AddRunning({.tokens = c.tokens().ids.first(checkpoint.position),
                    .running = checkpoint.running->trunk.get(),
                    .draft_running = draft ? checkpoint.running->draft.get() : nullptr}));
  }
  return OkStatus();
}

}  // namespace holdfast

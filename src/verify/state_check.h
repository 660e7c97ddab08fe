#ifndef HOLDFAST_VERIFY_STATE_CHECK_H_
#define HOLDFAST_VERIFY_STATE_CHECK_H_

// Every part of a conversation's state, as StateLayout lists them, goes into the ledger.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "ops/backend.h"
#include "state/conversation.h"
#include "state/layout.h"
#include "verify/ledger.h"

namespace holdfast {

// Where the state of tokens [0, tokens.size()) is. Draft buffers may be null or empty.
struct StateBuffers {
  std::span<const int32_t> tokens;
  Buffer* running = nullptr;
  std::span<Buffer* const> pages;
  Buffer* draft_running = nullptr;
  std::span<Buffer* const> draft_pages;
};

class StateCheck {
 public:
  // All outlive it; `draft` may be null.
  StateCheck(Backend* backend, const StateLayout* trunk, const StateLayout* draft, Ledger* ledger)
      : backend_(backend), trunk_(trunk), draft_(draft), ledger_(ledger) {}

  Status AddRunning(const StateBuffers& state);
  // Cells of tokens from `from` on.
  Status AddCells(const StateBuffers& state, int64_t from);
  // Cells, live end and checkpoints.
  Status AddConversation(const Conversation& c);

  // Running states that the ledger knew nothing of, for somebody to compute again. Adding their
  // facts once that is done compares them.
  struct Unknown {
    std::vector<int32_t> tokens;
    std::vector<Fact> facts;
  };
  std::vector<Unknown> TakeUnknown() { return std::exchange(unknown_, {}); }
  // Off: unknown running states are simply written down.
  void set_collect_unknown(bool collect) { collect_unknown_ = collect; }

 private:
  Status HashRunning(StateSection section, uint64_t prefix, int64_t position, Buffer* buffer,
                     std::vector<Fact>* facts);
  Status AddPage(StateSection section, Buffer* page, int64_t first_token,
                 std::span<const uint64_t> prefixes, int64_t from);
  const StateLayout& layout(StateSection section) const {
    return section == StateSection::kTrunk ? *trunk_ : *draft_;
  }

  Backend* const backend_;
  const StateLayout* const trunk_;
  const StateLayout* const draft_;
  Ledger* const ledger_;
  bool collect_unknown_ = true;
  std::vector<Unknown> unknown_;
};

}  // namespace holdfast

#endif  // HOLDFAST_VERIFY_STATE_CHECK_H_

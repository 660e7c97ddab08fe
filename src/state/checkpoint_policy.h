#ifndef HOLDFAST_STATE_CHECKPOINT_POLICY_H_
#define HOLDFAST_STATE_CHECKPOINT_POLICY_H_

// Where running states are kept so that a request which shares P tokens with anything kept re-reads
// at most max(min_gap, P / ratio) of them, and which are dropped so that a conversation's
// checkpoints take no more than its K/V plus four running states. Pure functions.
//
// The ladder is a fixed set of positions: g, 2g, ... up to g * ratio, then each ratio / (ratio - 1)
// times the one before. Fixed positions make the bound independent of which other checkpoints come
// and go, are the same in every conversation, and are never more than the budget allows for the
// ratio that ChooseRatio returns.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "state/layout.h"

namespace holdfast {

// Given up in this order: those before earlier replies; rungs that the others make needless; ends
// of turns but for the latest five; marks but for the latest and a first one that saves much; the
// ends of the latest turns; what is left of marks and rungs; the one before the latest reply; the
// system's (or the first before a reply, where there is none). Of two places' kinds the higher one
// counts.
enum class CheckpointKind : uint8_t {
  kBeforeReply = 0,  // before the generation prompt
  kTurnEnd = 1,
  kMark = 2,    // cache_control and the like
  kLadder = 3,  // a rung of the ladder, and what stands in for one
  kSystem = 4,  // end of the system and tools block
};
std::string_view CheckpointKindName(CheckpointKind kind);

struct CheckpointPolicy {
  int ratio = 8;           // r: 8, 4 or 2
  int64_t min_gap = 2048;  // tokens
  // Checkpoints a conversation of n tokens may keep is MaxCheckpoints(n) below.
  double kv_bytes_per_token = 0;  // page bytes / page tokens; 0 with running_bytes 0: no limit
  size_t running_bytes = 0;
  int page_tokens = 256;

  Status Validate() const;
  // Rungs in (from, to], ascending.
  std::vector<int64_t> Rungs(int64_t from, int64_t to) const;
  int64_t NextRung(int64_t position) const;    // the first one above
  int64_t CountRungs(int64_t n_tokens) const;  // in (0, n_tokens]
  // What MaxCheckpoints leaves beside the rungs, a system checkpoint and one before the reply at
  // this length and at every longer one; negative where the ladder does not fit. There must be a
  // limit.
  int64_t Spare(int64_t n_tokens) const;
  // Floor of (bytes of the pages of n tokens) / running_bytes, plus four.
  int64_t MaxCheckpoints(int64_t n_tokens) const;
  // The stated bound: at most this many of `n_shared` tokens are read again.
  int64_t Bound(int64_t n_shared) const;
};

struct RatioChoice {
  CheckpointPolicy policy;
  bool fits = true;  // false: even ratio 2 takes more than K/V plus four running states
};

// The largest ratio whose ladder, one system checkpoint and one before the reply fit into
// MaxCheckpoints(n) for every n up to `context_length`.
RatioChoice ChooseCheckpointPolicy(const StateLayout& trunk, int64_t context_length,
                                   int64_t min_gap = 2048);

struct CheckpointMark {
  int64_t position = 0;  // > 0
  CheckpointKind kind = CheckpointKind::kMark;
};

// The stops of a read of [from, to): marks and rungs in (from, to], ascending, one per position
// (the kind given up last wins).
std::vector<CheckpointMark> PlanCheckpoints(const CheckpointPolicy& policy, int64_t from,
                                            int64_t to, std::span<const CheckpointMark> marks);

// Which of a conversation's checkpoints (ascending positions, all <= n_tokens) to drop: indices,
// ascending. Never one without which the bound would fail when it held before.
std::vector<size_t> ThinCheckpoints(const CheckpointPolicy& policy, int64_t n_tokens,
                                    std::span<const CheckpointMark> kept);

// The one to drop when memory is short, whatever their number; none when all share the live end's
// state. The bound is kept as long as it can be.
std::optional<size_t> CheckpointToGiveUp(const CheckpointPolicy& policy, int64_t n_tokens,
                                         std::span<const CheckpointMark> kept);

}  // namespace holdfast

#endif  // HOLDFAST_STATE_CHECKPOINT_POLICY_H_

#ifndef HOLDFAST_BENCH_BENCH_PLAN_H_
#define HOLDFAST_BENCH_BENCH_PLAN_H_

// What `holdfast bench` measures: asked for, and what of it makes sense here. Pure decisions.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace holdfast {

enum class DraftRuns { kBoth, kOn, kOff };

struct BenchRequest {
  // None: chosen for the model.
  std::optional<std::vector<int64_t>> prefill;  // tokens of a prompt
  std::optional<std::vector<int64_t>> depths;   // tokens that are there already
  std::optional<std::vector<int64_t>> slots;    // streams decoded together
  int64_t n_decode = 128;                       // tokens of a reply; 0: none are decoded
  DraftRuns draft = DraftRuns::kBoth;           // where the model has a draft head
  int n_guesses = -1;                           // -1: as many as pay
  int n_runs = 0;                               // of each figure; 0: up to 5, within some seconds
  bool state = true;                            // park, restore, save and load

  // OK, or kInvalidArgument naming flag, value and range.
  Status Validate() const;
};

// "0,512,8K": counts, K and M as powers of 1024. kInvalidArgument naming the flag.
Result<std::vector<int64_t>> ParseCounts(std::string_view flag, std::string_view text);

struct DepthPlan {
  int64_t depth = 0;
  std::vector<int64_t> prefill;  // read from there on
  std::vector<int64_t> slots;    // decoded from there on, this many together
  int64_t max_slots() const;
};

struct BenchPlan {
  std::vector<DepthPlan> depths;   // ascending
  int64_t ctx = 0;                 // what the longest conversation needs
  std::vector<std::string> notes;  // what was left out and why
};

// Sizes of state, to see what fits.
struct StateRoom {
  uint64_t page_bytes = 0, running_bytes = 0;
  int page_tokens = 256;
  uint64_t room_bytes = 0;
  // Of conversations of n tokens, with their checkpoints.
  uint64_t Need(int64_t n_tokens, int64_t n_slots) const;
};

// Every prefill size at the first depth, one of them (512, or the first) at the others. Slots that
// are named are measured at every depth; else 1, 2, 4 and 8 at the first and 1 at the others.
// kResourceExhausted when nothing that was asked for fits.
Result<BenchPlan> MakeBenchPlan(const BenchRequest& request, int64_t trained_ctx,
                                const StateRoom& room);

}  // namespace holdfast

#endif  // HOLDFAST_BENCH_BENCH_PLAN_H_

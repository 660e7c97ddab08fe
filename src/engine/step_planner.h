#ifndef HOLDFAST_ENGINE_STEP_PLANNER_H_
#define HOLDFAST_ENGINE_STEP_PLANNER_H_

// Which prompt rows ride along in the next step. Pure decisions: results do not depend on them,
// only who waits how long.

#include <cstdint>
#include <span>
#include <vector>

namespace holdfast {

// A request that is reading its prompt.
struct PendingRead {
  int64_t remaining = 0;     // prompt tokens still to compute
  int64_t until_stop = 0;    // a step must not go beyond this many (a checkpoint is due there)
  int64_t waited_steps = 0;  // steps since it last got a row
  double row_cost = 1.0;     // of one of its rows, in rows of an ordinary read
};

// Rows for each read, together at most as costly as `budget` ordinary ones, or a single one that
// costs more. The shortest remaining read comes first; every
// step without a row makes a read look shorter, so none waits forever.
std::vector<int64_t> PlanReads(std::span<const PendingRead> reads, int64_t budget);

// Learns how long steps take, to keep a step with decode rows near a target.
class StepTimer {
 public:
  // `n_decode` rows of running streams and `n_read` prompt rows took `ms`; `n_scored` of the latter
  // with their logits.
  void Add(int64_t n_decode, int64_t n_read, double ms, int64_t n_scored = 0);
  // Prompt rows that fit beside `n_decode` rows into `target_ms`, within [1, max_rows]. All of
  // max_rows when nobody is decoding or nothing is known yet.
  int64_t ReadBudget(int64_t n_decode, double target_ms, int64_t max_rows) const;
  // What a prompt row with its logits costs, in rows without them. >= 1.
  double ScoredRowCost() const;
  // Milliseconds a prompt row costs in a long read; 0: not known yet.
  double ms_per_read_row() const { return read_row_ms_; }

 private:
  double decode_step_ms_ = 0.0;  // of a step with decode rows only
  double read_row_ms_ = 0.0, scored_row_ms_ = 0.0;
};

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_STEP_PLANNER_H_

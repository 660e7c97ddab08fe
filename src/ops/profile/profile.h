#ifndef HOLDFAST_OPS_PROFILE_PROFILE_H_
#define HOLDFAST_OPS_PROFILE_PROFILE_H_

// Where the time of steps goes: by op, and op after op for Chrome's trace viewer.

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"

namespace holdfast {

// Steps that cost alike.
enum class StepKind : uint8_t { kOneRow, kFewRows, kManyRows, kDraft };
inline constexpr int64_t kFewRows = 16;  // up to here a product is bound by reading its weights

struct OpPoint {
  std::string_view name;  // as in the table
  int layer = -1;         // -1: none
  // Bytes of weights that were read; none: not known from the arguments alone.
  std::optional<uint64_t> weight_bytes = 0;
  double ops = 0.0;  // multiplications and additions of products with weights
};

// Threads: any; calls of one step come from one thread.
class Profile {
 public:
  using Clock = std::chrono::steady_clock;
  // `keep_events`: for WriteTrace(); at most `max_events` are kept, the first ones.
  explicit Profile(bool keep_events = false, size_t max_events = size_t{2} << 20);

  // A step begins; what came before belongs to the last one. Ops outside steps (copies of running
  // states, uploads) stand by themselves.
  void BeginStep(StepKind kind, int64_t n_rows, Clock::time_point now);
  void EndStep();
  bool in_step() const;
  void AddOp(const OpPoint& op, Clock::time_point begin, Clock::time_point end);

  // Forgets sums, keeps events: what follows is another measurement.
  void Reset();
  // A table for each kind of step that ran: calls, time and share of every op in a mean step, and
  // how fast it read its weights and multiplied by them. Empty: nothing ran.
  std::string Table() const;
  // Chrome's trace format (chrome://tracing, ui.perfetto.dev).
  Status WriteTrace(const std::string& path) const;
  int64_t n_events_dropped() const;

 private:
  struct OpSum {
    std::string name;
    int64_t n_calls = 0;
    double seconds = 0.0;
    double weight_bytes = 0.0, ops = 0.0;
    bool bytes_known = true;
  };
  struct Group {
    int64_t n_steps = 0, n_rows = 0;
    double seconds = 0.0;  // from the first op's begin to the last one's end
    double gaps = 0.0;     // short waits for the next step: sampling and scheduling
    std::vector<OpSum> ops;
    std::unordered_map<std::string, size_t> index;
  };
  struct Event {
    uint32_t name = 0;
    int32_t layer = -1;
    int32_t n_rows = -1;  // >= 0: a step
    double begin_us = 0.0, duration_us = 0.0;
  };
  static constexpr size_t kOutside = 4;  // behind the kinds of steps

  void CloseStep();
  void Keep(std::string_view name, int layer, int64_t n_rows, Clock::time_point begin,
            Clock::time_point end);
  static std::string GroupTable(const Group& group, std::string_view title);

  const bool keep_events_;
  const size_t max_events_;
  const Clock::time_point start_ = Clock::now();
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::array<Group, kOutside + 1> groups_;
  bool in_step_ = false;
  StepKind kind_ = StepKind::kOneRow;
  int64_t n_rows_ = 0;
  Clock::time_point step_begin_, last_end_;
  bool has_last_end_ = false;
  std::vector<Event> events_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, uint32_t> name_ids_;
  int64_t n_dropped_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_OPS_PROFILE_PROFILE_H_

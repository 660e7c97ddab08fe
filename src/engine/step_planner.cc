#include "engine/step_planner.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace holdfast {
namespace {

constexpr double kForget = 0.2;            // weight of the newest measurement
constexpr int64_t kFewRows = 8;            // smaller reads say little about the cost of a row
constexpr double kFirstScoredCost = 16.0;  // before one was measured: a small step, to learn from
constexpr double kAgeing = 0.125;  // eight steps of waiting halve a read's length in the order

double Smooth(double old, double now) { return old == 0.0 ? now : old + kForget * (now - old); }

}  // namespace

std::vector<int64_t> PlanReads(std::span<const PendingRead> reads, int64_t budget) {
  std::vector<size_t> order(reads.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto length = [&](size_t i) {
    return reads[i].remaining / (1.0 + kAgeing * reads[i].waited_steps);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return length(a) < length(b); });
  std::vector<int64_t> rows(reads.size(), 0);
  double left = static_cast<double>(budget);
  for (size_t i : order) {
    if (left < 1.0) break;
    const int64_t most = std::max<int64_t>(static_cast<int64_t>(left / reads[i].row_cost), 1);
    rows[i] = std::clamp<int64_t>(std::min(reads[i].remaining, reads[i].until_stop), 0, most);
    left -= static_cast<double>(rows[i]) * reads[i].row_cost;
  }
  return rows;
}

void StepTimer::Add(int64_t n_decode, int64_t n_read, double ms, int64_t n_scored) {
  const double decode = n_decode > 0 ? decode_step_ms_ : 0.0;
  if (n_read == 0) {
    decode_step_ms_ = Smooth(decode_step_ms_, ms);
  } else if (n_scored >= kFewRows) {
    const double others = decode + static_cast<double>(n_read - n_scored) * read_row_ms_;
    scored_row_ms_ = Smooth(scored_row_ms_, std::max(ms - others, 0.1 * ms) / n_scored);
  } else if (n_scored == 0 && n_read >= kFewRows) {
    read_row_ms_ = Smooth(read_row_ms_, std::max(ms - decode, 0.1 * ms) / n_read);
  }
}

int64_t StepTimer::ReadBudget(int64_t n_decode, double target_ms, int64_t max_rows) const {
  const int64_t room = std::max<int64_t>(max_rows - n_decode, 1);
  // Until an ordinary read was measured, the dearer rows stand for it.
  const double row_ms = read_row_ms_ > 0.0 ? read_row_ms_ : scored_row_ms_;
  if (n_decode == 0 || row_ms == 0.0) return room;
  const double rows = std::floor((target_ms - decode_step_ms_) / row_ms);
  return static_cast<int64_t>(std::clamp(rows, 1.0, static_cast<double>(room)));
}

double StepTimer::ScoredRowCost() const {
  if (scored_row_ms_ == 0.0) return kFirstScoredCost;
  return read_row_ms_ == 0.0 ? 1.0 : std::max(scored_row_ms_ / read_row_ms_, 1.0);
}

}  // namespace holdfast

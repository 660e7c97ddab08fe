#include "engine/draft_policy.h"

#include <algorithm>

namespace holdfast {
namespace {

constexpr double kMemory = 48;  // measurements that a mean stands for
constexpr double kOutlier = 3;  // a step that took this many times its mean was disturbed
constexpr double kPrior = 2;    // weight of what is expected before it is measured
constexpr double kFirstTried = 0.95, kFirstKept = 0.85;
constexpr double kRowCost = 0.3;    // of a further row, as a share of the first, until measured
constexpr double kDraftCost = 0.1;  // of a guess, likewise
constexpr double kWorthIt = 1.02;   // gain a deeper window must promise
constexpr double kFewestProbability = 0.5, kMostProbability = 0.9;
// Another depth is measured now and then, and soon after the start. Where guesses do not pay,
// seldom: a window that is wasted must cost less than one step in fifty.
constexpr int64_t kProbeEvery = 64, kProbeEveryWhenOff = 192;
constexpr int kFewGuesses = 3, kManyGuesses = 5;

}  // namespace

void DraftCounts::AddWindow(int64_t n_drafted, int64_t n_accepted) {
  for (int64_t i = 0; i < std::min(n_drafted, n_accepted + 1); ++i) {
    ++depths[i].n_drafted;
    if (i < n_accepted) ++depths[i].n_accepted;
  }
}

void DraftCounts::Add(const DraftCounts& other) {
  for (size_t i = 0; i < depths.size(); ++i) {
    depths[i].n_drafted += other.depths[i].n_drafted;
    depths[i].n_accepted += other.depths[i].n_accepted;
  }
}

void DraftPolicy::Mean::Add(double now) {
  weight = std::min(weight + 1, kMemory);
  value += (now - value) / weight;
}

DraftPolicy::DraftPolicy(int max_depth, bool adaptive)
    : max_depth_(std::clamp(max_depth, 0, kMaxDepth)), adaptive_(adaptive) {}

// On the line through the nearest measured neighbours.
double DraftPolicy::StepMsFromOthers(int n_rows) const {
  const auto known = [&](int r) { return step_ms_[r].weight > 0; };
  int lower = n_rows - 1, upper = n_rows + 1;
  while (lower >= 1 && !known(lower)) --lower;
  while (upper <= kMaxRows && !known(upper)) ++upper;
  if (lower >= 1 && upper <= kMaxRows) {
    const double share = static_cast<double>(n_rows - lower) / (upper - lower);
    return step_ms_[lower].value + share * (step_ms_[upper].value - step_ms_[lower].value);
  }
  const auto first_row = [&](int r) { return step_ms_[r].value / (1 + kRowCost * (r - 1)); };
  if (lower >= 1) {
    int lowest = 1;
    while (!known(lowest)) ++lowest;
    const double slope = lowest < lower
                             ? (step_ms_[lower].value - step_ms_[lowest].value) / (lower - lowest)
                             : kRowCost * first_row(lower);
    return step_ms_[lower].value + std::max(slope, 0.0) * (n_rows - lower);
  }
  return upper <= kMaxRows ? first_row(upper) * (1 + kRowCost * (n_rows - 1)) : 0.0;
}

double DraftPolicy::StepMs(int n_rows) const {
  const Mean& own = step_ms_[n_rows];
  const double others = StepMsFromOthers(n_rows);
  if (own.weight == 0) return others;
  if (others == 0) return own.value;
  return (own.weight * own.value + kPrior * others) / (own.weight + kPrior);
}

std::array<double, DraftPolicy::kMaxDepth> DraftPolicy::Shares(
    const std::array<Mean, kMaxDepth>& measured, double first) {
  std::array<double, kMaxDepth> shares;
  double expected = first;
  for (int i = 0; i < kMaxDepth; ++i) {
    const Mean& m = measured[i];
    expected = (m.weight * m.value + kPrior * expected) / (m.weight + kPrior);
    shares[i] = expected;
  }
  return shares;
}

double DraftPolicy::Speed(int depth) const {
  const auto tried = Shares(tried_, kFirstTried), kept = Shares(kept_, kFirstKept);
  const double first_ms = StepMs(1) > 0 ? StepMs(1) : 1.0;
  const auto step_ms = [&](int rows) {
    const double ms = StepMs(rows);
    return ms > 0 ? ms : 1 + kRowCost * (rows - 1);
  };
  const double draft_ms = draft_ms_.weight > 0 ? draft_ms_.value : kDraftCost * first_ms;
  double tokens = 1, ms = 0, all_kept = 1, all_tried = 1;
  for (int i = 0; i < depth; ++i) {
    ms += all_tried * (draft_ms + (1 - tried[i]) * step_ms(i + 1));
    all_tried *= tried[i];
    all_kept *= kept[i];
    tokens += all_kept;
  }
  return tokens / (ms + all_tried * step_ms(depth + 1));
}

int DraftPolicy::Best() const {
  int best = 0;
  double best_speed = Speed(0);
  for (int depth = 1; depth <= max_depth_; ++depth) {
    const double speed = Speed(depth);
    if (speed > kWorthIt * best_speed) best = depth, best_speed = speed;
  }
  return best;
}

int DraftPolicy::Probe(int best) const {
  const int64_t n = n_asked_ / kProbeEvery;
  if (best == 0) return n_asked_ / kProbeEveryWhenOff % 2 == 0 ? kFewGuesses : kManyGuesses;
  return n % 4 == 0 ? 0 : n % 4 == 1 ? best + 1 : n % 4 == 2 ? best - 1 : best + 2;
}

int DraftPolicy::Depth() {
  if (!adaptive_ || max_depth_ == 0) return max_depth_;
  best_ = Best();
  ++n_asked_;
  // Costs of one row, some and many: in between they are guessed well enough.
  if (n_asked_ == 2) return 0;
  if (n_asked_ == 4) return std::min(kManyGuesses, max_depth_);
  if (best_ == 0 && probe_again_) {
    probe_again_ = false;
    return std::min(kFewGuesses, max_depth_);
  }
  if (n_asked_ % (best_ == 0 ? kProbeEveryWhenOff : kProbeEvery) == 0) {
    return std::min(Probe(best_), max_depth_);
  }
  return best_;
}

double DraftPolicy::MinProbability(double fixed) const {
  if (!adaptive_ || best_ == 0 || StepMs(1) == 0) return fixed;
  const double row_ms = (StepMs(best_ + 1) - StepMs(1)) / best_;
  return std::clamp(row_ms * Speed(best_), kFewestProbability, kMostProbability);
}

void DraftPolicy::AddStep(int64_t n_rows, double ms) {
  if (n_rows < 1 || n_rows > kMaxRows) return;
  Mean& mean = step_ms_[n_rows];
  mean.Add(mean.weight > 0 ? std::min(ms, kOutlier * mean.value) : ms);
}

void DraftPolicy::AddDrafts(int64_t n_drafts, double ms) {
  if (n_drafts == 0) return;
  const double each = ms / static_cast<double>(n_drafts);
  draft_ms_.Add(draft_ms_.weight > 0 ? std::min(each, kOutlier * draft_ms_.value) : each);
}

void DraftPolicy::AddWindow(int64_t n_wanted, int64_t n_drafted, int64_t n_accepted) {
  probe_again_ = n_drafted > 0 && n_accepted == n_drafted;
  for (int64_t i = 0; i < std::min(n_wanted, n_drafted + 1); ++i) {
    tried_[i].Add(i < n_drafted ? 1.0 : 0.0);
  }
  for (int64_t i = 0; i < std::min(n_wanted, n_accepted + 1); ++i) {
    kept_[i].Add(i < n_accepted ? 1.0 : 0.0);
  }
  counts_.AddWindow(n_drafted, n_accepted);
}

}  // namespace holdfast

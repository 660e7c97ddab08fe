#include "engine/draft_policy.h"

#include <algorithm>

namespace holdfast {
namespace {

constexpr double kForget = 0.1;           // weight of the newest measurement
constexpr double kFirstAcceptance = 0.7;  // before anything is known
constexpr double kRowCost = 0.3;     // of a further row, as a share of the first, until measured
constexpr int64_t kProbeEvery = 64;  // now and then another depth is measured
constexpr double kWorthIt = 1.02;    // gain a deeper window must promise

void Smooth(double now, double* value) {
  *value = *value == 0.0 ? now : *value + kForget * (now - *value);
}

}  // namespace

DraftPolicy::DraftPolicy(int max_depth, bool adaptive)
    : max_depth_(std::clamp(max_depth, 0, kMaxDepth)), adaptive_(adaptive) {
  acceptance_.fill(kFirstAcceptance);
}

double DraftPolicy::StepMs(int n_rows) const {
  if (step_ms_[n_rows] > 0) return step_ms_[n_rows];
  // From the nearest smaller step that was measured.
  for (int r = n_rows - 1; r >= 1; --r) {
    if (step_ms_[r] > 0) return step_ms_[r] * (1 + kRowCost * n_rows) / (1 + kRowCost * r);
  }
  return 1 + kRowCost * (n_rows - 1);
}

double DraftPolicy::Speed(int depth) const {
  double tokens = 1.0, all_right = 1.0;
  for (int i = 0; i < depth; ++i) {
    all_right *= acceptance_[i];
    tokens += all_right;
  }
  return tokens / (StepMs(depth + 1) + depth * draft_ms_);
}

int DraftPolicy::Depth() {
  if (!adaptive_ || max_depth_ == 0) return max_depth_;
  int best = 0;
  for (int depth = 1; depth <= max_depth_; ++depth) {
    if (Speed(depth) > kWorthIt * Speed(best)) best = depth;
  }
  if (++n_asked_ % kProbeEvery == 0) {
    return best == max_depth_ || (n_asked_ / kProbeEvery) % 2 == 0 ? std::max(best - 1, 0)
                                                                   : best + 1;
  }
  return best;
}

void DraftPolicy::AddStep(int64_t n_rows, double ms) {
  if (n_rows >= 1 && n_rows <= kMaxDepth + 1) Smooth(ms, &step_ms_[n_rows]);
}

void DraftPolicy::AddDrafts(int64_t n_drafts, double ms) {
  if (n_drafts > 0) Smooth(ms / n_drafts, &draft_ms_);
}

void DraftPolicy::AddAcceptance(int64_t n_drafted, int64_t n_accepted) {
  for (int64_t i = 0; i < std::min<int64_t>(n_drafted, n_accepted + 1); ++i) {
    const bool accepted = i < n_accepted;
    acceptance_[i] += kForget * ((accepted ? 1.0 : 0.0) - acceptance_[i]);
    ++counts_[i].n_drafted;
    if (accepted) ++counts_[i].n_accepted;
  }
}

}  // namespace holdfast

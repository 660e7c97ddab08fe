#include "weights/expert_residency.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace holdfast {
namespace {

constexpr double kNever = std::numeric_limits<double>::lowest();

}  // namespace

ExpertResidency::ExpertResidency(int n_experts, int n_slots, double half_life)
    : half_life_(half_life),
      worth_(n_experts, kNever),
      slot_of_(n_experts, -1),
      expert_of_(n_slots, -1),
      key_(n_slots, kNever) {
  for (int slot = 0; slot < n_slots; ++slot) free_.emplace(kNever, slot);
}

// Sums of powers of two are kept as logarithms: all of them fade alike, so that only uses change
// their order.
void ExpertResidency::Use(int expert, double now) {
  const double use = now / half_life_;
  double& worth = worth_[expert];
  if (worth == kNever) {
    worth = use;
    return;
  }
  const double high = std::max(worth, use), low = std::min(worth, use);
  worth = high + std::log2(1.0 + std::exp2(low - high));
}

std::optional<int> ExpertResidency::LeastWorth() const {
  if (free_.empty()) return std::nullopt;
  return free_.begin()->second;
}

void ExpertResidency::Hold(int slot) {
  const size_t n = free_.erase({key_[slot], slot});
  HF_CHECK(n == 1);
}

void ExpertResidency::Free(int slot) {
  const int expert = expert_of_[slot];
  key_[slot] = expert < 0 ? kNever : worth_[expert];
  const bool is_new = free_.emplace(key_[slot], slot).second;
  HF_CHECK(is_new);
}

void ExpertResidency::Place(int expert, int slot) {
  HF_CHECK(slot_of_[expert] < 0);
  Clear(slot);
  slot_of_[expert] = slot;
  expert_of_[slot] = expert;
}

void ExpertResidency::Clear(int slot) {
  const int former = expert_of_[slot];
  if (former >= 0) slot_of_[former] = -1;
  expert_of_[slot] = -1;
}

}  // namespace holdfast

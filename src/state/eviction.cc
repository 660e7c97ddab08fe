#include "state/eviction.h"

#include <algorithm>
#include <tuple>

namespace holdfast {

double LikelihoodOfReturn(int64_t n_returns, double age_s) {
  constexpr double kHalfLifeS = 1800;
  const double n = static_cast<double>(n_returns);
  return (n + 0.25) / (n + 1) / (1 + std::max(0.0, age_s) / kHalfLifeS);
}

double Usefulness(const EvictionCandidate& candidate) {
  // One that frees nothing costs nothing to keep; it still has an order among its like.
  const double bytes = static_cast<double>(std::max<size_t>(1, candidate.exclusive_bytes));
  return candidate.seconds_saved * LikelihoodOfReturn(candidate.n_returns, candidate.age_s) / bytes;
}

std::vector<EvictionCandidate> EvictionOrder(std::vector<EvictionCandidate> candidates,
                                             const EvictionNeed& need) {
  const auto longer = [&](const EvictionCandidate& c) { return c.n_tokens > need.n_tokens; };
  if (need.spare_longer) std::erase_if(candidates, longer);
  const auto key = [&](const EvictionCandidate& c) {
    return std::tuple(c.pinned, need.one_shot && longer(c), Usefulness(c), -c.age_s, c.owner);
  };
  std::ranges::sort(candidates, [&](const auto& a, const auto& b) { return key(a) < key(b); });
  return candidates;
}

}  // namespace holdfast

#ifndef HOLDFAST_STATE_EVICTION_H_
#define HOLDFAST_STATE_EVICTION_H_

// The order in which parked conversations give their memory back. Pure functions.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace holdfast {

// What is known of one parked conversation.
struct EvictionCandidate {
  uint64_t owner = 0;
  int64_t n_tokens = 0;
  double seconds_saved = 0;    // of reading (or restoring, when it is on disk) if it comes back
  size_t exclusive_bytes = 0;  // freed by evicting it; shared pages stay
  double age_s = 0;            // since it was last used
  int64_t n_returns = 0;       // how often it was resumed; 0: one-shot so far
  bool pinned = false;
};

// Chance that the conversation comes back: (n_returns + 1/4) / (n_returns + 1), halved after the
// first half hour and falling as 1 / age.
double LikelihoodOfReturn(int64_t n_returns, double age_s);

// Seconds of reading saved x likelihood of return / byte.
double Usefulness(const EvictionCandidate& candidate);

// Whose need for memory drives the eviction.
struct EvictionNeed {
  bool one_shot = false;      // a first request; false: a conversation that came back, or nobody
  int64_t n_tokens = 0;       // of the needy
  bool spare_longer = false;  // leave out conversations longer than n_tokens (short one-shots)
};

// Candidates in eviction order: unpinned before pinned; for a one-shot, those not longer than it
// before longer ones; then by usefulness; then the older; then the lower owner. With
// need.spare_longer the longer ones are left out.
std::vector<EvictionCandidate> EvictionOrder(std::vector<EvictionCandidate> candidates,
                                             const EvictionNeed& need);

}  // namespace holdfast

#endif  // HOLDFAST_STATE_EVICTION_H_

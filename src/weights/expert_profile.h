#ifndef HOLDFAST_WEIGHTS_EXPERT_PROFILE_H_
#define HOLDFAST_WEIGHTS_EXPERT_PROFILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/hash128.h"
#include "base/status.h"

namespace holdfast {

// What a run has learned of a model's experts: how often and how lately each was used, and how
// many uses were hits.
struct ExpertProfile {
  struct Layer {
    uint64_t n_hits = 0, n_late = 0, n_misses = 0;
    // By expert: log2 of ExpertResidency's worth at the end of the run; -infinity: never used.
    std::vector<float> worth;

    // Of all uses, those that did not wait; 0 when there were none.
    double hit_rate() const;
  };
  std::vector<Layer> layers;
};

// Whose experts they are: the model's content and its number of experts in each layer.
struct ExpertProfileKey {
  Hash128 trunk, draft;
  std::vector<int64_t> n_experts;  // by layer, the draft head's last
};

// The file (docs/big_models.md has its layout). `profile` has the layers of `key`.
std::vector<std::byte> EncodeExpertProfile(const ExpertProfile& profile,
                                           const ExpertProfileKey& key);
// How long the file of `key` is: others need not be read.
uint64_t ExpertProfileBytes(const ExpertProfileKey& key);
// kDataLoss for damage, kUnimplemented for another version, kFailedPrecondition for another
// model's; `name` is for messages. Values beyond what a run can learn count as damage.
Result<ExpertProfile> DecodeExpertProfile(std::span<const std::byte> bytes,
                                          const ExpertProfileKey& key, const std::string& name);

}  // namespace holdfast

#endif  // HOLDFAST_WEIGHTS_EXPERT_PROFILE_H_

#ifndef HOLDFAST_MODEL_NUMERICS_H_
#define HOLDFAST_MODEL_NUMERICS_H_

#include <string>

#include "ops/kv_format.h"
#include "weights/model_config.h"

namespace holdfast {

// Raised by any change that moves a bit of the logits or of a state (docs/exactness.md).
inline constexpr int kNumericsVersion = 2;

// What, beside the model and the layout, the bits of a state depend on.
inline std::string NumericsKey(ActivationFormat activations, const ModelConfigOptions& options) {
  return "v" + std::to_string(kNumericsVersion) + " " +
         std::string(ActivationFormatName(activations)) +
         (options.zero_ratio_policy == ZeroRatioPolicy::kDense ? " zero-ratio-dense" : "");
}

}  // namespace holdfast

#endif  // HOLDFAST_MODEL_NUMERICS_H_

#ifndef HOLDFAST_ENGINE_REPACK_PLAN_H_
#define HOLDFAST_ENGINE_REPACK_PLAN_H_

// Whether weights of grid types are repacked after loading: products read them two to five times
// faster, and they take a quarter more memory than in the file (IQ3_S) to twice as much (IQ2).

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "model/model.h"

namespace holdfast {

// --repack.
enum class RepackMode {
  kAuto,  // when it takes little of what conversations could have
  kOn,    // when there is room at all
  kOff,
};
Result<RepackMode> ParseRepackMode(std::string_view text);

// Whether copies of `sizes` are made where `left` is what weights, scratch and the conversations
// that are planned leave.
bool ShouldRepack(RepackMode mode, const Model::RepackSizes& sizes, uint64_t left);

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_REPACK_PLAN_H_

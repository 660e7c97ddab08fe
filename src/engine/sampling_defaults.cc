#include "engine/sampling_defaults.h"

#include <limits>

#include "weights/gguf.h"

namespace holdfast {

Result<SamplingParams> ReadSamplingDefaults(const GgufFile& file) {
  constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
  SamplingParams params;
  const auto read_float = [&](const char* key, double low, double high, float* out) -> Status {
    HF_ASSIGN_OR_RETURN(const double value, file.GetFloatOr(key, low, high, *out));
    *out = static_cast<float>(value);
    return OkStatus();
  };
  const auto read_int = [&](const char* key, int64_t low, int* out) -> Status {
    HF_ASSIGN_OR_RETURN(const int64_t value, file.GetIntOr(key, low, kMaxInt, *out));
    *out = static_cast<int>(value);
    return OkStatus();
  };
  HF_RETURN_IF_ERROR(read_float("general.sampling.temp", 0.0, 1e3, &params.temperature));
  HF_RETURN_IF_ERROR(read_int("general.sampling.top_k", 0, &params.top_k));
  HF_RETURN_IF_ERROR(read_float("general.sampling.top_p", 1e-6, 1.0, &params.top_p));
  HF_RETURN_IF_ERROR(read_float("general.sampling.min_p", 0.0, 1.0, &params.min_p));
  HF_RETURN_IF_ERROR(
      read_float("general.sampling.penalty_repeat", 1e-3, 1e3, &params.repeat_penalty));
  HF_RETURN_IF_ERROR(read_int("general.sampling.penalty_last_n", -1, &params.penalty_last_n));
  return params;
}

}  // namespace holdfast

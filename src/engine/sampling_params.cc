#include "engine/sampling_params.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

namespace holdfast {
namespace {

constexpr float kMaxBias = 1e6f;  // far beyond any logit, far from overflow
constexpr float kMaxRepeatPenalty = 1e3f;
constexpr float kMaxTemperature = 1e3f;

// `low` <= value <= `high`; false for NaN.
Status CheckRange(std::string_view field, float value, float low, float high) {
  if (value >= low && value <= high) return OkStatus();
  return InvalidArgumentError(
      fmt::format("{} is {}, must be in [{}, {}]", field, value, low, high));
}

}  // namespace

Status SamplingParams::Validate(int64_t vocab_size) const {
  for (const auto& [id, bias] : logit_bias) {
    if (id < 0 || id >= vocab_size) {
      return InvalidArgumentError(fmt::format(
          "logit_bias names token {}, the vocabulary has ids 0 to {}", id, vocab_size - 1));
    }
    const bool ban = std::isinf(bias) && bias < 0.0f;
    if (!ban && !(std::fabs(bias) <= kMaxBias)) {
      return InvalidArgumentError(
          fmt::format("logit_bias of token {} is {}, must be in [{}, {}] or -inf", id, bias,
                      -kMaxBias, kMaxBias));
    }
  }
  HF_RETURN_IF_ERROR(CheckRange("repeat_penalty", repeat_penalty, 1e-3f, kMaxRepeatPenalty));
  HF_RETURN_IF_ERROR(CheckRange("frequency_penalty", frequency_penalty, -2.0f, 2.0f));
  HF_RETURN_IF_ERROR(CheckRange("presence_penalty", presence_penalty, -2.0f, 2.0f));
  if (penalty_last_n < -1) {
    return InvalidArgumentError(fmt::format(
        "penalty_last_n is {}, must be -1 (all tokens), 0 (none) or positive", penalty_last_n));
  }
  if (top_k < 0) {
    return InvalidArgumentError(
        fmt::format("top_k is {}, must be 0 (all tokens) or positive", top_k));
  }
  if (!(top_p > 0.0f && top_p <= 1.0f)) {
    return InvalidArgumentError(fmt::format("top_p is {}, must be in (0, 1]", top_p));
  }
  HF_RETURN_IF_ERROR(CheckRange("min_p", min_p, 0.0f, 1.0f));
  return CheckRange("temperature", temperature, 0.0f, kMaxTemperature);
}

}  // namespace holdfast

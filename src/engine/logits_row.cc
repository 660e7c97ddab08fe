#include "engine/logits_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/double_math.h"
#include "engine/top_tokens.h"

namespace holdfast {
namespace {

constexpr size_t kBlock = 16;  // a fixed inner count is what compilers vectorise
constexpr uint32_t kInfBits = 0x7f800000u, kMinusInfBits = 0xff800000u;

// NaN of either sign or +inf.
bool IsBad(float logit) {
  const uint32_t bits = std::bit_cast<uint32_t>(logit);
  return (bits & 0x7fffffffu) >= kInfBits && bits != kMinusInfBits;
}

Status BadRowError(std::span<const float> logits) {
  for (size_t i = 0; i < logits.size(); ++i) {
    if (IsBad(logits[i])) {
      return InternalError(fmt::format("the model gave the logit {} for token {}", logits[i], i));
    }
  }
  if (logits.empty()) return InternalError("the row of logits is empty");
  return InvalidArgumentError("every token of the vocabulary is banned (-inf): see logit_bias");
}

}  // namespace

Result<RowMax> FindMax(std::span<const float> logits) {
  constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
  RowMax best{0, kMinusInf};
  size_t best_begin = 0;
  uint32_t bad = 0;
  float lanes[kBlock];
  size_t i = 0;
  // Runs of 64 blocks: their maximum by lanes, and only a run that raises it is remembered.
  while (logits.size() - i >= kBlock) {
    const size_t begin = i;
    const size_t end = std::min(logits.size() - kBlock + 1, begin + 64 * kBlock);
    std::fill(std::begin(lanes), std::end(lanes), kMinusInf);
    uint32_t lane_bad[kBlock] = {};
    for (; i < end; i += kBlock) {
      const float* row = logits.data() + i;
      for (size_t j = 0; j < kBlock; ++j) {
        lanes[j] = lanes[j] < row[j] ? row[j] : lanes[j];
        const uint32_t bits = std::bit_cast<uint32_t>(row[j]);
        lane_bad[j] |= static_cast<uint32_t>((bits & 0x7fffffffu) >= kInfBits) &
                       static_cast<uint32_t>(bits != kMinusInfBits);
      }
    }
    const float run_max = *std::max_element(std::begin(lanes), std::end(lanes));
    for (uint32_t lane : lane_bad) bad |= lane;
    if (run_max > best.logit) {
      best.logit = run_max;
      best_begin = begin;
    }
  }
  for (; i < logits.size(); ++i) {
    bad |= IsBad(logits[i]) ? 1u : 0u;
    if (logits[i] > best.logit) {
      best.logit = logits[i];
      best_begin = i;
    }
  }
  if (bad != 0 || best.logit == kMinusInf) return BadRowError(logits);
  const auto at = std::find(logits.begin() + best_begin, logits.end(), best.logit);
  best.id = static_cast<TokenId>(at - logits.begin());
  return best;
}

double SumExp(std::span<const float> logits, float max, double temperature) {
  double lanes[kBlock] = {};
  size_t i = 0;
  for (; logits.size() - i >= kBlock; i += kBlock) {
    const float* row = logits.data() + i;
    double x[kBlock];
    for (size_t j = 0; j < kBlock; ++j) x[j] = (static_cast<double>(row[j]) - max) / temperature;
    for (size_t j = 0; j < kBlock; ++j) lanes[j] += DeterministicExp(x[j]);
  }
  for (size_t j = 0; i + j < logits.size(); ++j) {
    lanes[j] += DeterministicExp((static_cast<double>(logits[i + j]) - max) / temperature);
  }
  for (size_t stride = kBlock / 2; stride > 0; stride /= 2) {
    for (size_t j = 0; j < stride; ++j) lanes[j] += lanes[j + stride];
  }
  return lanes[0];
}

Result<RowLogprobs> ComputeLogprobs(std::span<const float> logits, TokenId chosen, int n_top) {
  HF_CHECK(chosen >= 0 && static_cast<size_t>(chosen) < logits.size() && n_top >= 0);
  HF_ASSIGN_OR_RETURN(const RowMax max, FindMax(logits));
  const double log_sum = DeterministicLog(SumExp(logits, max.logit, 1.0));
  const auto logprob = [&](TokenId id) {
    return static_cast<float>((static_cast<double>(logits[id]) - max.logit) - log_sum);
  };
  RowLogprobs result;
  result.logprob = logprob(chosen);
  TopTokens top;
  top.Reset(logits);
  const int64_t n = std::min<int64_t>(n_top, top.Extend(n_top));
  for (int64_t i = 0; i < n; ++i) result.top.push_back({top[i], logprob(top[i])});
  return result;
}

}  // namespace holdfast

#include "engine/sampler.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/double_math.h"
#include "engine/logits_row.h"
#include "engine/philox.h"

namespace holdfast {
namespace {

// e^((logit - max) / temperature), the weight of a token in a draw.
double Weight(float logit, float max, double temperature) {
  return DeterministicExp((static_cast<double>(logit) - max) / temperature);
}

}  // namespace

Sampler::Sampler(SamplingParams params, uint64_t seed) : params_(std::move(params)), seed_(seed) {}

bool Sampler::has_penalties() const {
  return params_.penalty_last_n != 0 &&
         (params_.repeat_penalty != 1.0f || params_.frequency_penalty != 0.0f ||
          params_.presence_penalty != 0.0f);
}

Result<TokenId> Sampler::Sample(std::span<const float> logits, std::span<const TokenId> history,
                                int64_t position, const TokenMask* allowed) {
  const std::span<const float> row = logits;
  const bool penalise = has_penalties();
  if (!params_.logit_bias.empty() || penalise || allowed != nullptr) {
    adjusted_.assign(logits.begin(), logits.end());
    if (allowed != nullptr) Ban(*allowed);
    for (const auto& [id, bias] : params_.logit_bias) {
      HF_CHECK(static_cast<size_t>(id) < adjusted_.size());
      adjusted_[static_cast<size_t>(id)] += bias;
    }
    if (penalise) Penalise(history);
    logits = adjusted_;
  }
  // No adjustment turns a NaN or an infinity into a number, so one check here sees the row's too.
  const Result<RowMax> found = FindMax(logits);
  if (!found.ok() && allowed != nullptr && FindMax(row).ok()) {
    return InvalidArgumentError("every token that the format of the reply allows here is banned");
  }
  if (!found.ok()) return found.status();
  const RowMax max = *found;
  if (params_.temperature == 0.0f) return max.id;  // the maximum passes every filter

  top_.Reset(logits);
  int64_t n_kept = static_cast<int64_t>(logits.size());
  if (params_.top_k > 0 && params_.top_k < n_kept) {
    n_kept = std::min<int64_t>(params_.top_k, top_.Extend(params_.top_k));
  }
  if (params_.top_p < 1.0f) n_kept = TopPCount(logits, n_kept, max.logit);
  if (params_.min_p > 0.0f) n_kept = MinPCount(logits, n_kept, max.logit);
  return Draw(logits, n_kept, max.logit, UniformAt(seed_, position));
}

// Adding -inf leaves a NaN one and makes one of +inf: a row that is bad stays bad.
void Sampler::Ban(const TokenMask& allowed) {
  constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < adjusted_.size(); ++i) {
    if (!allowed.Has(static_cast<TokenId>(i))) adjusted_[i] += kMinusInf;
  }
}

void Sampler::Penalise(std::span<const TokenId> history) {
  if (params_.penalty_last_n > 0) {
    const size_t n = std::min(history.size(), static_cast<size_t>(params_.penalty_last_n));
    history = history.last(n);
  }
  counts_.resize(adjusted_.size());
  const auto known = [&](TokenId id) {
    return id >= 0 && static_cast<size_t>(id) < counts_.size();
  };
  for (const TokenId id : history) {
    if (known(id)) ++counts_[static_cast<size_t>(id)];
  }
  for (const TokenId id : history) {
    if (!known(id)) continue;
    const int32_t count = std::exchange(counts_[static_cast<size_t>(id)], 0);
    if (count == 0) continue;  // met before
    float& logit = adjusted_[static_cast<size_t>(id)];
    logit = logit <= 0.0f ? logit * params_.repeat_penalty : logit / params_.repeat_penalty;
    logit -= static_cast<float>(count) * params_.frequency_penalty;
    logit -= params_.presence_penalty;
  }
}

// The sum of the weights of the first `n_kept` tokens. Of the whole vocabulary it is taken in id
// order, without sorting.
double Sampler::SumKept(std::span<const float> logits, int64_t n_kept, float max_logit,
                        double temperature) {
  if (n_kept == static_cast<int64_t>(logits.size())) {
    return SumExp(logits, max_logit, temperature);
  }
  double sum = 0.0;
  for (int64_t i = 0; i < n_kept; ++i) {
    sum += Weight(logits[static_cast<size_t>(top_[i])], max_logit, temperature);
  }
  return sum;
}

int64_t Sampler::TopPCount(std::span<const float> logits, int64_t n_kept, float max_logit) {
  const double wanted =
      static_cast<double>(params_.top_p) * SumKept(logits, n_kept, max_logit, 1.0);
  double cumulative = 0.0;
  for (int64_t i = 0; i < n_kept; ++i) {
    if (i >= top_.Extend(i + 1)) return i;  // only banned tokens are left
    cumulative += Weight(logits[static_cast<size_t>(top_[i])], max_logit, 1.0);
    if (cumulative >= wanted) return i + 1;
  }
  return n_kept;
}

int64_t Sampler::MinPCount(std::span<const float> logits, int64_t n_kept, float max_logit) {
  const double threshold = max_logit + DeterministicLog(params_.min_p);
  for (int64_t i = 0; i < n_kept; ++i) {
    if (i >= top_.Extend(i + 1) || logits[static_cast<size_t>(top_[i])] < threshold) return i;
  }
  return n_kept;
}

TokenId Sampler::Draw(std::span<const float> logits, int64_t n_kept, float max_logit, double u) {
  const double temperature = params_.temperature;
  const double wanted = u * SumKept(logits, n_kept, max_logit, temperature);
  double cumulative = 0.0;
  TokenId last_with_weight = top_[0];
  for (int64_t i = 0; i < n_kept && i < top_.Extend(i + 1); ++i) {
    const double weight = Weight(logits[static_cast<size_t>(top_[i])], max_logit, temperature);
    if (weight == 0.0) break;  // so have all that follow
    last_with_weight = top_[i];
    cumulative += weight;
    if (cumulative > wanted) break;
  }
  return last_with_weight;  // also when rounding kept the sum below u = 1 - 2^-24
}

}  // namespace holdfast

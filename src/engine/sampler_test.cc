#include "engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "engine/logits_row.h"
#include "engine/philox.h"
#include "tests/support/slow_build.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kReleasedVocab = 248320;

TokenId SampleOne(const SamplingParams& params, uint64_t seed, const std::vector<float>& logits,
                  const std::vector<TokenId>& history, int64_t position,
                  const TokenMask* allowed = nullptr) {
  Sampler sampler(params, seed);
  const Result<TokenId> id = sampler.Sample(logits, history, position, allowed);
  EXPECT_TRUE(id.ok()) << id.status().ToString();
  return id.ok() ? *id : -1;
}

// The same rules written the long way: everything sorted, probabilities as such, the C library's
// functions, long double sums.
TokenId Reference(const SamplingParams& p, uint64_t seed, std::vector<float> logits,
                  std::vector<TokenId> history, int64_t position,
                  const TokenMask* allowed = nullptr) {
  for (size_t id = 0; allowed != nullptr && id < logits.size(); ++id) {
    if (!allowed->Has(static_cast<TokenId>(id))) logits[id] = kMinusInf;
  }
  for (const auto& [id, bias] : p.logit_bias) logits[id] += bias;
  if (p.penalty_last_n >= 0 && static_cast<int>(history.size()) > p.penalty_last_n) {
    history.erase(history.begin(), history.end() - p.penalty_last_n);
  }
  std::map<TokenId, int> counts;
  for (TokenId id : history) ++counts[id];
  for (const auto& [id, count] : counts) {
    float& l = logits[id];
    if (l > 0) {
      l /= p.repeat_penalty;
    } else {
      l *= p.repeat_penalty;
    }
    l = l - count * p.frequency_penalty - p.presence_penalty;
  }
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
  if (p.temperature == 0) return order[0];
  if (p.top_k > 0 && p.top_k < static_cast<int>(order.size())) order.resize(p.top_k);
  const long double max = logits[order[0]];
  const auto softmax = [&](long double temperature) {
    std::vector<long double> probabilities;
    long double total = 0;
    for (TokenId id : order) {
      probabilities.push_back(std::exp((logits[id] - max) / temperature));
      total += probabilities.back();
    }
    for (long double& probability : probabilities) probability /= total;
    return probabilities;
  };
  if (p.top_p < 1.0f) {
    const auto probabilities = softmax(1);
    long double sum = 0;
    size_t n = 0;
    while (n < order.size() && sum < p.top_p) sum += probabilities[n++];
    order.resize(n);
  }
  if (p.min_p > 0.0f) {
    const long double limit = max + std::log(static_cast<long double>(p.min_p));
    std::erase_if(order, [&](TokenId id) { return logits[id] < limit; });
  }
  const auto probabilities = softmax(p.temperature);
  const long double u = UniformAt(seed, position);
  long double sum = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    sum += probabilities[i];
    if (sum > u) return order[i];
  }
  return order.back();
}

// Rows like a model's: a bulk around zero, a few far above, many equal values, some bans.
std::vector<float> RandomRow(std::mt19937_64& rng, int64_t n) {
  std::normal_distribution<float> normal(0.0f, 2.5f);
  std::vector<float> row(n);
  const bool coarse = rng() % 2 != 0;  // ties by the thousand
  const bool flat = rng() % 4 == 0;
  for (float& logit : row) {
    logit = flat ? 0.01f * normal(rng) : normal(rng);
    if (coarse) logit = std::round(logit * 4.0f) / 4.0f;
  }
  for (int i = 0; i < 20; ++i) row[rng() % n] = coarse ? 12.0f : 10.0f + normal(rng);
  for (int i = 0; i < 1000; ++i) row[rng() % n] = kMinusInf;
  row[rng() % n] = -0.0f;
  return row;
}

TEST(SamplerTest, EqualsTheReferenceOverTheReleasedVocabulary) {
  std::mt19937_64 rng(20260731);
  const auto pick = [&](auto... values) {
    const std::vector<float> all = {static_cast<float>(values)...};
    return all[rng() % all.size()];
  };
  int n_not_argmax = 0;
  const int n_cases = kSlowBuild && !CheckAll() ? 48 : 600;
  std::vector<float> row;
  for (int i = 0; i < n_cases; ++i) {
    if (i % 8 == 0) row = RandomRow(rng, kReleasedVocab);
    SamplingParams p;
    p.temperature = pick(0, 0.3, 0.7, 1, 1, 1.5, 4);
    p.top_k = static_cast<int>(pick(0, 0, 1, 2, 20, 64, 65, 1000, 100000, 248319, 248320, 300000));
    p.top_p = pick(1, 1, 0.95, 0.5, 0.1, 0.9999);
    p.min_p = pick(0, 0, 0.05, 0.5, 1, 1e-6);
    p.repeat_penalty = pick(1, 1, 1.1, 0.8, 1.5);
    p.frequency_penalty = pick(0, 0, 0.5, -0.5, 2);
    p.presence_penalty = pick(0, 0, 1, -1);
    p.penalty_last_n = static_cast<int>(pick(64, 0, 1, 5, -1, 1000));
    for (int64_t n = static_cast<int64_t>(rng() % 4); n > 0; --n) {
      p.logit_bias.emplace_back(rng() % kReleasedVocab, pick(kMinusInf, 3, -100, 15));
    }
    std::vector<TokenId> history;
    for (int64_t n = static_cast<int64_t>(rng() % 200); n > 0; --n) {
      history.push_back(static_cast<TokenId>(rng() % kReleasedVocab));
    }
    // Penalties and bans must reach the tokens that matter: those near the top.
    const TokenId best = FindMax(row)->id;
    for (int j = 0; j < 3; ++j) history.push_back(best);
    if (i % 3 == 0) p.logit_bias.emplace_back(best, kMinusInf);
    ASSERT_TRUE(p.Validate(kReleasedVocab).ok());
    const uint64_t seed = rng();
    const int64_t position = static_cast<int64_t>(rng() >> 20);
    const TokenId want = Reference(p, seed, row, history, position);
    ASSERT_EQ(SampleOne(p, seed, row, history, position), want) << "case " << i;
    n_not_argmax += want != best ? 1 : 0;
  }
  EXPECT_GT(n_not_argmax, n_cases / 3);  // the cases are not all decided by the maximum
}

TEST(SamplerTest, SmallRowsOfEverySizeEqualTheReference) {
  std::mt19937_64 rng(5);
  for (int n = 1; n <= 140; ++n) {
    for (int i = 0; i < 5; ++i) {
      std::vector<float> row(n);
      for (float& logit : row) logit = static_cast<float>(rng() % 7);
      SamplingParams p{.top_k = static_cast<int>(rng() % 5), .temperature = 1.0f};
      p.top_p = rng() % 2 != 0 ? 1.0f : 0.75f;
      const uint64_t seed = rng();
      ASSERT_EQ(SampleOne(p, seed, row, {}, i), Reference(p, seed, row, {}, i)) << n;
      p.temperature = 0.0f;
      ASSERT_EQ(SampleOne(p, seed, row, {}, i), Reference(p, seed, row, {}, i)) << n;
    }
  }
}

TEST(SamplerTest, TopKDrawsOnlyTheKLargestLogitsInSoftmaxProportion) {
  const std::vector<float> logits = {1.0f, 4.0f, 2.0f, 3.0f};
  Sampler sampler({.top_k = 2, .temperature = 1.0f}, 7);
  std::vector<int> count(logits.size());
  for (int i = 0; i < 10000; ++i) ++count[*sampler.Sample(logits, {}, i)];
  EXPECT_EQ(count[0] + count[2], 0);
  EXPECT_NEAR(count[1] / 10000.0, 0.731, 0.02);  // 1 / (1 + e^-1); 0.02 is over 4 sigma
}

TEST(SamplerTest, TopPKeepsTheTokenThatReachesIt) {
  // Four equal logits: 0.5 is reached exactly by the second.
  const std::vector<float> logits = {1.0f, 1.0f, 1.0f, 1.0f};
  Sampler sampler({.top_p = 0.5f, .temperature = 1.0f}, 7);
  std::vector<int> count(logits.size());
  for (int i = 0; i < 1000; ++i) ++count[*sampler.Sample(logits, {}, i)];
  EXPECT_GT(count[0], 400);
  EXPECT_GT(count[1], 400);
  EXPECT_EQ(count[2] + count[3], 0);
}

TEST(SamplerTest, TiesGoToTheLowerId) {
  std::vector<float> logits(5000, -1.0f);
  logits[4711] = logits[1234] = logits[3000] = 2.0f;
  EXPECT_EQ(SampleOne({}, 1, logits, {}, 0), 1234);
  EXPECT_EQ(SampleOne({.top_k = 1, .temperature = 1.0f}, 1, logits, {}, 0), 1234);
  logits.assign(5000, -1.0f);
  logits[1] = 0.0f;
  logits[0] = -0.0f;
  EXPECT_EQ(SampleOne({.top_k = 1, .temperature = 1.0f}, 1, logits, {}, 0), 0);
}

TEST(SamplerTest, PenaltiesFollowTheSignOfTheLogit) {
  // 3 / 1.5 = 2 < 2.5; -1 * 1.5 = -1.5 < -1.2.
  EXPECT_EQ(SampleOne({.repeat_penalty = 1.5f}, 1, {2.5f, 3.0f}, {1}, 0), 0);
  EXPECT_EQ(SampleOne({.repeat_penalty = 1.5f}, 1, {-1.2f, -1.0f}, {1}, 0), 0);
  // Two occurrences at 0.3 each take 0.6, presence 0.3 once.
  EXPECT_EQ(SampleOne({.frequency_penalty = 0.3f}, 1, {2.5f, 3.0f}, {1, 1}, 0), 0);
  EXPECT_EQ(SampleOne({.frequency_penalty = 0.3f, .penalty_last_n = 1}, 1, {2.5f, 3.0f}, {1, 1}, 0),
            1);
  EXPECT_EQ(SampleOne({.presence_penalty = 0.3f}, 1, {2.5f, 3.0f}, {1, 1}, 0), 1);
}

TEST(SamplerTest, ANonFiniteRowIsAnErrorWhateverTheParameters) {
  for (const float temperature : {0.0f, 1.0f}) {
    for (const float bad : {kNan, -kNan, -kMinusInf}) {
      for (const int64_t n : {1, 5, 16, 17, 100, 5000}) {
        for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
          std::vector<float> logits(n, 1.0f);
          logits[at] = bad;
          Sampler sampler({.temperature = temperature}, 1);
          const Result<TokenId> id = sampler.Sample(logits, {}, 0);
          ASSERT_FALSE(id.ok());
          EXPECT_EQ(id.status().code(), StatusCode::kInternal);
          EXPECT_THAT(id.status().message(), HasSubstr("token " + std::to_string(at)));
          // A ban on the bad token does not hide it.
          Sampler banning({.logit_bias = {{static_cast<TokenId>(at), kMinusInf}}}, 1);
          EXPECT_FALSE(banning.Sample(logits, {}, 0).ok());
        }
      }
    }
    Sampler sampler({.temperature = temperature}, 1);
    EXPECT_FALSE(sampler.Sample({}, {}, 0).ok());
    EXPECT_FALSE(sampler.Sample(std::vector<float>(40, kMinusInf), {}, 0).ok());
  }
}

TEST(SamplerTest, BannedTokensAreNeverDrawn) {
  std::vector<float> logits(300, 0.0f);
  SamplingParams p{.temperature = 1000.0f};
  for (TokenId id = 0; id < 299; ++id) p.logit_bias.emplace_back(id, kMinusInf);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(SampleOne(p, i, logits, {}, i), 299);
  p.top_p = 0.9f;
  p.min_p = 0.1f;
  p.top_k = 10;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(SampleOne(p, i, logits, {}, i), 299);
}

TEST(SamplerTest, UnderAGrammarItEqualsTheReference) {
  std::mt19937_64 rng(20261130);
  for (int i = 0; i < 200; ++i) {
    const int64_t n = 1000 + static_cast<int64_t>(rng() % 3000);
    const std::vector<float> row = RandomRow(rng, n);
    SamplingParams p;
    p.temperature = std::vector<float>{0.0f, 0.7f, 1.0f, 2.0f}[rng() % 4];
    p.top_k = std::vector<int>{0, 0, 1, 40}[rng() % 4];
    p.top_p = rng() % 2 != 0 ? 1.0f : 0.8f;
    p.min_p = rng() % 2 != 0 ? 0.0f : 0.05f;
    p.repeat_penalty = rng() % 2 != 0 ? 1.0f : 1.3f;
    p.logit_bias.emplace_back(static_cast<TokenId>(rng() % n), 5.0f);
    std::vector<TokenId> history;
    for (int j = 0; j < 30; ++j) history.push_back(static_cast<TokenId>(rng() % n));
    // Often only a handful, and never beyond the vocabulary that the mask knows.
    TokenMask allowed(n - static_cast<int64_t>(rng() % 100));
    const int n_allowed = rng() % 2 != 0 ? 3 : 700;
    for (int j = 0; j < n_allowed; ++j) allowed.Add(static_cast<TokenId>(rng() % (n - 100)));
    TokenId possible = 0;
    while (row[possible] == kMinusInf) ++possible;
    allowed.Add(possible);
    const uint64_t seed = rng();
    const TokenId got = SampleOne(p, seed, row, history, i, &allowed);
    ASSERT_EQ(got, Reference(p, seed, row, history, i, &allowed)) << "case " << i;
    ASSERT_TRUE(allowed.Has(got));
  }
}

TEST(SamplerTest, AGrammarHidesNoBadRowAndLeavesNoBannedToken) {
  TokenMask allowed(100);
  allowed.Add(7);
  for (const float bad : {kNan, -kMinusInf}) {
    std::vector<float> logits(100, 1.0f);
    logits[50] = bad;
    Sampler sampler({}, 1);
    const Result<TokenId> id = sampler.Sample(logits, {}, 0, &allowed);
    EXPECT_EQ(id.status().code(), StatusCode::kInternal);
    EXPECT_THAT(id.status().message(), HasSubstr("token 50"));
  }
  Sampler banning({.logit_bias = {{7, kMinusInf}}}, 1);
  EXPECT_EQ(banning.Sample(std::vector<float>(100, 1.0f), {}, 0, &allowed).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(SamplerTest, LogprobsAreThoseOfTheModel) {
  const std::vector<float> logits = {0.0f, std::log(3.0f), std::log(4.0f), kMinusInf};
  const Result<RowLogprobs> logprobs = ComputeLogprobs(logits, 0, 3);
  ASSERT_TRUE(logprobs.ok());
  EXPECT_NEAR(logprobs->logprob, std::log(1.0 / 8), 1e-6);
  ASSERT_EQ(logprobs->top.size(), 3u);
  EXPECT_EQ(logprobs->top[0].id, 2);
  EXPECT_NEAR(logprobs->top[0].logprob, std::log(4.0 / 8), 1e-6);
  EXPECT_EQ(logprobs->top[1].id, 1);
  EXPECT_EQ(logprobs->top[2].id, 0);
  EXPECT_EQ(ComputeLogprobs(logits, 1, 4)->top.size(), 3u);  // a banned token has none
  EXPECT_TRUE(ComputeLogprobs(logits, 1, 0)->top.empty());
  EXPECT_FALSE(ComputeLogprobs(std::vector<float>{kNan}, 0, 1).ok());
}

TEST(SamplingParamsTest, ValidateNamesFieldValueAndRange) {
  const auto message = [](const SamplingParams& p) {
    const Status status = p.Validate(100);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_TRUE(SamplingParams().Validate(100).ok());
  EXPECT_THAT(message({.temperature = -0.5f}), HasSubstr("temperature is -0.5"));
  EXPECT_THAT(message({.temperature = kNan}), HasSubstr("temperature"));
  EXPECT_THAT(message({.top_k = -1}), HasSubstr("top_k is -1"));
  EXPECT_THAT(message({.top_p = 0.0f}), HasSubstr("top_p is 0"));
  EXPECT_THAT(message({.top_p = 1.5f}), HasSubstr("(0, 1]"));
  EXPECT_THAT(message({.min_p = -0.1f}), HasSubstr("min_p"));
  EXPECT_THAT(message({.repeat_penalty = 0.0f}), HasSubstr("repeat_penalty is 0"));
  EXPECT_THAT(message({.frequency_penalty = 2.5f}), HasSubstr("frequency_penalty"));
  EXPECT_THAT(message({.presence_penalty = -3.0f}), HasSubstr("presence_penalty"));
  EXPECT_THAT(message({.penalty_last_n = -2}), HasSubstr("penalty_last_n is -2"));
  EXPECT_THAT(message({.logit_bias = {{100, 1.0f}}}), HasSubstr("token 100"));
  EXPECT_THAT(message({.logit_bias = {{-1, 1.0f}}}), HasSubstr("token -1"));
  EXPECT_THAT(message({.logit_bias = {{5, -kMinusInf}}}), HasSubstr("token 5"));
  const SamplingParams ban{.logit_bias = {{5, kMinusInf}}};
  EXPECT_TRUE(ban.Validate(100).ok());
}

}  // namespace
}  // namespace holdfast

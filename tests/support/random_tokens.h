#ifndef HOLDFAST_TESTS_SUPPORT_RANDOM_TOKENS_H_
#define HOLDFAST_TESTS_SUPPORT_RANDOM_TOKENS_H_

#include <cstdint>
#include <random>
#include <vector>

namespace holdfast {

// Ordinary tokens of the demo model's vocabulary, the same for the same seed.
inline std::vector<int32_t> RandomTokens(uint32_t seed, int64_t n) {
  std::mt19937 rng(seed);
  std::vector<int32_t> tokens(n);
  for (int32_t& token : tokens) token = 10 + static_cast<int32_t>(rng() % 8000);
  return tokens;
}

inline std::vector<int32_t> operator+(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace holdfast

#endif  // HOLDFAST_TESTS_SUPPORT_RANDOM_TOKENS_H_

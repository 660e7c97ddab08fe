#ifndef HOLDFAST_OPS_CPU_KERNELS_TEST_UTIL_H_
#define HOLDFAST_OPS_CPU_KERNELS_TEST_UTIL_H_

// Random operands and exact comparison for the tests of kernel sets.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ops/cpu/kernels.h"

namespace holdfast {

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}

  float Gaussian(float sigma) { return std::normal_distribution<float>(0.0f, sigma)(engine_); }
  int Below(int n) { return static_cast<int>(engine_() % static_cast<uint32_t>(n)); }
  std::byte Byte() { return static_cast<std::byte>(engine_() & 255); }

  std::vector<float> Floats(int64_t n, float sigma = 1.0f) {
    std::vector<float> v(static_cast<size_t>(n));
    for (float& x : v) x = Gaussian(sigma);
    return v;
  }

 private:
  std::mt19937 engine_;
};

// The vector sets that this CPU runs.
inline std::vector<const KernelTable*> VectorKernels() {
  std::vector<const KernelTable*> tables;
  int n = 0;
  const std::string_view* names = AvailableKernels(&n);
  for (int i = 1; i < n; ++i) tables.push_back(FindKernels(names[i]).value());
  return tables;
}

// Bits, except that every NaN equals every other.
inline uint32_t ComparableBits(float x) {
  return x == x ? std::bit_cast<uint32_t>(x) : 0x7fc00000u;
}

inline ::testing::AssertionResult SameBits(const std::vector<float>& actual,
                                           const std::vector<float>& expected) {
  if (actual.size() != expected.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (size_t i = 0; i < actual.size(); ++i) {
    if (ComparableBits(actual[i]) == ComparableBits(expected[i])) continue;
    return ::testing::AssertionFailure() << "element " << i << " of " << actual.size() << ": "
                                         << actual[i] << " instead of " << expected[i];
  }
  return ::testing::AssertionSuccess();
}

// Runs the test body once per vector set.
class KernelSetTest : public ::testing::TestWithParam<const KernelTable*> {};

inline std::string KernelSetName(const ::testing::TestParamInfo<const KernelTable*>& info) {
  return std::string(info.param->name);
}

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace holdfast

#endif  // HOLDFAST_OPS_CPU_KERNELS_TEST_UTIL_H_

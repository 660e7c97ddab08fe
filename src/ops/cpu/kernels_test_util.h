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

// Activation rows as the scalar table quantises them, in one or two terms.
struct QuantizedActivations {
  std::vector<int8_t> codes;
  std::vector<float> scales;
  std::vector<int16_t> sums16;
  int group = 32, n_terms = 1;

  QuantizedRows View() const {
    return {codes.data(), scales.data(), sums16.data(), group, n_terms};
  }
};

inline QuantizedActivations QuantizeRows(const std::vector<float>& x, int64_t n_cols, int group,
                                         int n_terms) {
  const KernelTable& scalar = ScalarKernels();
  const int64_t n_rows = static_cast<int64_t>(x.size()) / n_cols;
  const auto n = static_cast<size_t>(n_rows * n_terms * n_cols);
  QuantizedActivations q{.codes = std::vector<int8_t>(n),
                         .scales = std::vector<float>(n / static_cast<size_t>(group)),
                         .sums16 = std::vector<int16_t>(n / 16),
                         .group = group,
                         .n_terms = n_terms};
  for (int64_t row = 0; row < n_rows; ++row) {
    std::vector<float> values(x.begin() + row * n_cols, x.begin() + (row + 1) * n_cols);
    for (int64_t term = row * n_terms; term < (row + 1) * n_terms; ++term) {
      int8_t* codes = q.codes.data() + term * n_cols;
      float* scales = q.scales.data() + term * (n_cols / group);
      scalar.quantize(values.data(), n_cols, group, codes, scales,
                      q.sums16.data() + term * (n_cols / 16));
      scalar.residual(values.data(), codes, scales, n_cols, group, values.data());
    }
  }
  return q;
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

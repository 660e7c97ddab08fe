// Every vector set's row functions against the scalar ones, bit for bit.

#include "ops/cpu/kernels_test_util.h"

namespace holdfast {
namespace {

constexpr int64_t kSizes[] = {0, 1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64, 100, 2560};

// Gaussian values with every special one among them.
std::vector<float> WithSpecials(int64_t n, Random& random) {
  std::vector<float> x = random.Floats(n, 30.0f);
  const float specials[] = {0.0f,    -0.0f,     kInf,     -kInf,      kNan,      1e-45f,
                            -1e-40f, 88.72283f, 88.7229f, -87.33654f, -87.3366f, -103.0f,
                            3e38f,   -3e38f,    0.5f,     -0.34657f,  88.0f,     -87.0f};
  for (size_t i = 0; i < x.size(); i += 2) x[i] = specials[(i / 2) % std::size(specials)];
  return x;
}

using RowsTest = KernelSetTest;

TEST_P(RowsTest, ElementwiseFunctions) {
  Random random(21);
  const KernelTable &k = *GetParam(), &ref = ScalarKernels();
  for (const int64_t n : kSizes) {
    SCOPED_TRACE(n);
    const auto x = WithSpecials(n, random), z = random.Floats(n);
    std::vector<float> a(x.size()), b(x.size());
    k.sigmoid(x.data(), n, a.data());
    ref.sigmoid(x.data(), n, b.data());
    EXPECT_TRUE(SameBits(a, b)) << "sigmoid";
    k.silu(x.data(), 4.0f, n, a.data());
    ref.silu(x.data(), 4.0f, n, b.data());
    EXPECT_TRUE(SameBits(a, b)) << "silu";
    k.swiglu(x.data(), z.data(), n, a.data());
    ref.swiglu(x.data(), z.data(), n, b.data());
    EXPECT_TRUE(SameBits(a, b)) << "swiglu";
    k.sigmoid_mul(z.data(), x.data(), n, a.data());
    ref.sigmoid_mul(z.data(), x.data(), n, b.data());
    EXPECT_TRUE(SameBits(a, b)) << "sigmoid_mul";
    a = b = z;
    k.axpy(0.3f, x.data(), n, a.data());
    ref.axpy(0.3f, x.data(), n, b.data());
    EXPECT_TRUE(SameBits(a, b)) << "axpy";
    // In place.
    a = b = x;
    k.sigmoid(a.data(), n, a.data());
    ref.sigmoid(b.data(), n, b.data());
    EXPECT_TRUE(SameBits(a, b)) << "sigmoid in place";
  }
}

TEST_P(RowsTest, ExpAtEveryThousandthFloat) {
  const KernelTable &k = *GetParam(), &ref = ScalarKernels();
  std::vector<float> a, b;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4099) {
    a.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  b = a;
  const auto n = static_cast<int64_t>(a.size());
  k.exp_sum(a.data(), 0.0f, n);
  ref.exp_sum(b.data(), 0.0f, n);
  EXPECT_TRUE(SameBits(a, b));
}

TEST_P(RowsTest, Reductions) {
  Random random(22);
  const KernelTable &k = *GetParam(), &ref = ScalarKernels();
  for (const int64_t n : kSizes) {
    SCOPED_TRACE(n);
    const auto x = random.Floats(n), gain = random.Floats(n);
    EXPECT_EQ(ComparableBits(k.dot(x.data(), gain.data(), n)),
              ComparableBits(ref.dot(x.data(), gain.data(), n)));
    for (const float* g : {gain.data(), static_cast<const float*>(nullptr)}) {
      std::vector<float> a(x.size()), b(x.size());
      k.rms_norm(x.data(), g, n, 1e-6f, a.data());
      ref.rms_norm(x.data(), g, n, 1e-6f, b.data());
      EXPECT_TRUE(SameBits(a, b));
    }
    std::vector<float> a = x, b = x;
    EXPECT_EQ(ComparableBits(k.exp_sum(a.data(), 1.5f, n)),
              ComparableBits(ref.exp_sum(b.data(), 1.5f, n)));
    EXPECT_TRUE(SameBits(a, b));
  }
}

// A lane that holds -0 (an underflow) must stay -0 where the row ends before it.
TEST_P(RowsTest, NegativeZeroLanesSurviveTheTail) {
  const KernelTable &k = *GetParam(), &ref = ScalarKernels();
  std::vector<float> a(17, -1e-30f), b(17, 1e-30f);
  for (const int64_t n : {16, 17}) {
    EXPECT_EQ(ComparableBits(k.dot(a.data(), b.data(), n)),
              ComparableBits(ref.dot(a.data(), b.data(), n)));
    EXPECT_EQ(ComparableBits(ref.dot(a.data(), b.data(), n)), 0x80000000u);
  }
}

TEST_P(RowsTest, Residual) {
  Random random(27);
  for (const int group : {32, 256, 8}) {
    std::vector<float> x = random.Floats(3 * group, 2.0f);
    x[1] = kInf;  // its group's scale is NaN
    std::vector<int8_t> codes(x.size());
    std::vector<float> scales(3), a(x.size()), b(x.size());
    const auto n = static_cast<int64_t>(x.size());
    ScalarKernels().quantize(x.data(), n, group, codes.data(), scales.data(), nullptr);
    GetParam()->residual(x.data(), codes.data(), scales.data(), n, group, a.data());
    ScalarKernels().residual(x.data(), codes.data(), scales.data(), n, group, b.data());
    EXPECT_TRUE(SameBits(a, b));
    EXPECT_TRUE(std::isnan(b[0]));
  }
}

TEST_P(RowsTest, Quantize) {
  Random random(23);
  const KernelTable &k = *GetParam(), &ref = ScalarKernels();
  for (const int group : {32, 64, 256, 16, 8, 20}) {
    for (const int64_t n_groups : {0, 1, 2, 5}) {
      for (int kind = 0; kind < 5; ++kind) {
        const int64_t n = n_groups * group;
        std::vector<float> x = random.Floats(n, kind == 1 ? 1e-31f : 3.0f);
        if (kind == 2) x = WithSpecials(n, random);
        if (kind == 3) std::fill(x.begin(), x.end(), -0.0f);
        if (kind == 4) {  // halves round to even: 2.5 / 127 * 127 and the like
          for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 255) / 2.0f - 63.5f;
        }
        std::vector<int8_t> codes_a(x.size()), codes_b(x.size());
        std::vector<float> scales_a(static_cast<size_t>(n_groups)), scales_b = scales_a;
        std::vector<int16_t> sums_a(x.size() / 16), sums_b = sums_a;
        k.quantize(x.data(), n, group, codes_a.data(), scales_a.data(), sums_a.data());
        ref.quantize(x.data(), n, group, codes_b.data(), scales_b.data(), sums_b.data());
        EXPECT_EQ(codes_a, codes_b);
        EXPECT_EQ(sums_a, sums_b);
        EXPECT_TRUE(SameBits(scales_a, scales_b));
        k.quantize(x.data(), n, group, codes_a.data(), scales_a.data(), nullptr);
        EXPECT_EQ(codes_a, codes_b);
      }
    }
  }
}

TEST_P(RowsTest, HcMixAndConvSilu) {
  Random random(24);
  const KernelTable &k = *GetParam(), &ref = ScalarKernels();
  for (const int64_t n : kSizes) {
    SCOPED_TRACE(n);
    for (const int64_t n_streams : {1, 2, 4}) {
      const auto m = random.Floats(n * n_streams), normed = random.Floats(n * n_streams);
      std::vector<float> a(static_cast<size_t>(n)), b(static_cast<size_t>(n));
      k.hc_mix(m.data(), normed.data(), n_streams, n, a.data());
      ref.hc_mix(m.data(), normed.data(), n_streams, n, b.data());
      EXPECT_TRUE(SameBits(a, b));
      const float* taps[4];
      for (int64_t i = 0; i < n_streams; ++i) taps[i] = m.data() + i * n;
      k.conv_silu(taps, normed.data(), n, static_cast<int>(n_streams), n, a.data());
      ref.conv_silu(taps, normed.data(), n, static_cast<int>(n_streams), n, b.data());
      EXPECT_TRUE(SameBits(a, b));
    }
  }
}

TEST_P(RowsTest, IndexScores) {
  Random random(25);
  const KernelTable &k = *GetParam(), &ref = ScalarKernels();
  for (const int64_t n_blocks : {0, 1, 7, 8, 16, 17, 63, 64, 129, 300}) {
    for (const int64_t dim : {1, 16, 128}) {
      const int64_t n_heads = 4, stride = n_blocks + 3;
      const auto q = random.Floats(n_heads * dim), keys = random.Floats(dim * stride);
      std::vector<float> a(static_cast<size_t>(n_blocks)), b(static_cast<size_t>(n_blocks));
      k.index_scores(q.data(), n_heads, dim, keys.data(), stride, n_blocks, a.data());
      ref.index_scores(q.data(), n_heads, dim, keys.data(), stride, n_blocks, b.data());
      EXPECT_TRUE(SameBits(a, b));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, RowsTest, ::testing::ValuesIn(VectorKernels()), KernelSetName);

}  // namespace
}  // namespace holdfast

// The scalar table against independent references in higher precision.

#include <algorithm>
#include <cstring>

#include "base/half.h"
#include "ops/cpu/integer_weights.h"
#include "ops/cpu/kernels_test_util.h"
#include "ops/cpu/scalar_math.h"
#include "weights/dequantize.h"

namespace holdfast {
namespace {

constexpr double kEps = 0x1p-24;  // half an ulp of f32, relative

// Distance of `value` from `exact` in units of the last place of the exact value.
double UlpError(float value, long double exact) {
  const int exponent = std::max(std::ilogb(exact), -126);
  return static_cast<double>(std::abs(static_cast<long double>(value) - exact) /
                             std::ldexp(1.0L, exponent - 23));
}

TEST(ScalarMathTest, ExpIsWithinTwoUlpOfTheExactValue) {
  double worst = 0;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 1009) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (!(x >= -87.3f && x <= 88.7f)) continue;
    worst = std::max(worst, UlpError(Exp(x), std::exp(static_cast<long double>(x))));
  }
  EXPECT_LT(worst, 2.0);
  EXPECT_EQ(Exp(89.0f), kInf);
  EXPECT_EQ(Exp(kInf), kInf);
  EXPECT_EQ(Exp(-87.4f), 0.0f);
  EXPECT_EQ(Exp(-kInf), 0.0f);
  EXPECT_TRUE(std::isnan(Exp(kNan)));
  EXPECT_EQ(Exp(0.0f), 1.0f);
}

// Exp's 2 ulp count up to twice where the sum crosses a power of two; the sum and the quotient add
// half an ulp each, which the quotient's smaller ulp may double.
TEST(ScalarMathTest, SigmoidIsWithinSixUlpOfTheExactValue) {
  double worst = 0;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 1009) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (!(x >= -87.0f && x <= 87.0f)) continue;
    const long double exact = 1.0L / (1.0L + std::exp(-static_cast<long double>(x)));
    worst = std::max(worst, UlpError(Sigmoid(x), exact));
  }
  EXPECT_LT(worst, 6.0);
}

struct QuantisedRow {
  std::vector<int8_t> codes;
  std::vector<float> scales;
  std::vector<int16_t> sums16;
};

QuantisedRow Quantise(const std::vector<float>& x, int group) {
  QuantisedRow q;
  q.codes.resize(x.size());
  q.scales.resize(x.size() / static_cast<size_t>(group));
  q.sums16.resize(x.size() / 16);
  ScalarKernels().quantize(x.data(), static_cast<int64_t>(x.size()), group, q.codes.data(),
                           q.scales.data(), q.sums16.data());
  return q;
}

TEST(ScalarKernelsTest, QuantizeIsWithinHalfAStepAndItsSumsAreExact) {
  Random random(41);
  for (const int group : {32, 64, 256}) {
    const std::vector<float> x = random.Floats(4 * group, 5.0f);
    const QuantisedRow q = Quantise(x, group);
    for (size_t i = 0; i < x.size(); ++i) {
      const float scale = q.scales[i / static_cast<size_t>(group)];
      EXPECT_LE(std::abs(q.codes[i]), 127);
      // Half a step, and the roundings of scale, inverse and product at up to 127 steps.
      EXPECT_NEAR(x[i], scale * static_cast<float>(q.codes[i]), scale * (0.5f + 127 * 4 * kEps));
    }
    for (size_t j = 0; j < q.sums16.size(); ++j) {
      int sum = 0;
      for (size_t i = 0; i < 16; ++i) sum += q.codes[16 * j + i];
      EXPECT_EQ(q.sums16[j], sum);
    }
  }
}

TEST(ScalarKernelsTest, TwoTermsAreWithinA250thOfAHalfStep) {
  Random random(45);
  for (const int group : {32, 256}) {
    const std::vector<float> x = random.Floats(4 * group, 5.0f);
    const QuantizedActivations q = QuantizeRows(x, 2 * group, group, 2);
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t cols = 2 * static_cast<size_t>(group), row = i / cols, col = i % cols;
      double value = 0;
      float first_scale = 0;
      for (const size_t term : {2 * row + 1, 2 * row}) {
        first_scale = q.scales[term * 2 + col / static_cast<size_t>(group)];
        value += static_cast<double>(first_scale) * q.codes[term * cols + col];
      }
      EXPECT_NEAR(x[i], value, static_cast<double>(first_scale) * (0.5 / 250));
    }
  }
}

// Blocks with random codes and small scales.
std::vector<std::byte> RandomRow(QuantType type, int64_t n_cols, Random& random) {
  const QuantTypeInfo& info = InfoOf(type);
  std::vector<std::byte> row(static_cast<size_t>(n_cols / info.block_size * info.block_bytes));
  for (std::byte& b : row) b = random.Byte();
  int d = 0, m = -1;
  if (type == QuantType::kQ2_K) d = 80, m = 82;
  if (type == QuantType::kQ3_K) d = 108;
  if (type == QuantType::kQ6_K) d = 208;
  if (type == QuantType::kQ4_K || type == QuantType::kQ5_K || type == QuantType::kQ4_1 ||
      type == QuantType::kQ5_1) {
    m = 2;
  }
  for (size_t at = 0; at < row.size(); at += static_cast<size_t>(info.block_bytes)) {
    for (const int offset : {d, m}) {
      if (offset < 0) continue;
      const uint16_t half = FloatToHalf(random.Gaussian(0.01f));
      std::memcpy(row.data() + at + static_cast<size_t>(offset), &half, sizeof half);
    }
  }
  return row;
}

// The integer form must be the dot product of what DequantizeRow() gives with the quantised
// activations. Errors: one rounding of d * da, one per lane step and four in the tree for the sum
// here; at most four per dequantised weight there. All are relative to the sum of magnitudes,
// codes and minimum apart, because those may cancel.
TEST(ScalarKernelsTest, IntegerFormIsTheDotProductOfDequantisedWeights) {
  Random random(42);
  for (const QuantTypeInfo& info : AllQuantTypes()) {
    if (!HasIntegerKernel(info.type)) continue;
    SCOPED_TRACE(info.name);
    const int group = ActivationGroup(info.type);
    for (const int64_t n_cols : {int64_t{256}, int64_t{2560}, int64_t{10240}}) {
      const auto row = RandomRow(info.type, n_cols, random);
      const QuantisedRow q = Quantise(random.Floats(n_cols), group);
      std::vector<float> w(static_cast<size_t>(n_cols));
      DequantizeRow(info.type, row.data(), n_cols, w.data());

      double exact = 0, magnitude = 0;
      for (int64_t c = 0; c < n_cols; ++c) {
        const auto i = static_cast<size_t>(c);
        exact += static_cast<double>(w[i]) * q.codes[i] * q.scales[static_cast<size_t>(c / group)];
      }
      IntegerGroup integers;
      for (int64_t b = 0; b < n_cols / group; ++b) {
        UnpackIntegerGroup(info.type, row.data(), b, &integers);
        const double da = q.scales[static_cast<size_t>(b)];
        for (int64_t c = 0; c < group; ++c) {
          const double code = std::abs(q.codes[static_cast<size_t>(b * group + c)]);
          magnitude += std::abs(integers.weights[c] * integers.d * da) * code;
          if (integers.has_min)
            magnitude += std::abs(integers.mins[c / 16] * integers.m * da) * code;
        }
      }

      float y = 0;
      MatMulSlice s;
      s.type = info.type;
      s.weights = row.data();
      s.row_bytes = static_cast<int64_t>(row.size());
      s.n_cols = n_cols;
      s.row_end = 1;
      s.quantized = {q.codes.data(), q.scales.data(), q.sums16.data(), group};
      s.n_x = 1;
      s.y = &y;
      s.y_stride = 1;
      ScalarKernels().matmul(s);
      const auto steps = static_cast<double>(2 * (n_cols / group) / 16 + 1);
      EXPECT_NEAR(y, exact, (steps + 4 + 1 + 4) * kEps * magnitude);
      EXPECT_GT(magnitude, 0.0);

      // The same row twice as two terms, whose products are added.
      auto twice = [](auto& v) { v.insert(v.end(), v.begin(), v.end()); };
      QuantisedRow both = q;
      twice(both.codes), twice(both.scales), twice(both.sums16);
      float sum = 0;
      s.quantized = {both.codes.data(), both.scales.data(), both.sums16.data(), group, 2};
      s.y = &sum;
      ScalarKernels().matmul(s);
      EXPECT_EQ(sum, y + y);
    }
  }
}

// One head over int8 cells, in double from the same codes and scales.
TEST(ScalarKernelsTest, AttentionIsTheSoftmaxAverageOfTheValues) {
  Random random(43);
  constexpr int64_t kDim = 128, kCells = 50;
  std::vector<int8_t> k(kDim * kCells), v(kDim * kCells);
  for (int8_t& c : k) c = static_cast<int8_t>(random.Below(255) - 127);
  for (int8_t& c : v) c = static_cast<int8_t>(random.Below(255) - 127);
  std::vector<uint16_t> k_scales(2 * kCells), v_scales(2 * kCells);
  for (uint16_t& h : k_scales)
    h = FloatToHalf(0.01f + 0.001f * static_cast<float>(random.Below(9)));
  for (uint16_t& h : v_scales)
    h = FloatToHalf(0.02f + 0.001f * static_cast<float>(random.Below(9)));
  const QuantisedRow q = Quantise(random.Floats(kDim), 64);
  const CellRun run = {reinterpret_cast<const std::byte*>(k.data()),
                       reinterpret_cast<const std::byte*>(v.data()),
                       reinterpret_cast<const std::byte*>(k_scales.data()),
                       reinterpret_cast<const std::byte*>(v_scales.data()), kCells};
  std::vector<float> scores(kCells), out(kDim);
  AttentionSlice s;
  s.head_dim = kDim;
  s.n_heads = 1;
  s.q_codes = q.codes.data();
  s.q_scales = q.scales.data();
  s.scale = 0.125f;
  s.runs = &run;
  s.n_runs = 1;
  s.n_cells = kCells;
  s.scores = scores.data();
  s.out = out.data();
  ScalarKernels().attention(s);

  std::vector<double> weight(kCells);
  double sum = 0;
  for (size_t i = 0; i < kCells; ++i) {
    double dot = 0;
    for (size_t d = 0; d < kDim; ++d) {
      dot += static_cast<double>(q.codes[d]) * q.scales[d / 64] * k[i * kDim + d] *
             HalfToFloat(k_scales[2 * i + d / 64]);
    }
    weight[i] = std::exp(dot * 0.125);
    sum += weight[i];
  }
  for (size_t d = 0; d < kDim; ++d) {
    double expected = 0;
    for (size_t i = 0; i < kCells; ++i) {
      expected += weight[i] / sum * v[i * kDim + d] * HalfToFloat(v_scales[2 * i + d / 64]);
    }
    // Scores stay below 8, so an error of a few eps in one moves its weight by tens of eps; the
    // values are below 127 * 0.028.
    EXPECT_NEAR(out[d], expected, 127 * 0.028 * 100 * kEps);
  }
}

// The recurrence of the model's specification, section 4.4, in double.
TEST(ScalarKernelsTest, GatedDeltaRuleIsTheRecurrence) {
  Random random(44);
  constexpr size_t kK = 16, kVals = 8, kTokens = 20;
  std::vector<float> state = random.Floats(kK * kVals, 0.3f);
  std::vector<double> exact(state.begin(), state.end());
  const auto q = random.Floats(kTokens * kK, 0.2f), k = random.Floats(kTokens * kK, 0.2f);
  const auto value = random.Floats(kTokens * kVals);
  std::vector<float> decay(kTokens), beta(kTokens), out(kTokens * kVals);
  for (size_t t = 0; t < kTokens; ++t) {
    decay[t] = 0.9f + 0.005f * static_cast<float>(random.Below(20));
    beta[t] = 0.1f + 0.01f * static_cast<float>(random.Below(80));
  }
  GdnSlice s;
  s.state = state.data();
  s.state_stride = s.n_v = s.value_stride = s.out_stride = kVals;
  s.dk = s.qk_stride = kK;
  s.n_tokens = kTokens;
  s.q_hat = q.data();
  s.k_hat = k.data();
  s.value = value.data();
  s.decay = decay.data();
  s.beta = beta.data();
  s.gate_stride = 1;
  s.out = out.data();
  ScalarKernels().gdn(s);
  for (size_t t = 0; t < kTokens; ++t) {
    for (size_t v = 0; v < kVals; ++v) {
      double dot = 0, o = 0;
      for (size_t i = 0; i < kK; ++i) {
        exact[i * kVals + v] *= decay[t];
        dot += exact[i * kVals + v] * k[t * kK + i];
      }
      const double delta = beta[t] * (value[t * kVals + v] - dot);
      for (size_t i = 0; i < kK; ++i) {
        exact[i * kVals + v] += k[t * kK + i] * delta;
        o += exact[i * kVals + v] * q[t * kK + i];
      }
      // At most 20 steps of some 20 roundings each on numbers below 8.
      EXPECT_NEAR(out[t * kVals + v], o, 8 * 400 * kEps);
    }
  }
}

TEST(KernelSetsTest, NamesThatAreUnknownAreRefusedAndAutoIsTheLastAvailable) {
  EXPECT_EQ(FindKernels("mmx").status().code(), StatusCode::kInvalidArgument);
  int n = 0;
  const std::string_view* names = AvailableKernels(&n);
  ASSERT_GE(n, 1);
  EXPECT_EQ(names[0], "scalar");
  EXPECT_EQ(FindKernels("auto").value()->name, names[n - 1]);
  for (int i = 0; i < n; ++i) EXPECT_EQ(FindKernels(names[i]).value()->name, names[i]);
}

}  // namespace
}  // namespace holdfast

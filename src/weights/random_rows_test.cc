#include "weights/random_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "weights/dequantize.h"

namespace holdfast {
namespace {

std::vector<std::byte> Rows(const RandomRows& rows, QuantType type, int64_t n_cols, int64_t first,
                            int64_t n) {
  std::vector<std::byte> out(static_cast<size_t>(n * RowBytes(type, n_cols).value()));
  rows.Fill(first, n, out);
  return out;
}

class RandomRowsTest : public testing::TestWithParam<QuantTypeInfo> {};

TEST_P(RandomRowsTest, ValuesHaveTheAskedSpreadAndNoMean) {
  const QuantType type = GetParam().type;
  for (const float sigma : {0.02f, 1.0f}) {
    const RandomRows rows(type, 1024, sigma, 7);
    const std::vector<std::byte> bytes = Rows(rows, type, 1024, 0, 64);
    std::vector<float> values(64 * 1024);
    DequantizeRow(type, bytes.data(), 64 * 1024, values.data());
    double sum = 0, squares = 0;
    for (float value : values) {
      sum += value;
      squares += double{value} * value;
    }
    const double n = static_cast<double>(values.size());
    // Powers of two (MXFP4) and 3-bit mantissas that may be denormal (NVFP4) cannot hit it exactly.
    const bool coarse = type == QuantType::kMXFP4 || type == QuantType::kNVFP4;
    EXPECT_NEAR(std::sqrt(squares / n) / sigma, 1.0, coarse ? 0.45 : 0.05);
    // The code books of IQ4 lean to one side by 0.09 sigma; Q4_0 and its like by half a code.
    EXPECT_LT(std::abs(sum / n) / sigma, 0.15);
  }
}

TEST_P(RandomRowsTest, ARowDependsOnSeedAndNumberOnly) {
  const QuantType type = GetParam().type;
  const RandomRows rows(type, 256, 0.1f, 7);
  const std::vector<std::byte> all = Rows(rows, type, 256, 0, 6);
  const size_t row_bytes = all.size() / 6;
  EXPECT_EQ(Rows(rows, type, 256, 4, 1),
            std::vector<std::byte>(all.begin() + static_cast<ptrdiff_t>(4 * row_bytes),
                                   all.begin() + static_cast<ptrdiff_t>(5 * row_bytes)));
  EXPECT_NE(Rows(rows, type, 256, 4, 1), Rows(rows, type, 256, 5, 1));
  EXPECT_NE(Rows(RandomRows(type, 256, 0.1f, 8), type, 256, 4, 1), Rows(rows, type, 256, 4, 1));
}

std::vector<QuantTypeInfo> DecodableTypes() {
  std::vector<QuantTypeInfo> types;
  for (const QuantTypeInfo& info : AllQuantTypes()) {
    if (info.decodes) types.push_back(info);
  }
  return types;
}

INSTANTIATE_TEST_SUITE_P(AllTypes, RandomRowsTest, testing::ValuesIn(DecodableTypes()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace holdfast

#include "ops/cpu/kv_cells.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/half.h"

namespace holdfast {
namespace {

float ScaleAt(const std::vector<std::byte>& scales, int g) {
  uint16_t half;
  std::memcpy(&half, scales.data() + 2 * g, 2);
  return HalfToFloat(half);
}

TEST(KvCellsTest, Int8CellsAreWithinHalfAStepOfTheRoundedScale) {
  std::mt19937 rng(5);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> x(256);
  for (float& v : x) v = normal(rng);
  std::vector<std::byte> codes(256), scales(8);
  WriteCell(KvFormat::kInt8, x.data(), 256, codes.data(), scales.data());
  for (int i = 0; i < 256; ++i) {
    const float scale = ScaleAt(scales, i / 64);
    // Half a step, and the part of the largest value that a rounded-down scale cuts off (2^-11).
    EXPECT_NEAR(static_cast<int8_t>(codes[i]) * scale, x[i], scale * (0.5f + 127.0f / 2048)) << i;
  }
}

TEST(KvCellsTest, Int8UsesTheRoundedScaleForTheCodes) {
  // max / 127 = 1.00008; as fp16 it is 1, so 0.5 lies exactly between two codes and goes to even.
  std::vector<float> x(32, 0.5f);
  x[0] = 127.01f;
  x[1] = 1.5f;
  std::vector<std::byte> codes(32), scales(2);
  WriteCell(KvFormat::kInt8, x.data(), 32, codes.data(), scales.data());
  EXPECT_EQ(ScaleAt(scales, 0), 1.0f);
  EXPECT_EQ(static_cast<int8_t>(codes[0]), 127);
  EXPECT_EQ(static_cast<int8_t>(codes[1]), 2);
  EXPECT_EQ(static_cast<int8_t>(codes[2]), 0);
}

TEST(KvCellsTest, ZeroesAndTinyValuesGiveZeroCodes) {
  std::vector<float> x(64, 1e-9f);
  std::vector<std::byte> codes(64, std::byte{7}), scales(2);
  WriteCell(KvFormat::kInt8, x.data(), 64, codes.data(), scales.data());
  EXPECT_EQ(ScaleAt(scales, 0), 0.0f);
  for (std::byte code : codes) EXPECT_EQ(code, std::byte{0});
}

TEST(KvCellsTest, ValuesThatAreNotFinitePoisonTheirGroupOnly) {
  for (float bad : {NAN, INFINITY, 1e30f}) {
    std::vector<float> x(128, 1.0f);
    x[70] = bad;
    std::vector<std::byte> codes(128), scales(4);
    WriteCell(KvFormat::kInt8, x.data(), 128, codes.data(), scales.data());
    EXPECT_FALSE(std::isnan(ScaleAt(scales, 0)));
    EXPECT_TRUE(std::isnan(ScaleAt(scales, 1))) << bad;
  }
}

TEST(KvCellsTest, QuantizeGroupPoisonsAndZeroes) {
  std::vector<float> x = {1.0f, -2.0f, std::numeric_limits<float>::quiet_NaN(), 0.0f};
  int8_t codes[4];
  float scale;
  QuantizeGroup(x.data(), 4, codes, &scale);
  EXPECT_TRUE(std::isnan(scale));
  x[2] = 0.5f;
  QuantizeGroup(x.data(), 4, codes, &scale);
  EXPECT_EQ(scale, 2.0f / 127.0f);
  EXPECT_EQ(codes[0], 64);  // 63.5 goes to even
  EXPECT_EQ(codes[1], -127);
  EXPECT_EQ(codes[2], 32);  // 31.75
}

}  // namespace
}  // namespace holdfast

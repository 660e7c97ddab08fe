#include "base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace holdfast {
namespace {

// The value of a finite half from its definition, in double.
double HalfByDefinition(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int mantissa = half & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(HalfTest, EveryFiniteHalfDecodesToItsDefinitionAndBack) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    if (((half >> 10) & 31) == 31) continue;
    const float value = HalfToFloat(static_cast<uint16_t>(half));
    ASSERT_EQ(value, HalfByDefinition(static_cast<uint16_t>(half))) << half;
    ASSERT_EQ(std::signbit(value), (half & 0x8000) != 0) << half;
    ASSERT_EQ(FloatToHalf(value), half);
  }
}

TEST(HalfTest, RoundsToNearestEvenBetweenAllNeighbours) {
  for (uint16_t half = 0; half < 0x7bff; ++half) {
    const double low = HalfByDefinition(half);
    const double high = HalfByDefinition(static_cast<uint16_t>(half + 1));
    const float middle = static_cast<float>((low + high) / 2);  // exact: one more bit than a half
    const uint16_t even = (half & 1) == 0 ? half : static_cast<uint16_t>(half + 1);
    ASSERT_EQ(FloatToHalf(middle), even) << half;
    ASSERT_EQ(FloatToHalf(-middle), even | 0x8000) << half;
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, 0.0f)), half);
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, 1e9f)), half + 1);
  }
}

TEST(HalfTest, OverflowsToInfinityFromTheMiddleAboveTheLargestHalf) {
  EXPECT_EQ(FloatToHalf(65519.996f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(-1e30f), 0xfc00);
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(HalfToFloat(0xfc00), -std::numeric_limits<float>::infinity());
}

TEST(HalfTest, NansStayNans) {
  EXPECT_EQ(FloatToHalf(std::bit_cast<float>(0x7f800001u)), 0x7e00);
  EXPECT_EQ(FloatToHalf(std::bit_cast<float>(0xffc02000u)), 0xfe01);
  EXPECT_EQ(std::bit_cast<uint32_t>(HalfToFloat(0x7c01)), 0x7fc02000u);
  EXPECT_EQ(FloatToBFloat16(std::bit_cast<float>(0x7f800001u)), 0x7fc0);
}

TEST(BFloat16Test, RoundsToNearestEven) {
  EXPECT_EQ(FloatToBFloat16(1.0f), 0x3f80);
  EXPECT_EQ(FloatToBFloat16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // tie to even
  EXPECT_EQ(FloatToBFloat16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(FloatToBFloat16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(FloatToBFloat16(std::numeric_limits<float>::max()), 0x7f80);
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) {
    ASSERT_EQ(FloatToBFloat16(BFloat16ToFloat(static_cast<uint16_t>(bits))), bits);
  }
}

}  // namespace
}  // namespace holdfast

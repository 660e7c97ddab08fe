#include "base/pressure.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

TEST(PressureTest, ReadsTheTenSecondAverages) {
  const auto p = ParsePressure(
      "some avg10=12.34 avg60=5.00 avg300=1.00 total=123456\n"
      "full avg10=3.21 avg60=1.00 avg300=0.50 total=65432\n");
  ASSERT_TRUE(p.has_value());
  EXPECT_DOUBLE_EQ(p->some_avg10, 12.34);
  EXPECT_DOUBLE_EQ(p->full_avg10, 3.21);
}

TEST(PressureTest, MalformedTextIsUnknown) {
  EXPECT_FALSE(ParsePressure("").has_value());
  EXPECT_FALSE(ParsePressure("some avg10=1.0\n").has_value());
  EXPECT_FALSE(ParsePressure("some avg10=x\nfull avg10=1\n").has_value());
  EXPECT_FALSE(ParsePressure("some avg10=nan\nfull avg10=1\n").has_value());
  EXPECT_FALSE(ParsePressure("awesome avg10=1\nfull avg10=1\n").has_value());
  EXPECT_FALSE(ReadMemoryPressure("/nowhere").has_value());
}

TEST(PressureTest, LevelsChangeOnceAndAreLeftWellBelowTheirThreshold) {
  PressureMonitor monitor;
  const auto update = [&](double some, double full, bool shortage = false) {
    return monitor.Update({MemoryPressure{some, full}, shortage});
  };
  EXPECT_FALSE(update(9, 0));
  EXPECT_TRUE(update(10, 0));
  EXPECT_EQ(monitor.level(), PressureLevel::kSome);
  EXPECT_FALSE(update(6, 0));
  EXPECT_TRUE(update(30, 5));
  EXPECT_EQ(monitor.level(), PressureLevel::kHigh);
  EXPECT_FALSE(update(30, 3));
  EXPECT_TRUE(update(30, 2));
  EXPECT_TRUE(update(4, 0));
  EXPECT_EQ(PressureLevelName(monitor.level()), "none");
  EXPECT_TRUE(update(0, 0, /*shortage=*/true));
  EXPECT_FALSE(monitor.Update({std::nullopt, true}));
  EXPECT_TRUE(monitor.Update({std::nullopt, false}));
}

}  // namespace
}  // namespace holdfast

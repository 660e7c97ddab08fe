#include "base/double_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace holdfast {
namespace {

// Distance in units of the last place of `want`.
double UlpDistance(double got, double want) {
  const double ulp =
      std::nextafter(std::fabs(want), std::numeric_limits<double>::infinity()) - std::fabs(want);
  return std::fabs(got - want) / ulp;
}

TEST(DoubleMathTest, ExpIsWithinTwoUlpOfTheLibrary) {
  std::mt19937_64 rng(1);
  std::uniform_real_distribution<double> wide(-708.0, 709.0), narrow(-2.0, 2.0);
  for (int i = 0; i < 200000; ++i) {
    const double x = i % 2 ? wide(rng) : narrow(rng);
    ASSERT_LE(UlpDistance(DeterministicExp(x), std::exp(x)), 2.0) << x;
  }
}

TEST(DoubleMathTest, ExpAtTheEdges) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(DeterministicExp(0.0), 1.0);
  EXPECT_EQ(DeterministicExp(-0.0), 1.0);
  EXPECT_EQ(DeterministicExp(-inf), 0.0);
  EXPECT_EQ(DeterministicExp(-1e300), 0.0);
  EXPECT_EQ(DeterministicExp(inf), DeterministicExp(709.0));
  EXPECT_GT(DeterministicExp(-708.0), 0.0);
}

TEST(DoubleMathTest, LogIsWithinTwoUlpOfTheLibrary) {
  std::mt19937_64 rng(2);
  std::uniform_real_distribution<double> exponent(-300.0, 300.0), near_one(0.5, 2.0);
  for (int i = 0; i < 200000; ++i) {
    const double x = i % 2 ? std::pow(10.0, exponent(rng)) : near_one(rng);
    ASSERT_LE(UlpDistance(DeterministicLog(x), std::log(x)), 2.0) << x;
  }
  EXPECT_EQ(DeterministicLog(1.0), 0.0);
  EXPECT_EQ(DeterministicLog(0.0), -std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace holdfast

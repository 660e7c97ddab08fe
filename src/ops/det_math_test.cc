#include "ops/det_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace holdfast {
namespace {

// Distance in units of the last place of the true value.
double Ulps(double got, long double want) {
  const double w = static_cast<double>(want);
  return static_cast<double>(std::fabs((static_cast<long double>(got) - want) /
                                       (std::nextafter(std::fabs(w), INFINITY) - std::fabs(w))));
}

TEST(DetMathTest, ExpAndLogAreWithinTwoUlps) {
  std::mt19937_64 rng(1);
  std::uniform_real_distribution<double> wide(-700, 700), narrow(-1, 1);
  for (int i = 0; i < 20000; ++i) {
    const double x = i % 2 ? wide(rng) : narrow(rng);
    EXPECT_LE(Ulps(DetExp(x), std::exp(static_cast<long double>(x))), 2) << x;
    const double y = DetExp(x);
    EXPECT_LE(std::fabs(DetLog(y) - static_cast<double>(std::log(static_cast<long double>(y)))),
              4e-16 * std::fmax(1.0, std::fabs(x)))
        << y;
  }
}

TEST(DetMathTest, SinCosIsWithinRoundingAtEveryPositionOfALongContext) {
  std::mt19937_64 rng(2);
  std::uniform_real_distribution<double> dist(0, 1 << 20);
  for (int i = 0; i < 20000; ++i) {
    const double x = i < 5000 ? i : dist(rng);
    double s, c;
    DetSinCos(x, &s, &c);
    EXPECT_NEAR(s, static_cast<double>(std::sin(static_cast<long double>(x))), 3e-16) << x;
    EXPECT_NEAR(c, static_cast<double>(std::cos(static_cast<long double>(x))), 3e-16) << x;
  }
}

TEST(DetMathTest, SoftplusMatchesItsDefinition) {
  for (float x = -79.0f; x < 25.0f; x += 0.37f) {
    const double want = x > 20.0f ? x : std::log1p(std::exp(static_cast<double>(x)));
    EXPECT_NEAR(DetSoftplus(x), want, 1.2e-7 * want) << x;
  }
  EXPECT_TRUE(std::isnan(DetSoftplus(NAN)));
}

}  // namespace
}  // namespace holdfast

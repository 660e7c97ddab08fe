#ifndef HOLDFAST_BASE_DOUBLE_MATH_H_
#define HOLDFAST_BASE_DOUBLE_MATH_H_

#include <bit>
#include <cstdint>

// e^x and ln x in double with nothing but +, -, *, / and bit moves, so that every machine and C
// library gives the same bits (sampling decides by them). Inline and free of branches on the value
// where that lets a compiler vectorise a loop over them.

namespace holdfast {

// Within 2 ulp for x in [-708, 709]; 0 below (also for -inf), e^709 above. x must not be NaN.
//
// n = round(x / ln 2); r = x - n ln 2 in two parts (fdlibm's: n * hi is exact for |n| < 2^20);
// Taylor polynomial of degree 13 on |r| <= ln2/2 (remainder 0.3466^14 / 14! < 5e-18); times 2^n.
inline double DeterministicExp(double x) {
  constexpr double kLog2E = 1.4426950408889634074;
  constexpr double kLn2Hi = 6.93147180369123816490e-01;
  constexpr double kLn2Lo = 1.90821492927058770002e-10;
  constexpr double kRound = 0x1.8p52;  // adding it rounds to an integer, ties to even
  const double clamped = x < -708.0 ? -708.0 : (x > 709.0 ? 709.0 : x);
  const double shifted = clamped * kLog2E + kRound;
  const double n = shifted - kRound;
  const double r = (clamped - n * kLn2Hi) - n * kLn2Lo;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  // The low bits of `shifted` hold n, and -1022 < n < 1024 makes 2^n a normal number.
  const double scale =
      std::bit_cast<double>((std::bit_cast<uint64_t>(shifted) << 52) + 0x3ff0000000000000u);
  return x < -708.0 ? 0.0 : p * scale;
}

// Within 2 ulp for positive normal x; -inf for 0 and denormals. x must be >= 0 and finite.
//
// x = 2^k m, m in [sqrt 1/2, sqrt 2); s = (m - 1) / (m + 1); ln m = 2 (s + s^3/3 + s^5/5 + ...):
// |s| <= 0.1716, so the term after s^23/23 is below 1e-20.
inline double DeterministicLog(double x) {
  if (x < 0x1p-1022) return -std::bit_cast<double>(uint64_t{0x7ff0000000000000u});
  constexpr double kLn2Hi = 6.93147180369123816490e-01;
  constexpr double kLn2Lo = 1.90821492927058770002e-10;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int64_t k = static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++k;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double s2 = s * s;
  double p = 1.0 / 23.0;
  for (int i = 21; i >= 3; i -= 2) p = p * s2 + 1.0 / i;
  const double log_m = 2.0 * s + 2.0 * s * s2 * p;
  const double n = static_cast<double>(k);
  return n * kLn2Hi + (n * kLn2Lo + log_m);
}

}  // namespace holdfast

#endif  // HOLDFAST_BASE_DOUBLE_MATH_H_

#include "ops/det_math.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace holdfast {
namespace {

constexpr double kLn2Hi = 0x1.62e42fefa38p-1;    // 40 bits
constexpr double kLn2Lo = 0x1.ef35793c7673p-45;  // the rest

double PowerOfTwo(int n) { return std::bit_cast<double>(uint64_t(n + 1023) << 52); }

}  // namespace

double DetExp(double x) {
  const double n = std::nearbyint(x * 1.4426950408889634);
  double r = std::fma(n, -kLn2Hi, x);
  r = std::fma(n, -kLn2Lo, r);
  // Taylor: |r| <= 0.347, the next term is below 2^-57.
  double p = 1.0;
  for (int i = 14; i >= 1; --i) p = std::fma(p, r / i, 1.0);
  const int half = static_cast<int>(n) / 2;
  return (p * PowerOfTwo(half)) * PowerOfTwo(static_cast<int>(n) - half);
}

double DetLog(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  // ln m = 2 atanh z, z = (m - 1) / (m + 1), |z| <= 0.172.
  const double z = (m - 1.0) / (m + 1.0);
  const double z2 = z * z;
  double p = 0.0;
  for (int k = 23; k >= 3; k -= 2) p = std::fma(p, z2, 1.0 / k);
  const double ln_m = std::fma(2.0 * z * z2, p, 2.0 * z);
  return std::fma(static_cast<double>(exponent), kLn2Hi,
                  std::fma(static_cast<double>(exponent), kLn2Lo, ln_m));
}

void DetSinCos(double x, double* sin, double* cos) {
  // pi / 2 in three parts, the first two of 33 bits: n * part is exact for |n| < 2^20.
  constexpr double kA = 1.57079632673412561417e+00;
  constexpr double kB = 6.07710050630396597660e-11;
  constexpr double kC = 2.02226624879595063154e-21;
  const double n = std::nearbyint(x * 0.63661977236758134308);
  double r = std::fma(n, -kA, x);
  r = std::fma(n, -kB, r);
  r = std::fma(n, -kC, r);
  const double r2 = r * r;
  // Taylor: |r| <= pi / 4.
  double s = 0.0, c = 0.0;
  for (int k = 19; k >= 3; k -= 2) s = (1.0 - s) * (r2 / (k * (k - 1)));
  for (int k = 20; k >= 2; k -= 2) c = (1.0 - c) * (r2 / (k * (k - 1)));
  s = std::fma(-r, s, r);
  c = 1.0 - c;
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      *sin = s, *cos = c;
      break;
    case 1:
      *sin = c, *cos = -s;
      break;
    case 2:
      *sin = -s, *cos = -c;
      break;
    default:
      *sin = -c, *cos = s;
      break;
  }
}

float DetSoftplus(float x) {
  if (!(x <= 20.0f)) return x;  // also NaN
  if (x < -80.0f) return 0.0f;
  const double e = DetExp(x);
  // 1 + e would lose the low bits of a small e.
  if (e < 1e-4) return static_cast<float>(e - e * e / 2 + e * e * e / 3);
  return static_cast<float>(DetLog(1.0 + e));
}

}  // namespace holdfast

#include "ops/rope.h"

#include <cmath>

#include "ops/det_math.h"

namespace holdfast {

Rope::Rope(int dims, float theta) : frequencies_(dims / 2) {
  const double log_theta = DetLog(theta);
  for (int i = 0; i < dims / 2; ++i) frequencies_[i] = DetExp(-2.0 * i / dims * log_theta);
}

void Rope::Angles(int64_t position, float* cos, float* sin) const {
  for (size_t i = 0; i < frequencies_.size(); ++i) {
    double s, c;
    DetSinCos(static_cast<double>(position) * frequencies_[i], &s, &c);
    cos[i] = static_cast<float>(c);
    sin[i] = static_cast<float>(s);
  }
}

void Rope::Rotate(const float* cos, const float* sin, int dims, float* x) {
  const int half = dims / 2;
  for (int i = 0; i < half; ++i) {
    const float a = x[i], b = x[i + half];
    x[i] = std::fma(a, cos[i], -(b * sin[i]));
    x[i + half] = std::fma(b, cos[i], a * sin[i]);
  }
}

}  // namespace holdfast

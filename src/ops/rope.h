#ifndef HOLDFAST_OPS_ROPE_H_
#define HOLDFAST_OPS_ROPE_H_

#include <cstdint>
#include <vector>

namespace holdfast {

// Rotary position embedding of text: pairs (i, i + dims / 2), angle position * theta^(-2 i / dims)
// (spec: qwen4exp, 5.2). Angles are computed in double and rounded once, the same on every machine.
class Rope {
 public:
  Rope(int dims, float theta);

  int dims() const { return 2 * static_cast<int>(frequencies_.size()); }
  // cos, sin: [dims / 2].
  void Angles(int64_t position, float* cos, float* sin) const;
  // Rotates the first dims() values of `x` in place.
  static void Rotate(const float* cos, const float* sin, int dims, float* x);

 private:
  std::vector<double> frequencies_;
};

}  // namespace holdfast

#endif  // HOLDFAST_OPS_ROPE_H_

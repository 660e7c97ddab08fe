#ifndef HOLDFAST_BASE_HALF_H_
#define HOLDFAST_BASE_HALF_H_

#include <bit>
#include <cstdint>

// IEEE half and bfloat16 as raw bits to and from f32, in integer arithmetic (clang 14 has no
// _Float16 without AVX512-FP16). Results equal those of the F16C instructions for every input:
// to half and bfloat16 rounds to nearest even; a NaN stays a NaN, quiet, with its sign and the
// upper bits of its payload; denormals are exact.

namespace holdfast {

inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) {  // zero or denormal: mantissa * 2^-24 is exact
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) {
    const uint32_t quiet = mantissa != 0 ? 0x00400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13) | quiet);
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

inline uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);  // >= 2^16, inf
  if (magnitude < 0x33000000u) return static_cast<uint16_t>(sign);  // < 2^-25: rounds to zero
  if (magnitude < 0x38800000u) {                                    // < 2^-14: a half denormal
    const uint32_t shift = 126 - (magnitude >> 23);                 // 14..24
    const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    const uint32_t kept = mantissa >> shift;
    const uint32_t rest = mantissa & ((1u << shift) - 1);
    const uint32_t middle = 1u << (shift - 1);
    return static_cast<uint16_t>(sign | (kept + (rest > middle || (rest == middle && (kept & 1)))));
  }
  // Rounding up may carry into the exponent, up to infinity, which is right.
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23);
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

inline float BFloat16ToFloat(uint16_t bfloat16) {
  return std::bit_cast<float>(static_cast<uint32_t>(bfloat16) << 16);
}

inline uint16_t FloatToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace holdfast

#endif  // HOLDFAST_BASE_HALF_H_

#ifndef HOLDFAST_OPS_CPU_BLOCK_BYTES_H_
#define HOLDFAST_OPS_CPU_BLOCK_BYTES_H_

// Little-endian numbers out of the blocks of quantised weights.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/half.h"

namespace holdfast::block_bytes {

inline int U8(const std::byte* p) { return static_cast<int>(*p); }
inline uint16_t U16(const std::byte* p) {
  uint16_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline uint32_t U32(const std::byte* p) {
  uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline float Half(const std::byte* p) { return HalfToFloat(U16(p)); }

}  // namespace holdfast::block_bytes

#endif  // HOLDFAST_OPS_CPU_BLOCK_BYTES_H_

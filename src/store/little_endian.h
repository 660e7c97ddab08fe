#ifndef HOLDFAST_STORE_LITTLE_ENDIAN_H_
#define HOLDFAST_STORE_LITTLE_ENDIAN_H_

// Integers as the store's files hold them, on any machine.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace holdfast {

static_assert(std::endian::native == std::endian::little,
              "page contents are native; a big-endian host would need another layout key");

template <typename T>
void PutInteger(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(value));
}
template <typename T>
T GetInteger(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

inline void PutU16(std::byte* to, uint16_t value) { PutInteger(to, value); }
inline void PutU32(std::byte* to, uint32_t value) { PutInteger(to, value); }
inline void PutU64(std::byte* to, uint64_t value) { PutInteger(to, value); }
inline uint16_t GetU16(const std::byte* from) { return GetInteger<uint16_t>(from); }
inline uint32_t GetU32(const std::byte* from) { return GetInteger<uint32_t>(from); }
inline uint64_t GetU64(const std::byte* from) { return GetInteger<uint64_t>(from); }

// Arrays of fixed-size integers. `bytes` holds a whole number of them.
template <typename T>
std::vector<T> IntegersOf(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace holdfast

#endif  // HOLDFAST_STORE_LITTLE_ENDIAN_H_

#ifndef HOLDFAST_BASE_HASH128_H_
#define HOLDFAST_BASE_HASH128_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace holdfast {

// An XXH3-128 value: finds damage and names content. Never an identity of a prompt prefix.
struct Hash128 {
  uint64_t low = 0, high = 0;

  friend bool operator==(const Hash128&, const Hash128&) = default;
  // 32 hex digits, high half first, as xxhsum -H2 prints it.
  std::string Hex() const;
  // The inverse of Hex(); nothing for any other text.
  static std::optional<Hash128> FromHex(std::string_view hex);
};

Hash128 Hash128Of(std::span<const std::byte> bytes);

// The same over pieces: equal to Hash128Of of them joined.
class Hash128Stream {
 public:
  Hash128Stream();
  ~Hash128Stream();
  Hash128Stream(Hash128Stream&&) noexcept;
  Hash128Stream& operator=(Hash128Stream&&) noexcept;
  void Add(std::span<const std::byte> bytes);
  // Adds the 8 bytes of `value`, little-endian.
  void Add(uint64_t value);
  // Adds the length, then the characters, so that neighbours cannot run into each other.
  void Add(std::string_view text);
  Hash128 Value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace holdfast

#endif  // HOLDFAST_BASE_HASH128_H_

#include "base/hash128.h"

#include <fmt/format.h>

#define XXH_STATIC_LINKING_ONLY  // for the state on the heap with its alignment
#include <xxhash.h>
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
// Takes the widest vectors the processor has; the values are the same, in half the time.
#include <xxh_x86dispatch.h>
#endif

#include "base/check.h"

namespace holdfast {
namespace {

std::optional<uint64_t> ParseHex(std::string_view digits) {
  uint64_t value = 0;
  for (const char c : digits) {
    int digit;
    if (c >= '0' && c <= '9') {
      digit = c - '0';
    } else if (c >= 'a' && c <= 'f') {
      digit = c - 'a' + 10;
    } else {
      return std::nullopt;
    }
    value = value << 4 | static_cast<uint64_t>(digit);
  }
  return value;
}

}  // namespace

std::string Hash128::Hex() const { return fmt::format("{:016x}{:016x}", high, low); }

std::optional<Hash128> Hash128::FromHex(std::string_view hex) {
  if (hex.size() != 32) return std::nullopt;
  const std::optional<uint64_t> high = ParseHex(hex.substr(0, 16)), low = ParseHex(hex.substr(16));
  if (!high || !low) return std::nullopt;
  return Hash128{*low, *high};
}

Hash128 Hash128Of(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

struct Hash128Stream::State {
  XXH3_state_t xxh;
};

Hash128Stream::Hash128Stream() : state_(std::make_unique<State>()) {
  HF_CHECK(XXH3_128bits_reset(&state_->xxh) == XXH_OK);
}
Hash128Stream::~Hash128Stream() = default;
Hash128Stream::Hash128Stream(Hash128Stream&&) noexcept = default;
Hash128Stream& Hash128Stream::operator=(Hash128Stream&&) noexcept = default;

void Hash128Stream::Add(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  HF_CHECK(XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size()) == XXH_OK);
}

void Hash128Stream::Add(uint64_t value) {
  std::byte bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
  Add(std::span<const std::byte>(bytes));
}

void Hash128Stream::Add(std::string_view text) {
  Add(static_cast<uint64_t>(text.size()));
  Add(std::as_bytes(std::span(text)));
}

Hash128 Hash128Stream::Value() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh);
  return {hash.low64, hash.high64};
}

}  // namespace holdfast

#include "bench/seeded_state.h"

#include <cstring>

namespace holdfast {
namespace {

// Half-precision scales 2^-7 to 2^-6: codes up to 127 are values up to about two.
uint64_t HalfScales(uint64_t bits) {
  constexpr uint64_t kMantissas = 0x03ff03ff03ff03ff, kExponents = 0x2000200020002000;
  return (bits & kMantissas) | kExponents;
}

// Halves of either sign, 0.25 to 0.5.
uint64_t Halves(uint64_t bits) {
  constexpr uint64_t kSignsAndMantissas = 0x83ff83ff83ff83ff, kExponents = 0x3400340034003400;
  return (bits & kSignsAndMantissas) | kExponents;
}

// Floats of either sign, 0.25 to 0.5.
uint64_t Floats(uint64_t bits) {
  constexpr uint64_t kSignsAndMantissas = 0x807fffff807fffff, kExponents = 0x3e8000003e800000;
  return (bits & kSignsAndMantissas) | kExponents;
}

// Odd codes: -128 is one that the quantiser never writes.
uint64_t Codes(uint64_t bits) { return bits | 0x0101010101010101; }

}  // namespace

uint64_t SeededState::Next() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return random_;
}

void SeededState::FillPart(const Part& part, std::span<std::byte> bytes) {
  uint64_t (*shape)(uint64_t) = Floats;
  if (part.kind == PartKind::kKeyScales || part.kind == PartKind::kValueScales) {
    shape = HalfScales;
  } else if (part.kind == PartKind::kKeys || part.kind == PartKind::kValues) {
    if (layout_->kv_format() == KvFormat::kInt8) shape = Codes;
    if (layout_->kv_format() == KvFormat::kF16) shape = Halves;
  }
  for (size_t i = 0; i + sizeof(uint64_t) <= bytes.size(); i += sizeof(uint64_t)) {
    const uint64_t value = shape(Next());
    std::memcpy(bytes.data() + i, &value, sizeof(value));
  }
}

Status SeededState::Fill(Buffer* buffer, std::span<const Part> parts) {
  return backend_->WithHostBytes(buffer, [&](std::span<std::byte> bytes) {
    for (const Part& part : parts) FillPart(part, bytes.subspan(part.offset, part.bytes));
    return OkStatus();
  });
}

}  // namespace holdfast

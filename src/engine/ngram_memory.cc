#include "engine/ngram_memory.h"

#include <fmt/format.h>

#include <algorithm>

namespace holdfast {
namespace {

// By itself the cache takes a 64th of the room, within these: 64 MiB hold the rows of 40,000
// different n-grams of the released model (90 bytes each, 16 a token), and beyond 1 GiB experts
// have more use for the memory.
constexpr uint64_t kLeastBytes = uint64_t{64} << 20;
constexpr uint64_t kMostBytes = uint64_t{1} << 30;
constexpr uint64_t kShareOfRoom = 64;

}  // namespace

Result<uint64_t> PlanNgramRows(const NgramMemory& memory, const NgramSizes& sizes, uint64_t room,
                               uint64_t others) {
  if (sizes.table_bytes == 0 || memory.kind == NgramMemory::Kind::kAll) return uint64_t{0};
  if (memory.kind == NgramMemory::Kind::kSize) {
    if (memory.bytes < sizes.least_bytes()) {
      return InvalidArgumentError(fmt::format("--ngram-memory: {} bytes, wanted at least {}",
                                              memory.bytes, sizes.least_bytes()));
    }
    return std::min(memory.bytes, sizes.most_bytes());
  }
  const uint64_t bytes =
      std::max(std::clamp(room / kShareOfRoom, kLeastBytes, kMostBytes), sizes.least_bytes());
  const bool mapped = sizes.table_bytes + others <= room || sizes.table_bytes <= bytes;
  return mapped ? 0 : bytes;
}

std::string DescribeNgramRows(const NgramTierStats& stats) {
  return fmt::format("{} of {} in memory ({:.1f} MiB), the others are read by {}", stats.n_slots,
                     stats.n_rows, static_cast<double>(stats.memory_bytes) / (1 << 20),
                     stats.reader);
}

}  // namespace holdfast

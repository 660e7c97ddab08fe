#include "engine/memory_relief.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace holdfast {
namespace {

// PSI's shortest mean is over 10 s: looking more often shows nothing new.
constexpr double kReadingS = 1.0;
// Of what is kept, with every reading under pressure; at least the second.
constexpr uint64_t kShare = 8;
constexpr uint64_t kLeastBytes = uint64_t{64} << 20;

}  // namespace

MemoryRelief::MemoryRelief(Sources sources, Give give)
    : sources_(std::move(sources)), give_(std::move(give)) {}

void MemoryRelief::Tick() {
  const double now_s = sources_.now_s();
  const uint64_t shortage = sources_.shortage();
  // What is missing is given at once; everything else can wait for the next reading.
  const bool reads = now_s - read_at_s_ >= kReadingS;
  if (shortage == 0 && !reads) return;
  const auto pressure = reads ? sources_.pressure() : stats().pressure;
  if (reads) read_at_s_ = now_s;
  const bool changed = monitor_.Update({.pressure = pressure, .shortage = shortage > 0});
  {
    const std::lock_guard lock(mutex_);
    stats_.level = monitor_.level();
    stats_.pressure = pressure;
    stats_.n_changes += changed;
  }
  if (changed) Log(shortage);
  if (monitor_.level() == PressureLevel::kNone) return;
  uint64_t given = shortage > 0 ? GiveBackBytes(shortage, GiveBack::kParked) : 0;
  if (!reads) return;
  const uint64_t step = std::max(sources_.kept_bytes() / kShare, kLeastBytes);
  const bool high = monitor_.level() == PressureLevel::kHigh;
  if (given < step) GiveBackBytes(step - given, high ? GiveBack::kParked : GiveBack::kOnDisk);
}

uint64_t MemoryRelief::GiveBackBytes(uint64_t wanted, GiveBack last) {
  uint64_t sum = 0;
  for (GiveBack level : {GiveBack::kFreeBuffers, GiveBack::kOnDisk, GiveBack::kParked}) {
    if (level > last || sum >= wanted) break;
    const uint64_t given = give_(level, wanted - sum);
    sum += given;
    const std::lock_guard lock(mutex_);
    stats_.given_bytes[static_cast<size_t>(level)] += given;
  }
  return sum;
}

void MemoryRelief::Log(uint64_t shortage) const {
  const MemoryReliefStats now = stats();
  if (now.level == PressureLevel::kNone) {
    spdlog::info("memory: no pressure any more; {} MiB were given back since the start",
                 (now.given_bytes[0] + now.given_bytes[1] + now.given_bytes[2]) >> 20);
    return;
  }
  spdlog::warn(
      "memory: {} pressure ({} MiB below --cache-min-free; {}); giving back free buffers, then "
      "what "
      "is on disk{}",
      PressureLevelName(now.level), shortage >> 20,
      now.pressure ? fmt::format("some {:.1f}%, full {:.1f}% of the last 10 s",
                                 now.pressure->some_avg10, now.pressure->full_avg10)
                   : "no PSI",
      now.level == PressureLevel::kHigh || shortage > 0 ? ", then parked conversations" : "");
}

MemoryReliefStats MemoryRelief::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace holdfast

#include "base/memory_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace holdfast {
namespace {

MemoryGuard::Sources LiveSources() {
  return {.host = ReadHostMemory,
          .resident = [] { return ReadProcessResidentBytes(); },
          .now_s =
              [] {
                const auto now = std::chrono::steady_clock::now().time_since_epoch();
                return std::chrono::duration<double>(now).count();
              }};
}

int64_t Signed(uint64_t bytes) {
  return static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX / 4));
}

}  // namespace

MemoryGuard::MemoryGuard(const Options& options) : MemoryGuard(options, LiveSources()) {}

MemoryGuard::MemoryGuard(const Options& options, Sources sources)
    : options_(options), sources_(std::move(sources)) {}

void MemoryGuard::Refresh() {
  const double now = sources_.now_s();
  while (!grants_.empty() && now - grants_.front().first >= options_.grant_hold_s) {
    grants_.pop_front();
  }
  if (has_reading_ && now - read_at_s_ < options_.max_age_s) return;
  host_ = sources_.host();
  resident_ = options_.memory_limit_bytes ? sources_.resident() : std::nullopt;
  read_at_s_ = now;
  has_reading_ = true;
}

MemoryGuard::Room MemoryGuard::RoomNow() {
  Refresh();
  if (!host_.available_bytes) return {std::nullopt, host_.limited_by};
  if (options_.memory_limit_bytes && !resident_) {
    return {std::nullopt, "this process's resident memory is unknown"};
  }
  int64_t granted = 0;
  for (const auto& grant : grants_) granted += Signed(grant.second);
  Room room;
  room.bytes = Signed(*host_.available_bytes) - Signed(options_.min_free_bytes) - granted;
  room.why =
      fmt::format("{} available ({} B), {} B must stay free, {} B just granted", host_.limited_by,
                  *host_.available_bytes, options_.min_free_bytes, granted);
  if (options_.memory_limit_bytes) {
    const int64_t left = Signed(*options_.memory_limit_bytes) - Signed(*resident_) - granted;
    if (left < *room.bytes) {
      room.bytes = left;
      room.why = fmt::format("memory limit {} B, {} B resident, {} B just granted",
                             *options_.memory_limit_bytes, *resident_, granted);
    }
  }
  return room;
}

Status MemoryGuard::Consent(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  const Room room = RoomNow();
  if (!room.bytes) {
    return ResourceExhaustedError(fmt::format("{} B more memory refused: {}", bytes, room.why));
  }
  if (*room.bytes < Signed(bytes)) {
    return ResourceExhaustedError(fmt::format("{} B more memory refused: {}", bytes, room.why));
  }
  grants_.emplace_back(sources_.now_s(), bytes);
  return OkStatus();
}

uint64_t MemoryGuard::Headroom() {
  std::lock_guard lock(mutex_);
  return static_cast<uint64_t>(std::max<int64_t>(0, RoomNow().bytes.value_or(0)));
}

uint64_t MemoryGuard::Shortage() {
  std::lock_guard lock(mutex_);
  Refresh();
  int64_t shortage = 0;
  if (host_.available_bytes) {
    shortage = Signed(options_.min_free_bytes) - Signed(*host_.available_bytes);
  }
  if (options_.memory_limit_bytes && resident_) {
    shortage = std::max(shortage, Signed(*resident_) - Signed(*options_.memory_limit_bytes));
  }
  return static_cast<uint64_t>(std::max<int64_t>(0, shortage));
}

HostMemory MemoryGuard::last() const {
  std::lock_guard lock(mutex_);
  return host_;
}

}  // namespace holdfast

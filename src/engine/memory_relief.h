#ifndef HOLDFAST_ENGINE_MEMORY_RELIEF_H_
#define HOLDFAST_ENGINE_MEMORY_RELIEF_H_

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "base/pressure.h"
#include "state/state_cache.h"

namespace holdfast {

struct MemoryReliefStats {
  PressureLevel level = PressureLevel::kNone;
  std::optional<MemoryPressure> pressure;    // none: the system does not tell
  int64_t n_changes = 0;                     // of the level
  std::array<uint64_t, 3> given_bytes = {};  // by GiveBack
};

// Gives memory back while the host is short of it, in the fixed order of GiveBack: what is missing
// below --cache-min-free at once, and while programs wait for memory (PSI) a share of what is kept
// with every reading. Under some pressure only what costs nothing or is on disk anyway, under high
// pressure parked conversations too. A change of the level is logged once.
//
// Threads: the engine's; stats() any.
class MemoryRelief {
 public:
  struct Sources {
    std::function<uint64_t()> shortage;  // MemoryGuard::Shortage
    std::function<std::optional<MemoryPressure>()> pressure;
    std::function<uint64_t()> kept_bytes;  // what parked conversations take
    std::function<double()> now_s;
  };
  using Give = std::function<size_t(GiveBack level, size_t bytes)>;  // StateCache::Release

  MemoryRelief(Sources sources, Give give);
  // Cheap: the readings are looked at once a second.
  void Tick();
  MemoryReliefStats stats() const;

 private:
  uint64_t GiveBackBytes(uint64_t wanted, GiveBack last);
  void Log(uint64_t shortage) const;

  const Sources sources_;
  const Give give_;
  PressureMonitor monitor_;
  double read_at_s_ = -1e9;

  mutable std::mutex mutex_;
  MemoryReliefStats stats_;  // guarded by mutex_
};

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_MEMORY_RELIEF_H_

#ifndef HOLDFAST_BASE_PRESSURE_H_
#define HOLDFAST_BASE_PRESSURE_H_

// Memory pressure as Linux tells it (PSI): the share of time in which tasks waited for memory.

#include <optional>
#include <string>
#include <string_view>

namespace holdfast {

struct MemoryPressure {
  double some_avg10 = 0;  // percent of the last 10 s in which some task waited
  double full_avg10 = 0;  // in which all did
};

// The text of /proc/pressure/memory or a cgroup's memory.pressure; none when malformed.
std::optional<MemoryPressure> ParsePressure(std::string_view text);
// The worse of the host's and our cgroup's; none where there is no PSI.
std::optional<MemoryPressure> ReadMemoryPressure(const std::string& root = "");

enum class PressureLevel { kNone, kSome, kHigh };

// Levels with hysteresis, so that one change is one log line: kSome from some_avg10 >= 10 (or a
// shortage), kHigh from full_avg10 >= 5; a level is left below half of its threshold.
class PressureMonitor {
 public:
  struct Reading {
    std::optional<MemoryPressure> pressure;
    bool shortage = false;  // MemoryGuard::Shortage() > 0
  };
  // True when the level changed.
  bool Update(const Reading& reading);
  PressureLevel level() const { return level_; }

 private:
  PressureLevel level_ = PressureLevel::kNone;
};

std::string_view PressureLevelName(PressureLevel level);

}  // namespace holdfast

#endif  // HOLDFAST_BASE_PRESSURE_H_

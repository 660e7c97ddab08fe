#include "base/pressure.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/cgroup_files.h"

namespace holdfast {
namespace {

std::optional<double> Avg10(const std::string& text, const std::string& kind) {
  const std::string head = kind + " avg10=";
  size_t at = text.rfind(head, 0) == 0 ? 0 : text.find("\n" + head);
  if (at == std::string::npos) return std::nullopt;
  at = text.find('=', at) + 1;
  char* end = nullptr;
  const double value = std::strtod(text.c_str() + at, &end);
  if (end == text.c_str() + at || !std::isfinite(value) || value < 0) return std::nullopt;
  return value;
}

}  // namespace

std::optional<MemoryPressure> ParsePressure(std::string_view text) {
  const std::string copy(text);
  const auto some = Avg10(copy, "some");
  const auto full = Avg10(copy, "full");
  if (!some || !full) return std::nullopt;
  return MemoryPressure{*some, *full};
}

std::optional<MemoryPressure> ReadMemoryPressure(const std::string& root) {
  std::optional<MemoryPressure> worst =
      ParsePressure(ReadTextFile(root + "/proc/pressure/memory").text);
  const MemoryCgroups cgroups = FindMemoryCgroups(root);
  if (cgroups.version != MemoryCgroups::Version::kV2 || cgroups.levels.empty()) return worst;
  const auto own = ParsePressure(ReadTextFile(root + cgroups.levels[0] + "/memory.pressure").text);
  if (!own || !worst) return own ? own : worst;
  return MemoryPressure{std::max(own->some_avg10, worst->some_avg10),
                        std::max(own->full_avg10, worst->full_avg10)};
}

bool PressureMonitor::Update(const Reading& reading) {
  constexpr double kSomeAt = 10, kHighAt = 5;
  const MemoryPressure p = reading.pressure.value_or(MemoryPressure{});
  const auto above = [&](double value, double threshold, PressureLevel level) {
    return value >= (level_ >= level ? threshold / 2 : threshold);
  };
  PressureLevel level = PressureLevel::kNone;
  if (reading.shortage || above(p.some_avg10, kSomeAt, PressureLevel::kSome)) {
    level = PressureLevel::kSome;
  }
  if (above(p.full_avg10, kHighAt, PressureLevel::kHigh)) level = PressureLevel::kHigh;
  return std::exchange(level_, level) != level;
}

std::string_view PressureLevelName(PressureLevel level) {
  switch (level) {
    case PressureLevel::kNone:
      return "none";
    case PressureLevel::kSome:
      return "some";
    case PressureLevel::kHigh:
      return "high";
  }
  return "?";
}

}  // namespace holdfast

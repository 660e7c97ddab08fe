#include "engine/stop_matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace holdfast {

Status ValidateStopStrings(const std::vector<std::string>& stops) {
  if (stops.size() > kMaxStopStrings) {
    return InvalidArgumentError(
        fmt::format("stop has {} strings, at most {} are allowed", stops.size(), kMaxStopStrings));
  }
  for (const std::string& stop : stops) {
    if (stop.empty()) return InvalidArgumentError("stop has an empty string");
    if (stop.size() > kMaxStopBytes) {
      return InvalidArgumentError(fmt::format(
          "stop has a string of {} bytes, at most {} are allowed", stop.size(), kMaxStopBytes));
    }
  }
  return OkStatus();
}

std::string StopMatcher::Push(std::string_view text) {
  if (stopped()) return {};
  if (stops_.empty()) return std::string(text);
  std::string all = std::exchange(held_, {});
  const size_t n_held = all.size();
  all += text;
  for (size_t end = n_held + 1; end <= all.size(); ++end) {
    const std::string_view so_far(all.data(), end);
    for (const std::string& stop : stops_) {
      if (so_far.ends_with(stop) && stop.size() > matched_.size()) matched_ = stop;
    }
    if (stopped()) return all.substr(0, end - matched_.size());
  }
  // Keep the longest tail that is a proper beginning of a stop string.
  size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, all.size()); n > keep; --n) {
      if (std::string_view(all).ends_with(std::string_view(stop).substr(0, n))) keep = n;
    }
  }
  held_ = all.substr(all.size() - keep);
  all.resize(all.size() - keep);
  return all;
}

std::string StopMatcher::Flush() { return std::exchange(held_, {}); }

}  // namespace holdfast

// The counters of a Linux host.

#include <algorithm>
#include <charconv>

#include "base/cgroup_files.h"
#include "base/host_memory.h"

namespace holdfast {
namespace {

std::optional<uint64_t> Kilobytes(std::string_view text, std::string_view key) {
  const std::optional<uint64_t> value = FieldOf(text, key);
  if (!value || *value > UINT64_MAX / 1024) return std::nullopt;
  return *value * 1024;
}

// A limit file: missing or "max" is no limit, and so is v1's largest page count.
void ReadLimit(const std::string& path, std::optional<uint64_t>* limit, bool* unknown) {
  constexpr uint64_t kNoLimit = uint64_t{1} << 62;
  const TextFile file = ReadTextFile(path);
  if (file.state == TextFile::State::kMissing) return;
  const std::string_view text = file.text;
  if (file.state == TextFile::State::kRead && text.substr(0, 3) == "max") return;
  uint64_t value = 0;
  const auto [ptr, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (file.state == TextFile::State::kError || error == std::errc::invalid_argument) {
    *unknown = true;
    return;
  }
  if (error == std::errc() && value < kNoLimit) *limit = value;
}

std::optional<uint64_t> ReadNumber(const std::string& path) {
  const TextFile file = ReadTextFile(path);
  uint64_t value = 0;
  const char* const begin = file.text.data();
  if (std::from_chars(begin, begin + file.text.size(), value).ec != std::errc()) {
    return std::nullopt;
  }
  return value;
}

CgroupCounters ReadLevel(const std::string& root, const std::string& level, bool v2) {
  CgroupCounters c;
  c.path = level;
  const std::string dir = root + level + "/";
  ReadLimit(dir + (v2 ? "memory.max" : "memory.limit_in_bytes"), &c.limit_bytes, &c.unknown);
  if (v2) ReadLimit(dir + "memory.high", &c.high_bytes, &c.unknown);
  c.used_bytes = ReadNumber(dir + (v2 ? "memory.current" : "memory.usage_in_bytes"));
  const std::string stat = ReadTextFile(dir + "memory.stat").text;
  c.inactive_file_bytes = FieldOf(stat, v2 ? "inactive_file" : "total_inactive_file");
  const auto dirty = FieldOf(stat, v2 ? "file_dirty" : "total_dirty");
  const auto writeback = FieldOf(stat, v2 ? "file_writeback" : "total_writeback");
  if (dirty || writeback) c.dirty_file_bytes = dirty.value_or(0) + writeback.value_or(0);
  return c;
}

}  // namespace

void ParseMeminfo(std::string_view text, LinuxMemoryCounters* counters) {
  counters->total_bytes = Kilobytes(text, "MemTotal:");
  counters->available_bytes = Kilobytes(text, "MemAvailable:");
}

LinuxMemoryCounters ReadLinuxMemory(const std::string& root) {
  LinuxMemoryCounters counters;
  ParseMeminfo(ReadTextFile(root + "/proc/meminfo").text, &counters);
  const MemoryCgroups cgroups = FindMemoryCgroups(root);
  counters.cgroups_unknown = cgroups.unknown;
  for (const std::string& level : cgroups.levels) {
    counters.cgroups.push_back(
        ReadLevel(root, level, cgroups.version == MemoryCgroups::Version::kV2));
  }
  return counters;
}

std::optional<uint64_t> ReadProcessResidentBytes(const std::string& root) {
  const std::string status = ReadTextFile(root + "/proc/self/status").text;
  const auto anonymous = Kilobytes(status, "RssAnon:");
  const auto shared = Kilobytes(status, "RssShmem:");
  if (!anonymous || !shared) return std::nullopt;
  return *anonymous + *shared;
}

}  // namespace holdfast

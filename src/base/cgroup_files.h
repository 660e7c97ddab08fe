#ifndef HOLDFAST_BASE_CGROUP_FILES_H_
#define HOLDFAST_BASE_CGROUP_FILES_H_

// Where the files of this process's memory cgroups are.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

struct TextFile {
  enum class State { kRead, kMissing, kError };
  State state = State::kError;
  std::string text;
};
// At most 1 MiB of a file of /proc or /sys.
TextFile ReadTextFile(const std::string& path);

// The first number of "key number" lines; none when there is no such line or no number.
std::optional<uint64_t> FieldOf(std::string_view text, std::string_view key);

struct MemoryCgroups {
  enum class Version { kNone, kV1, kV2 };
  Version version = Version::kNone;  // kNone: no memory controller here
  bool unknown = false;              // there is one, but its files are not to be found
  std::string mount;                 // the hierarchy's mount point
  std::vector<std::string> levels;   // directories, our own first, the mount point last
};
// From /proc/self/cgroup and /proc/self/mountinfo. `root` is put before every path (tests).
MemoryCgroups FindMemoryCgroups(const std::string& root);

}  // namespace holdfast

#endif  // HOLDFAST_BASE_CGROUP_FILES_H_

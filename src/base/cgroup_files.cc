#include "base/cgroup_files.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>
#include <sstream>

namespace holdfast {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool HasWord(const std::string& list, std::string_view word) {
  for (const std::string& part : Split(list, ',')) {
    if (part == word) return true;
  }
  return false;
}

// mountinfo writes blanks and backslashes as \ooo.
std::string Unescape(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out.push_back(static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                      (text[i + 3] - '0')));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

// Our cgroup's path in the hierarchy that has the memory controller.
struct OwnPath {
  MemoryCgroups::Version version = MemoryCgroups::Version::kNone;
  std::string path;
};

OwnPath FindOwnPath(const std::string& proc_self_cgroup) {
  OwnPath own;
  for (const std::string& line : Split(proc_self_cgroup, '\n')) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (HasWord(controllers, "memory")) {
      return {MemoryCgroups::Version::kV1, line.substr(second + 1)};
    }
    if (controllers.empty()) own = {MemoryCgroups::Version::kV2, line.substr(second + 1)};
  }
  return own;
}

struct Mount {
  std::string root, point;
};

std::optional<Mount> FindMount(const std::string& mountinfo, MemoryCgroups::Version version) {
  for (const std::string& line : Split(mountinfo, '\n')) {
    const std::vector<std::string> fields = Split(line, ' ');
    size_t dash = 6;
    while (dash < fields.size() && fields[dash] != "-") ++dash;
    if (dash + 1 >= fields.size()) continue;
    const std::string& type = fields[dash + 1];
    const bool fits = version == MemoryCgroups::Version::kV2
                          ? type == "cgroup2"
                          : type == "cgroup" && HasWord(fields.back(), "memory");
    if (fits) return Mount{Unescape(fields[3]), Unescape(fields[4])};
  }
  return std::nullopt;
}

}  // namespace

TextFile ReadTextFile(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"),
                                                             std::fclose);
  TextFile result;
  if (file == nullptr) {
    if (errno == ENOENT || errno == ENOTDIR) result.state = TextFile::State::kMissing;
    return result;
  }
  result.text.resize(kMaxFileBytes);
  result.text.resize(std::fread(result.text.data(), 1, result.text.size(), file.get()));
  if (std::ferror(file.get()) == 0) result.state = TextFile::State::kRead;
  return result;
}

std::optional<uint64_t> FieldOf(std::string_view text, std::string_view key) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.substr(0, key.size()) != key) continue;
    line.remove_prefix(key.size());
    const size_t digits = line.find_first_not_of(" \t");
    if (digits == 0 || digits == std::string_view::npos) continue;  // a longer key, or no number
    uint64_t value = 0;
    const auto [ptr, error] =
        std::from_chars(line.data() + digits, line.data() + line.size(), value);
    if (error != std::errc()) return std::nullopt;
    return value;
  }
  return std::nullopt;
}

MemoryCgroups FindMemoryCgroups(const std::string& root) {
  MemoryCgroups found;
  const TextFile cgroup = ReadTextFile(root + "/proc/self/cgroup");
  if (cgroup.state == TextFile::State::kMissing) return found;  // a kernel without cgroups
  const OwnPath own = FindOwnPath(cgroup.text);
  if (cgroup.state == TextFile::State::kError) {
    found.unknown = true;
    return found;
  }
  if (own.version == MemoryCgroups::Version::kNone) return found;
  found.version = own.version;
  const TextFile mountinfo = ReadTextFile(root + "/proc/self/mountinfo");
  const std::optional<Mount> mount = FindMount(mountinfo.text, own.version);
  if (!mount) {
    found.unknown = true;
    return found;
  }
  // In a container the mount shows a part of the hierarchy, our path may be told from its top.
  std::string path = own.path;
  if (mount->root != "/" && path.compare(0, mount->root.size(), mount->root) == 0) {
    path.erase(0, mount->root.size());
  }
  if (path == "/") path.clear();
  found.mount = mount->point;
  while (!path.empty() && path[0] == '/') {
    found.levels.push_back(mount->point + path);
    path.erase(path.rfind('/'));
  }
  found.levels.push_back(mount->point);
  return found;
}

}  // namespace holdfast

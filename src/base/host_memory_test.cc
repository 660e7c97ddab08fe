#include "base/host_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace holdfast {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kMiB = uint64_t{1} << 20;

// As read on a 32 GiB Debian host, shortened.
constexpr char kMeminfo[] =
    "MemTotal:       32768000 kB\nMemFree:         2048000 kB\nMemAvailable:   20480000 kB\n"
    "Buffers:          500000 kB\nSwapCached:            0 kB\nInactive(file):  9000000 kB\n";

using Files = std::map<std::string, std::string>;

// A root directory with these files, gone with the object.
class FakeRoot {
 public:
  explicit FakeRoot(const Files& files) {
    static int n = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("holdfast_host_memory_" + std::to_string(getpid()) + "_" + std::to_string(n++));
    for (const auto& [name, text] : files) {
      const auto file = path_ / name;
      std::filesystem::create_directories(file.parent_path());
      std::ofstream(file) << text;
    }
  }
  ~FakeRoot() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// A systemd service below a slice with its own limit, cgroup v2.
Files V2Files() {
  const std::string root = "sys/fs/cgroup/";
  return {{"proc/meminfo", kMeminfo},
          {"proc/self/cgroup", "0::/system.slice/holdfast.service\n"},
          {"proc/self/mountinfo",
           "23 28 0:21 / /proc rw,nosuid shared:12 - proc proc rw\n"
           "31 23 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"},
          {root + "cgroup.controllers", "cpu memory\n"},
          {root + "system.slice/memory.max", "12884901888\n"},  // 12 GiB
          {root + "system.slice/memory.high", "max\n"},
          {root + "system.slice/memory.current", "3221225472\n"},  // 3 GiB
          {root + "system.slice/memory.stat",
           "anon 1073741824\nfile 2147483648\ninactive_anon 5\ninactive_file 1073741824\n"
           "file_dirty 268435456\nfile_writeback 0\n"},
          {root + "system.slice/holdfast.service/memory.max", "max\n"},
          {root + "system.slice/holdfast.service/memory.high", "max\n"},
          {root + "system.slice/holdfast.service/memory.current", "1073741824\n"},
          {root + "system.slice/holdfast.service/memory.stat", "inactive_file 0\n"}};
}

HostMemory Read(const Files& files) {
  const FakeRoot root(files);
  return AvailableMemory(ReadLinuxMemory(root.path()));
}

TEST(HostMemoryTest, LinuxHostWithoutLimitsHasMemAvailable) {
  const HostMemory m = Read({{"proc/meminfo", kMeminfo}});
  EXPECT_EQ(m.available_bytes, uint64_t{20'480'000} * 1024);
  EXPECT_EQ(m.total_bytes, uint64_t{32'768'000} * 1024);
  EXPECT_EQ(m.limited_by, "host");
}

TEST(HostMemoryTest, LimitOfAnAncestorCountsWithCreditForCleanInactiveFilePages) {
  const HostMemory m = Read(V2Files());
  // 12 - (3 - (1 - 0.25)) GiB
  EXPECT_EQ(m.available_bytes, 9 * kGiB + 768 * kMiB);
  EXPECT_EQ(m.total_bytes, 12 * kGiB);
  EXPECT_EQ(m.limited_by, "cgroup /sys/fs/cgroup/system.slice");
}

TEST(HostMemoryTest, OwnLimitAndMemoryHighCountToo) {
  auto files = V2Files();
  const std::string own = "sys/fs/cgroup/system.slice/holdfast.service/";
  files[own + "memory.max"] = "4294967296\n";
  EXPECT_EQ(Read(files).available_bytes, 3 * kGiB);
  files[own + "memory.high"] = "2147483648\n";
  EXPECT_EQ(Read(files).available_bytes, 1 * kGiB);
  files[own + "memory.current"] = "3221225472\n";  // above it
  EXPECT_EQ(Read(files).available_bytes, 0u);
}

TEST(HostMemoryTest, ContainerSeesItsLimitAtTheMountPoint) {
  auto files = V2Files();
  files["proc/self/cgroup"] = "0::/\n";
  files["sys/fs/cgroup/memory.max"] = "4294967296\n";
  files["sys/fs/cgroup/memory.current"] = "1073741824\n";
  EXPECT_EQ(Read(files).available_bytes, 3 * kGiB);
}

TEST(HostMemoryTest, DockerOnV1WithTheHostsPathAndABindMount) {
  const Files files = {
      {"proc/meminfo", kMeminfo},
      {"proc/self/cgroup",
       "12:pids:/docker/ab12\n9:memory,hugetlb:/docker/ab12/inner\n0::/system.slice/docker\n"},
      {"proc/self/mountinfo",
       "33 30 0:30 /docker/ab12 /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory\n"},
      {"sys/fs/cgroup/memory/memory.limit_in_bytes", "4294967296\n"},
      {"sys/fs/cgroup/memory/memory.usage_in_bytes", "2147483648\n"},
      {"sys/fs/cgroup/memory/memory.stat",
       "inactive_file 1\ntotal_inactive_file 536870912\ntotal_dirty 4096\ntotal_writeback 0\n"},
      {"sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "9223372036854771712\n"},
      {"sys/fs/cgroup/memory/inner/memory.usage_in_bytes", "1048576\n"}};
  const HostMemory m = Read(files);
  EXPECT_EQ(m.available_bytes, 2 * kGiB + 512 * kMiB - 4096);
  EXPECT_EQ(m.limited_by, "cgroup /sys/fs/cgroup/memory");
}

TEST(HostMemoryTest, WhatIsUnknownIsNamedAndNotGuessed) {
  const auto unknown = [](const Files& files) {
    const HostMemory m = Read(files);
    EXPECT_FALSE(m.available_bytes.has_value());
    return m.limited_by;
  };
  EXPECT_EQ(unknown({}), "MemTotal or MemAvailable of /proc/meminfo is unknown");
  EXPECT_EQ(unknown({{"proc/meminfo", "MemTotal: 5 kB\n"}}),
            "MemTotal or MemAvailable of /proc/meminfo is unknown");
  EXPECT_EQ(unknown({{"proc/meminfo", "MemTotal: 5 kB\nMemAvailable: lots kB\n"}}),
            "MemTotal or MemAvailable of /proc/meminfo is unknown");
  auto files = V2Files();
  files["sys/fs/cgroup/system.slice/memory.max"] = "many\n";
  EXPECT_EQ(unknown(files), "the limit of cgroup /sys/fs/cgroup/system.slice is unknown");
  files = V2Files();
  files.erase("sys/fs/cgroup/system.slice/memory.current");
  EXPECT_EQ(unknown(files), "the usage of cgroup /sys/fs/cgroup/system.slice is unknown");
  files = V2Files();
  files["proc/self/mountinfo"] = "23 28 0:21 / /proc rw,nosuid shared:12 - proc proc rw\n";
  EXPECT_EQ(unknown(files), "the limits of our cgroups are unknown");
}

TEST(HostMemoryTest, NoCreditWithoutStatisticsAndNeverMoreThanTheUsage) {
  LinuxMemoryCounters c{.total_bytes = 100, .available_bytes = 90};
  c.cgroups.push_back({.path = "/a", .limit_bytes = 50, .used_bytes = 20});
  EXPECT_EQ(AvailableMemory(c).available_bytes, 30u);
  c.cgroups[0].inactive_file_bytes = 500;
  EXPECT_EQ(AvailableMemory(c).available_bytes, 50u);
  c.cgroups[0].dirty_file_bytes = 600;
  EXPECT_EQ(AvailableMemory(c).available_bytes, 30u);
  c.available_bytes = 10;
  EXPECT_EQ(AvailableMemory(c).available_bytes, 10u);
}

TEST(HostMemoryTest, MacosInactivePagesCountOnlyAsFarAsFilesBackThem) {
  MacosMemoryCounters c{.page_bytes = 16384,
                        .total_bytes = kGiB,
                        .free = 100,
                        .purgeable = 10,
                        .inactive = 500,
                        .speculative = 20,
                        .external = 50};
  EXPECT_EQ(AvailableMemory(c).available_bytes, (100 + 10 + 50) * 16384u);
  c.external = 9000;
  EXPECT_EQ(AvailableMemory(c).available_bytes, (100 + 10 + 520) * 16384u);
  c.external.reset();
  EXPECT_FALSE(AvailableMemory(c).available_bytes.has_value());
}

TEST(HostMemoryTest, WindowsIsTheLesserOfPhysicalAndCommit) {
  WindowsMemoryCounters c{
      .total_physical_bytes = 100, .available_physical_bytes = 60, .available_commit_bytes = 40};
  EXPECT_EQ(AvailableMemory(c).available_bytes, 40u);
  EXPECT_EQ(AvailableMemory(c).limited_by, "commit");
  c.available_commit_bytes = 80;
  EXPECT_EQ(AvailableMemory(c).available_bytes, 60u);
  c.available_physical_bytes.reset();
  EXPECT_FALSE(AvailableMemory(c).available_bytes.has_value());
}

TEST(HostMemoryTest, ResidentIsWhatNoFileBacks) {
  const FakeRoot root(Files{{"proc/self/status",
                             "VmRSS:\t 9000 kB\nRssAnon:\t    100 kB\nRssFile:\t 8000 kB\n"
                             "RssShmem:\t    20 kB\n"}});
  EXPECT_EQ(ReadProcessResidentBytes(root.path()), 120u * 1024);
  EXPECT_FALSE(ReadProcessResidentBytes(root.path() + "/none").has_value());
}

#ifdef __linux__
TEST(HostMemoryTest, LiveSystemIsReadWhole) {
  const HostMemory m = ReadHostMemory();
  ASSERT_TRUE(m.total_bytes.has_value()) << m.limited_by;
  ASSERT_TRUE(m.available_bytes.has_value()) << m.limited_by;
  EXPECT_GT(*m.total_bytes, *m.available_bytes);
  EXPECT_GT(ReadProcessResidentBytes().value_or(0), 0u);
}
#endif

}  // namespace
}  // namespace holdfast

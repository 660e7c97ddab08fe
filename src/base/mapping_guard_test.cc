#include "base/mapping_guard.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/mapped_file.h"
#include "base/temp_folder.h"

namespace holdfast {
namespace {

constexpr size_t kPage = 4096;

std::string MakeFile(const TempFolder& folder, const std::string& name, size_t n_bytes) {
  const std::string path = folder.path() + "/" + name;
  std::ofstream(path, std::ios::binary) << std::string(n_bytes, 'x');
  return path;
}

TEST(MappingGuardTest, AFileThatBecomesShorterReadsAsZerosAndSaysSo) {
  const auto folder = TempFolder::Create("guard");
  ASSERT_TRUE(folder.ok());
  const std::string path = MakeFile(*folder, "weights", 10 * kPage);
  auto file = MappedFile::Open(path);
  auto other = MappedFile::Open(MakeFile(*folder, "other", kPage));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(other.ok());
  const MappedFile moved = *std::move(file);
  EXPECT_TRUE(moved.CheckReads().ok());
  std::filesystem::resize_file(path, kPage);
  EXPECT_EQ(moved.bytes()[0], std::byte{'x'});
  EXPECT_TRUE(moved.CheckReads().ok());  // nothing that is lost has been read
  EXPECT_EQ(moved.bytes()[5 * kPage], std::byte{0});
  const Status status = moved.CheckReads();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find(path), std::string::npos) << status.message();
  EXPECT_TRUE(other->CheckReads().ok());
  EXPECT_EQ(other->bytes()[kPage - 1], std::byte{'x'});
}

TEST(MappingGuardTest, ReadingInFindsOutToo) {
  const auto folder = TempFolder::Create("guard");
  ASSERT_TRUE(folder.ok());
  const std::string path = MakeFile(*folder, "weights", 10 * kPage);
  const auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok());
  MappedFile::ReadIn(file->bytes());
  MappedFile::ReadIn(file->bytes().subspan(100, 5));
  MappedFile::ReadIn({});
  EXPECT_TRUE(file->CheckReads().ok());
  std::filesystem::resize_file(path, 3 * kPage);
  MappedFile::ReadIn(file->bytes().first(3 * kPage));
  EXPECT_TRUE(file->CheckReads().ok());
  MappedFile::ReadIn(file->bytes());
  EXPECT_FALSE(file->CheckReads().ok());
}

TEST(MappingGuardTest, ALaterMappingInTheSamePlaceIsSound) {
  const auto folder = TempFolder::Create("guard");
  ASSERT_TRUE(folder.ok());
  for (int i = 0; i < 2 * MappingGuard::kMaxGuarded; ++i) {
    auto file = MappedFile::Open(MakeFile(*folder, "weights", 2 * kPage));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->CheckReads().ok());
    if (i % 100 != 0) continue;
    std::filesystem::resize_file(file->path(), 0);
    EXPECT_EQ(file->bytes()[kPage], std::byte{0});
    EXPECT_FALSE(file->CheckReads().ok());
  }
}

TEST(MappingGuardDeathTest, OtherBusErrorsEndTheProcessAsBefore) {
  const auto folder = TempFolder::Create("guard");
  ASSERT_TRUE(folder.ok());
  const auto file = MappedFile::Open(MakeFile(*folder, "weights", kPage));
  ASSERT_TRUE(file.ok());
  EXPECT_DEATH(std::raise(SIGBUS), "");
}

}  // namespace
}  // namespace holdfast

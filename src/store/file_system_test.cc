#include "store/file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "store/faulty_file_system.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string ReadAll(FileSystem* fs, const std::string& path) {
  auto file = fs->Open(path, OpenMode::kRead);
  if (!file.ok()) return "<" + std::string(StatusCodeName(file.status().code())) + ">";
  std::string text(*(*file)->Size(), '\0');
  EXPECT_EQ(*(*file)->ReadAt(0, std::as_writable_bytes(std::span(text))), text.size());
  return text;
}

std::unique_ptr<File> Write(FileSystem* fs, const std::string& path, std::string_view text) {
  auto file = fs->Open(path, OpenMode::kCreate);
  EXPECT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_TRUE((*file)->WriteAt(0, Bytes(text)).ok());
  return std::move(*file);
}

class PosixFileSystemTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "holdfast_fs_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  static int Mode(const std::string& path) {
    struct stat info = {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return static_cast<int>(info.st_mode & 0777);
  }

  FileSystem* fs_ = PosixFileSystem();
  std::string dir_;
};

TEST_F(PosixFileSystemTest, WhatIsWrittenIsReadAndNobodyElseMay) {
  ASSERT_TRUE(MakeDirs(fs_, dir_ + "/a/b").ok());
  const auto file = Write(fs_, dir_ + "/a/b/f", "hello");
  EXPECT_TRUE(file->Sync().ok());
  EXPECT_TRUE(fs_->SyncDir(dir_ + "/a/b").ok());
  EXPECT_EQ(ReadAll(fs_, dir_ + "/a/b/f"), "hello");
  EXPECT_EQ(Mode(dir_ + "/a"), 0700);
  EXPECT_EQ(Mode(dir_ + "/a/b/f"), 0600);
  EXPECT_THAT(*fs_->List(dir_ + "/a"), UnorderedElementsAre("b"));
}

TEST_F(PosixFileSystemTest, ADirectoryOthersMayReadIsMadePrivate) {
  ASSERT_EQ(::mkdir((dir_ + "/open").c_str(), 0755), 0);
  ASSERT_EQ(::chmod((dir_ + "/open").c_str(), 0755), 0);
  ASSERT_TRUE(fs_->MakePrivate(dir_ + "/open").ok());
  EXPECT_EQ(Mode(dir_ + "/open"), 0700);
  EXPECT_EQ(fs_->MakePrivate(dir_ + "/none").code(), StatusCode::kNotFound);
}

TEST_F(PosixFileSystemTest, ReadsEndWhereTheFileEnds) {
  const auto file = Write(fs_, dir_ + "/f", "hello");
  std::byte buffer[8];
  EXPECT_EQ(*file->ReadAt(3, buffer), 2u);
  EXPECT_EQ(*file->ReadAt(9, buffer), 0u);
  EXPECT_EQ(file->ReadExactly(3, buffer, "f").code(), StatusCode::kDataLoss);
}

TEST_F(PosixFileSystemTest, ANewFileMustBeNew) {
  Write(fs_, dir_ + "/f", "old");
  EXPECT_EQ(fs_->Open(dir_ + "/f", OpenMode::kCreateNew).status().code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(fs_->Open(dir_ + "/g", OpenMode::kRead).status().code(), StatusCode::kNotFound);
}

TEST_F(PosixFileSystemTest, LinksAndOtherThingsAreNotFollowed) {
  Write(fs_, dir_ + "/f", "secret");
  ASSERT_EQ(::symlink((dir_ + "/f").c_str(), (dir_ + "/link").c_str()), 0);
  ASSERT_EQ(::symlink((dir_ + "/none").c_str(), (dir_ + "/dangling").c_str()), 0);
  ASSERT_EQ(::mkfifo((dir_ + "/fifo").c_str(), 0600), 0);
  EXPECT_THAT(fs_->Open(dir_ + "/link", OpenMode::kRead).status().message(),
              HasSubstr("symbolic link"));
  EXPECT_FALSE(fs_->Open(dir_ + "/dangling", OpenMode::kCreate).ok());
  EXPECT_FALSE(fs_->Open(dir_ + "/dangling", OpenMode::kCreateNew).ok());
  EXPECT_FALSE(*fs_->Exists(dir_ + "/none"));
  EXPECT_THAT(fs_->Open(dir_ + "/fifo", OpenMode::kRead).status().message(),
              HasSubstr("not a regular file"));
  EXPECT_THAT(fs_->Open(dir_, OpenMode::kRead).status().message(), HasSubstr("not a regular file"));
  EXPECT_FALSE(fs_->Lock(dir_ + "/link").ok());
}

TEST_F(PosixFileSystemTest, ALockHasOneOwnerAndNamesIt) {
  auto lock = fs_->Lock(dir_ + "/lock");
  ASSERT_TRUE(lock.ok());
  const auto second = fs_->Lock(dir_ + "/lock");
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(second.status().message(), HasSubstr("process " + std::to_string(::getpid())));
  lock->reset();
  EXPECT_TRUE(fs_->Lock(dir_ + "/lock").ok());
}

TEST_F(PosixFileSystemTest, RenameReplacesAndUnlinkRemoves) {
  Write(fs_, dir_ + "/a", "new");
  Write(fs_, dir_ + "/b", "old");
  ASSERT_TRUE(fs_->Rename(dir_ + "/a", dir_ + "/b").ok());
  EXPECT_EQ(ReadAll(fs_, dir_ + "/b"), "new");
  ASSERT_TRUE(fs_->Unlink(dir_ + "/b").ok());
  EXPECT_EQ(fs_->Unlink(dir_ + "/b").code(), StatusCode::kNotFound);
  EXPECT_GT(*fs_->FreeBytes(dir_), 0u);
}

// The twin must forget what a disk may forget, or the fault tests prove nothing.
class FaultyFileSystemTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fs_.MakeDir("/d").ok());
    ASSERT_TRUE(fs_.SyncDir("/").ok());
  }
  FaultyFileSystem fs_;
};

TEST_F(FaultyFileSystemTest, UnsyncedBytesAndNamesAreLost) {
  auto file = Write(&fs_, "/d/f", "one");
  ASSERT_TRUE(file->Sync().ok());
  fs_.Crash(CrashKeeps::kNothing, 0);
  EXPECT_EQ(ReadAll(&fs_, "/d/f"), "<not found>");  // synced, but its name was not

  file = Write(&fs_, "/d/f", "one");
  ASSERT_TRUE(file->Sync().ok());
  ASSERT_TRUE(fs_.SyncDir("/d").ok());
  ASSERT_TRUE(file->WriteAt(0, Bytes("two and more")).ok());
  EXPECT_EQ(ReadAll(&fs_, "/d/f"), "two and more");
  fs_.Crash(CrashKeeps::kNothing, 0);
  EXPECT_EQ(ReadAll(&fs_, "/d/f"), "one");
}

TEST_F(FaultyFileSystemTest, ARenameIsLostUnlessTheDirectoryIsSynced) {
  ASSERT_TRUE(Write(&fs_, "/d/new", "new")->Sync().ok());
  ASSERT_TRUE(Write(&fs_, "/d/f", "old")->Sync().ok());
  ASSERT_TRUE(fs_.SyncDir("/d").ok());
  ASSERT_TRUE(fs_.Rename("/d/new", "/d/f").ok());
  fs_.Crash(CrashKeeps::kNothing, 0);
  EXPECT_EQ(ReadAll(&fs_, "/d/f"), "old");
  ASSERT_TRUE(fs_.Rename("/d/new", "/d/f").ok());
  ASSERT_TRUE(fs_.SyncDir("/d").ok());
  fs_.Crash(CrashKeeps::kNothing, 0);
  EXPECT_EQ(ReadAll(&fs_, "/d/f"), "new");
}

TEST_F(FaultyFileSystemTest, AfterAFailedSyncASecondOneDoesNotHelp) {
  auto file = Write(&fs_, "/d/f", "one");
  ASSERT_TRUE(file->Sync().ok());
  ASSERT_TRUE(fs_.SyncDir("/d").ok());
  ASSERT_TRUE(file->WriteAt(0, Bytes("two")).ok());
  fs_.FailAt(1, Fault::kIoError);
  EXPECT_FALSE(file->Sync().ok());
  EXPECT_TRUE(file->Sync().ok());
  EXPECT_EQ(ReadAll(&fs_, "/d/f"), "two");
  fs_.Crash(CrashKeeps::kEverything, 0);
  EXPECT_EQ(ReadAll(&fs_, "/d/f"), "one");
}

TEST_F(FaultyFileSystemTest, PagesAreTornApart) {
  auto file = Write(&fs_, "/d/f", std::string(8192, 'a'));
  ASSERT_TRUE(file->Sync().ok());
  ASSERT_TRUE(fs_.SyncDir("/d").ok());
  const auto clean = fs_.Clone();
  bool torn = false, kept = false, lost = false;
  for (uint32_t seed = 0; seed < 64; ++seed) {
    const auto fs = clean->Clone();
    auto again = fs->Open("/d/f", OpenMode::kReadWrite);
    ASSERT_TRUE((*again)->WriteAt(0, Bytes(std::string(8192, 'b'))).ok());
    fs->Crash(CrashKeeps::kSome, seed);
    const std::string page = ReadAll(fs.get(), "/d/f").substr(0, 4096);
    const size_t n_new = static_cast<size_t>(std::count(page.begin(), page.end(), 'b'));
    EXPECT_EQ(page, std::string(n_new, 'b') + std::string(4096 - n_new, 'a'));
    EXPECT_EQ(n_new % 512, 0u);
    kept = kept || n_new == 4096;
    lost = lost || n_new == 0;
    torn = torn || (n_new > 0 && n_new < 4096);
  }
  EXPECT_TRUE(torn && kept && lost);
}

TEST_F(FaultyFileSystemTest, AFailedWriteWritesHalf) {
  auto file = Write(&fs_, "/d/f", "12345678");
  fs_.FailAt(1, Fault::kNoSpace);
  const Status status = file->WriteAt(0, Bytes("abcdefgh"));
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(ReadAll(&fs_, "/d/f"), "abcd5678");
}

TEST_F(FaultyFileSystemTest, AfterAPowerLossNothingWorksUntilTheCrash) {
  fs_.FailAt(2, Fault::kPowerLoss);
  EXPECT_TRUE(fs_.Exists("/d").ok());
  EXPECT_FALSE(fs_.Exists("/d").ok());
  EXPECT_FALSE(fs_.Exists("/d").ok());
  fs_.Crash(CrashKeeps::kNothing, 0);
  EXPECT_TRUE(*fs_.Exists("/d"));
}

}  // namespace
}  // namespace holdfast

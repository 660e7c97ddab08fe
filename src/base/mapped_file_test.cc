#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

namespace holdfast {
namespace {

std::string TempPath(const std::string& name) {
  return testing::TempDir() + "/mapped_file_test_" + std::to_string(getpid()) + "_" + name;
}

std::string TextOf(const MappedFile& file) {
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.size());
}

TEST(MappedFileTest, ShowsTheBytesOfTheFileAlsoAfterItMoved) {
  const std::string path = TempPath("text");
  std::ofstream(path) << "forty-two";
  Result<MappedFile> file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  MappedFile moved = std::move(file).value();
  EXPECT_EQ(TextOf(moved), "forty-two");
  EXPECT_EQ(moved.path(), path);
  MappedFile target = MappedFile::Open(path).value();
  target = std::move(moved);
  std::remove(path.c_str());
  EXPECT_EQ(TextOf(target), "forty-two");
}

TEST(MappedFileTest, AnEmptyFileHasNoBytes) {
  const std::string path = TempPath("empty");
  std::ofstream{path};
  const Result<MappedFile> file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->size(), 0u);
  std::remove(path.c_str());
}

TEST(MappedFileTest, WhatIsMissingOrNoFileIsNamed) {
  const Status missing = MappedFile::Open("/no/such/file").status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_NE(missing.message().find("/no/such/file"), std::string::npos);
  EXPECT_EQ(MappedFile::Open(testing::TempDir()).status().code(), StatusCode::kInvalidArgument);
  const std::string fifo = TempPath("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::Open(fifo).status().code(), StatusCode::kInvalidArgument);
  std::remove(fifo.c_str());
}

}  // namespace
}  // namespace holdfast

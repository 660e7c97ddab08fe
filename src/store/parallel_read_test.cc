#include "store/parallel_read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/faulty_file_system.h"
#include "store/store_testing.h"

namespace holdfast {
namespace {

class ParallelReadTest : public ::testing::TestWithParam<int> {
 protected:
  // Jobs of sizes around a piece (512 KiB) and around what one thread reads alone (8 MiB), one
  // after another in one file.
  void SetUp() override {
    for (const size_t n :
         {size_t{0}, size_t{1}, (512u << 10) - 1u + 0ul, (512u << 10) + 0ul, (512u << 10) + 1ul,
          size_t{8} << 20, (8ul << 20) + 1ul, (11ul << 20) + 7ul}) {
      const auto bytes = testing::BytesAfter({}, 0, static_cast<int>(n), n);
      jobs_.push_back({nullptr, contents_.size(), {}, Hash128Of(bytes), "part", OkStatus()});
      buffers_.emplace_back(n, std::byte{0xee});
      contents_.insert(contents_.end(), bytes.begin(), bytes.end());
    }
  }

  void Read() {
    fs_.SetContents("/f", contents_);
    file_ = std::move(*fs_.Open("/f", OpenMode::kRead));
    for (size_t i = 0; i < jobs_.size(); ++i) {
      jobs_[i].file = file_.get();
      jobs_[i].dst = buffers_[i];
    }
    ReadInParallel(&jobs_, GetParam());
  }

  FaultyFileSystem fs_;
  std::unique_ptr<File> file_;
  std::vector<std::byte> contents_;
  std::vector<std::vector<std::byte>> buffers_;
  std::vector<ReadJob> jobs_;
};

TEST_P(ParallelReadTest, ReadsAndChecksAllSizes) {
  Read();
  for (size_t i = 0; i < jobs_.size(); ++i) {
    EXPECT_TRUE(jobs_[i].status.ok()) << jobs_[i].status.ToString();
    EXPECT_EQ(Hash128Of(buffers_[i]), jobs_[i].hash);
  }
}

TEST_P(ParallelReadTest, AFlippedBitFailsItsJobOnly) {
  contents_.back() ^= std::byte{1};
  Read();
  for (size_t i = 0; i + 1 < jobs_.size(); ++i) EXPECT_TRUE(jobs_[i].status.ok());
  EXPECT_EQ(jobs_.back().status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(jobs_.back().status.message(), ::testing::HasSubstr("checksum"));
}

TEST_P(ParallelReadTest, AFileThatEndsEarlyFailsItsJobOnly) {
  contents_.pop_back();
  Read();
  for (size_t i = 0; i + 1 < jobs_.size(); ++i) EXPECT_TRUE(jobs_[i].status.ok());
  EXPECT_EQ(jobs_.back().status.code(), StatusCode::kDataLoss);
}

INSTANTIATE_TEST_SUITE_P(Threads, ParallelReadTest, ::testing::Values(1, 2, 5));

}  // namespace
}  // namespace holdfast

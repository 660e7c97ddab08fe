#include "base/async_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/temp_folder.h"

namespace holdfast {
namespace {

constexpr size_t kBlock = 4096;

// Blocks of which each says its number, and the outcomes of reading them.
class AsyncReaderTest : public testing::TestWithParam<ReaderKind> {
 protected:
  void SetUp() override {
    auto reader = MakeAsyncReader(GetParam(), [this](uint64_t tag, int error) {
      const std::lock_guard lock(mutex_);
      ++n_told_[tag];
      errors_[tag] = error;
    });
    if (!reader.ok() && GetParam() == ReaderKind::kUring) GTEST_SKIP() << reader.status().message();
    ASSERT_TRUE(reader.ok()) << reader.status().ToString();
    reader_ = *std::move(reader);
  }
  void TearDown() override {
    if (fd_ >= 0) ::close(fd_);
  }

  void MakeFile(size_t n_bytes, int flags = 0) {
    std::string bytes(n_bytes, '\0');
    for (size_t i = 0; i + 8 <= n_bytes; i += 8) {
      const uint64_t value = i;
      std::memcpy(&bytes[i], &value, 8);
    }
    const std::string path = folder_.path() + "/file";
    std::ofstream(path, std::ios::binary) << bytes;
    fd_ = ::open(path.c_str(), O_RDONLY | flags);
    if (fd_ < 0) fd_ = ::open(path.c_str(), O_RDONLY);
    ASSERT_GE(fd_, 0);
  }
  ReadRequest Request(uint64_t tag, size_t first_block, size_t n_blocks, size_t min_bytes) const {
    return {.fd = fd_,
            .offset = first_block * kBlock,
            .data = memory_.get() + first_block * kBlock,
            .n_bytes = static_cast<uint32_t>(n_blocks * kBlock),
            .min_bytes = static_cast<uint32_t>(min_bytes),
            .tag = tag};
  }
  uint64_t WordAt(size_t offset) const {
    uint64_t value = 0;
    std::memcpy(&value, memory_.get() + offset, 8);
    return value;
  }
  // Ends the reader, which waits for everything.
  int ErrorOf(uint64_t tag) {
    reader_.reset();
    EXPECT_EQ(n_told_[tag], 1) << "of request " << tag;
    return errors_[tag];
  }

  struct FreeAligned {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{kBlock}); }
  };
  static constexpr size_t kMemory = 1200 * kBlock;
  const TempFolder folder_ = TempFolder::Create("async_reader_test").value();
  std::unique_ptr<std::byte, FreeAligned> memory_{
      static_cast<std::byte*>(::operator new (kMemory, std::align_val_t{kBlock}))};
  int fd_ = -1;
  std::mutex mutex_;
  std::map<uint64_t, int> n_told_, errors_;  // guarded by mutex_ while there is a reader
  std::unique_ptr<AsyncReader> reader_;
};

TEST_P(AsyncReaderTest, ReadsMorePiecesAtOnceThanAnyQueueHolds) {
#ifdef O_DIRECT
  MakeFile(1000 * kBlock, O_DIRECT);
#else
  MakeFile(1000 * kBlock);
#endif
  std::vector<ReadRequest> requests;
  for (size_t i = 0; i < 1000; ++i) requests.push_back(Request(i, 999 - i, 1, kBlock));
  reader_->Submit(std::span(requests).first(700));
  reader_->Submit(std::span(requests).subspan(700));
  for (size_t i = 0; i < 1000; ++i) ASSERT_EQ(ErrorOf(i), 0) << i;
  for (size_t i = 0; i < 1000 * kBlock; i += 8) ASSERT_EQ(WordAt(i), i);
}

TEST_P(AsyncReaderTest, MayReadBeyondTheEndButNotMissWhatIsWanted) {
  MakeFile(3 * kBlock + 16);
  ReadRequest requests[] = {Request(1, 2, 2, kBlock + 16),  // all that is there
                            Request(2, 0, 4, 3 * kBlock + 17), Request(3, 8, 1, 1)};  // beyond
  requests[1].data = memory_.get() + 100 * kBlock;  // the readers write at the same time
  reader_->Submit(requests);
  EXPECT_EQ(ErrorOf(1), 0);
  EXPECT_EQ(WordAt(3 * kBlock + 8), 3 * kBlock + 8);
  EXPECT_EQ(ErrorOf(2), AsyncReader::kShortFile);
  EXPECT_EQ(ErrorOf(3), AsyncReader::kShortFile);
}

TEST_P(AsyncReaderTest, SaysTheSystemsError) {
  ReadRequest request = Request(5, 0, 1, 1);
  request.fd = 1 << 20;  // no such descriptor
  reader_->Submit(std::span(&request, 1));
  EXPECT_EQ(ErrorOf(5), EBADF);
}

TEST_P(AsyncReaderTest, EndsWhenItNeverReadAnything) { reader_.reset(); }

INSTANTIATE_TEST_SUITE_P(Kinds, AsyncReaderTest,
                         testing::Values(ReaderKind::kPread, ReaderKind::kUring, ReaderKind::kAuto),
                         [](const auto& info) {
                           return info.param == ReaderKind::kPread   ? "pread"
                                  : info.param == ReaderKind::kUring ? "io_uring"
                                                                     : "auto";
                         });

TEST(ReaderKindTest, KnowsItsNames) {
  EXPECT_EQ(*ParseReaderKind("io_uring"), ReaderKind::kUring);
  EXPECT_EQ(*ParseReaderKind("pread"), ReaderKind::kPread);
  EXPECT_EQ(*ParseReaderKind("auto"), ReaderKind::kAuto);
  EXPECT_EQ(ParseReaderKind("aio").status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace holdfast

#include "server/streamed_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace holdfast {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

Status Send(const ByteSink& sink, std::string_view text) {
  return sink(std::as_bytes(std::span(text)));
}

// What there is up to the end, or to `bytes` of it.
ResponsePart TakeUntilEnd(ResponseSource* source, size_t bytes = SIZE_MAX) {
  ResponsePart all;
  for (int i = 0; i < 5000 && all.bytes.size() < bytes; ++i) {
    ResponsePart part = source->Take();
    if (part.whole) all.whole = part.whole;
    if (part.head) all.head = part.head;
    all.bytes += part.bytes;
    all.done = part.done;
    all.broken = part.broken;
    if (part.done || part.broken) break;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return all;
}

TEST(StreamedFileTest, GivesAllBytesAndTheHeadBeforeThem) {
  std::atomic<int> n_wakes = 0;
  auto source = *StreamedFile::Start(HttpResponse{.content_type = "x/y"}, [&](const auto& sink) {
    for (int i = 0; i < 100; ++i)
      HF_RETURN_IF_ERROR(Send(sink, std::string(100'000, 'a' + i % 26)));
    return OkStatus();
  });
  source->SetWaker([&] { ++n_wakes; });
  const ResponsePart all = TakeUntilEnd(source.get());
  EXPECT_TRUE(all.done);
  EXPECT_FALSE(all.broken);
  EXPECT_EQ(all.head->content_type, "x/y");
  ASSERT_EQ(all.bytes.size(), 10'000'000u);
  for (size_t i = 0; i < all.bytes.size(); i += 50'000) {
    ASSERT_EQ(all.bytes[i], static_cast<char>('a' + i / 100'000 % 26));
  }
  EXPECT_GT(n_wakes, 0);
}

TEST(StreamedFileTest, AnErrorBeforeTheFirstByteIsAWholeResponse) {
  auto source =
      *StreamedFile::Start({}, [](const auto&) { return NotFoundError("no such thing"); });
  const ResponsePart all = TakeUntilEnd(source.get());
  EXPECT_TRUE(all.done);
  ASSERT_TRUE(all.whole);
  EXPECT_EQ(all.whole->status, 404);
  EXPECT_THAT(all.whole->body, HasSubstr("no such thing"));
}

TEST(StreamedFileTest, AnErrorAfterItBreaksTheStream) {
  auto source = *StreamedFile::Start({}, [](const auto& sink) {
    HF_RETURN_IF_ERROR(Send(sink, "the beginning"));
    return DataLossError("damaged");
  });
  const ResponsePart all = TakeUntilEnd(source.get());
  EXPECT_TRUE(all.broken);
  EXPECT_FALSE(all.done);
  EXPECT_EQ(all.bytes, "the beginning");
}

TEST(StreamedFileTest, WaitsForASlowReaderAndEndsWithOneThatLeaves) {
  std::atomic<size_t> n_sent = 0;
  std::atomic<bool> ended = false;
  auto source = *StreamedFile::Start({}, [&](const auto& sink) {
    Status status;
    while (status.ok()) {
      status = Send(sink, std::string(100'000, 'x'));
      n_sent += 100'000;
    }
    ended = true;
    return status;
  });
  TakeUntilEnd(source.get(), 1);
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_LT(n_sent, 3'000'000u);
  EXPECT_FALSE(ended);
  source.reset();
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace holdfast

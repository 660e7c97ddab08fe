#include "ops/deferred/deferred_backend.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

namespace holdfast {
namespace {

std::unique_ptr<DeferredBackend> MakeBackend(double run_early_chance) {
  auto backend = DeferredBackend::Create({.n_threads = 1}, {.run_early_chance = run_early_chance});
  EXPECT_TRUE(backend.ok()) << backend.status().ToString();
  return std::move(*backend);
}

std::unique_ptr<Buffer> MakeBuffer(Backend* backend, size_t bytes) {
  auto buffer = backend->Allocate(bytes);
  EXPECT_TRUE(buffer.ok()) << buffer.status().ToString();
  return std::move(*buffer);
}

// Whether this process may read `address`: the kernel says so without a fault.
bool IsReadable(const void* address) {
  std::array<int, 2> ends;
  EXPECT_EQ(pipe(ends.data()), 0);
  const bool readable = write(ends[1], address, 1) == 1;
  EXPECT_TRUE(readable || errno == EFAULT);
  close(ends[0]);
  close(ends[1]);
  return readable;
}

TEST(DeferredBackendTest, MemoryIsHiddenExceptInsideACall) {
  auto backend = MakeBackend(0);
  auto buffer = MakeBuffer(backend.get(), 10000);
  const std::byte* address = nullptr;
  ASSERT_TRUE(backend
                  ->WithHostBytes(buffer.get(),
                                  [&](std::span<std::byte> bytes) {
                                    address = bytes.data();
                                    EXPECT_EQ(bytes.size(), 10000u);
                                    EXPECT_TRUE(IsReadable(address));
                                    return OkStatus();
                                  })
                  .ok());
  EXPECT_FALSE(IsReadable(address));
  EXPECT_FALSE(IsReadable(address + 9999));
}

TEST(DeferredBackendTest, OpsRunOnlyWhenTheirResultIsNeeded) {
  auto backend = MakeBackend(0);
  auto a = MakeBuffer(backend.get(), 4), b = MakeBuffer(backend.get(), 4);
  std::array<std::byte, 4> source = {std::byte{1}};
  ASSERT_TRUE(backend->Upload({a.get(), 0}, source).ok());
  ASSERT_TRUE(backend->Copy({.src = {a.get(), 0}, .dst = {b.get(), 0}, .bytes = 4}).ok());
  source[0] = std::byte{2};  // what a caller must not do: nothing has read it yet
  std::array<std::byte, 4> got;
  ASSERT_TRUE(backend->Download({b.get(), 0}, got).ok());
  EXPECT_EQ(got[0], std::byte{2});
}

TEST(DeferredBackendTest, OpsRunInOrderWhetherEarlyOrLate) {
  auto backend = MakeBackend(0.5);
  auto buffer = MakeBuffer(backend.get(), 1);
  std::vector<std::byte> values(200);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::byte>(i);
    ASSERT_TRUE(backend->Upload({buffer.get(), 0}, std::span(values).subspan(i, 1)).ok());
  }
  std::byte got{};
  ASSERT_TRUE(backend->Download({buffer.get(), 0}, {&got, 1}).ok());
  EXPECT_EQ(got, std::byte{199});
}

TEST(DeferredBackendTest, TheFirstErrorComesOutAtSynchronizeAndSkipsWhatFollows) {
  auto backend = MakeBackend(0);
  auto buffer = MakeBuffer(backend.get(), 1);
  const std::array<std::byte, 3> values = {std::byte{1}, std::byte{2}, std::byte{3}};
  backend->FailOp(1, ResourceExhaustedError("device lost"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(backend->Upload({buffer.get(), 0}, std::span(values).subspan(i, 1)).ok());
  }
  std::byte got{9};
  EXPECT_EQ(backend->Download({buffer.get(), 0}, {&got, 1}).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(got, std::byte{9});
  const Status status = backend->Synchronize();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "device lost");
  EXPECT_TRUE(backend->Synchronize().ok());
  ASSERT_TRUE(backend->Download({buffer.get(), 0}, {&got, 1}).ok());
  EXPECT_EQ(got, std::byte{1});
}

TEST(DeferredBackendTest, ABufferMayGoAwayWhileOpsNameIt) {
  auto backend = MakeBackend(0);
  auto kept = MakeBuffer(backend.get(), 1), gone = MakeBuffer(backend.get(), 1);
  const std::byte value{7};
  ASSERT_TRUE(backend->Upload({gone.get(), 0}, {&value, 1}).ok());
  ASSERT_TRUE(backend->Copy({.src = {gone.get(), 0}, .dst = {kept.get(), 0}, .bytes = 1}).ok());
  gone.reset();
  std::byte got{};
  ASSERT_TRUE(backend->Download({kept.get(), 0}, {&got, 1}).ok());
  EXPECT_EQ(got, value);
}

TEST(DeferredBackendDeathTest, AnOpThatWritesAReadOnlyBufferFaults) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto write_to_it = [](bool read_only) {
    auto backend = MakeBackend(0);
    auto buffer = MakeBuffer(backend.get(), 1);
    const std::byte value{7};
    (void)backend->SetReadOnly(buffer.get(), true);
    if (!read_only) (void)backend->SetReadOnly(buffer.get(), false);
    (void)backend->Upload({buffer.get(), 0}, {&value, 1});
    (void)backend->Synchronize();
  };
  write_to_it(false);
  EXPECT_DEATH(write_to_it(true), "");
}

}  // namespace
}  // namespace holdfast

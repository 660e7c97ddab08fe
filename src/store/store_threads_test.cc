// Saves, loads, lists and GC at the same time; most useful under TSan.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "store/store.h"
#include "store/store_testing.h"

namespace holdfast {
namespace {

using namespace holdfast::testing;  // NOLINT: the helpers of this folder's tests

TEST(StoreThreadsTest, LoadsAndListsRunBesideSavesAndGc) {
  FaultyFileSystem fs;
  StoreOptions options = TestOptions(&fs);
  options.n_read_threads = 2;
  std::atomic<int64_t> clock{1};
  options.now_ms = [&clock] { return clock.fetch_add(1); };
  const StoreKeys keys = TestKeys();
  auto opened = Store::Open(options, keys);
  ASSERT_TRUE(opened.ok());
  Store* store = opened->get();
  const auto kept = Tokens(30);
  ASSERT_TRUE(store->Save(Request("kept", kept, 29, {8, 29})).ok());

  std::atomic<bool> stop{false};
  std::vector<std::jthread> threads;
  threads.emplace_back([&] {
    for (int i = 0; i < 40; ++i) {
      const auto tokens = Tokens(30, 1 + i % 5);
      const std::string id = "c" + std::to_string(i % 5);
      const auto receipt = store->Save(Request(id, tokens, 10 + i % 20, {10 + i % 20}));
      EXPECT_TRUE(receipt.ok()) << receipt.status().ToString();
      if (i % 7 == 6) {
        EXPECT_TRUE(store->Remove(id).ok());
      }
    }
    stop = true;
  });
  threads.emplace_back([&] {
    while (!stop) EXPECT_TRUE(store->Gc().ok());
  });
  threads.emplace_back([&] {
    // GC moves and deletes segments meanwhile; what is kept must load all the same.
    while (!stop) EXPECT_EQ(StoredPosition(store, keys, kept), 29);
  });
  threads.emplace_back([&] {
    while (!stop) {
      EXPECT_TRUE(store->List().ok());
      EXPECT_TRUE(store->Pin("kept", true).ok());
      EXPECT_GE(store->SecondsUntilAllowed(1), 0.0);
    }
  });
  threads.clear();
  EXPECT_TRUE(store->Verify()->problems.empty());
}

}  // namespace
}  // namespace holdfast

#include "base/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "base/thread_activity.h"

namespace holdfast {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// Counts stalls and waits for them.
struct Stalls {
  std::mutex mutex;
  std::condition_variable changed;
  int n = 0;
  std::string name, threads;

  Watchdog::OnStall callback() {
    return [this](const std::string& stalled, milliseconds, const std::string& dump) {
      std::lock_guard lock(mutex);
      ++n;
      name = stalled;
      threads = dump;
      changed.notify_all();
    };
  }
  bool WaitFor(int wanted, milliseconds bound = milliseconds(5000)) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, bound, [&] { return n >= wanted; });
  }
};

TEST(WatchdogTest, ASilenceIsReportedOnceWithWhatThreadsDo) {
  Stalls stalls;
  Watchdog dog(stalls.callback(), milliseconds(5));
  ThreadActivity activity("tester");
  activity.Set("pretending to hang");
  const auto watch = dog.Start("the step", milliseconds(30));
  ASSERT_TRUE(stalls.WaitFor(1));
  EXPECT_EQ(stalls.name, "the step");
  EXPECT_THAT(stalls.threads, HasSubstr("tester: pretending to hang"));
  EXPECT_THAT(stalls.threads, HasSubstr("watchdog: watching"));
  EXPECT_FALSE(stalls.WaitFor(2, milliseconds(100)));
  watch->Progress();  // and silent again
  EXPECT_TRUE(stalls.WaitFor(2));
}

TEST(WatchdogTest, ProgressPauseAndEndKeepItQuiet) {
  Stalls stalls;
  Watchdog dog(stalls.callback(), milliseconds(5));
  auto busy = dog.Start("busy", milliseconds(200));
  const auto paused = dog.Start("paused", milliseconds(20));
  paused->Pause();
  { const auto ended = dog.Start("ended", milliseconds(20)); }
  for (int i = 0; i < 30; ++i) {
    busy->Progress();
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(stalls.n, 0);
  busy.reset();
  EXPECT_FALSE(stalls.WaitFor(1, milliseconds(250)));
}

TEST(ThreadActivityTest, AThreadThatEndedIsForgotten) {
  std::thread([] {
    ThreadActivity activity("shortlived");
    activity.Set("here");
    EXPECT_THAT(DescribeThreads(), HasSubstr("shortlived: here"));
  }).join();
  EXPECT_THAT(DescribeThreads(), ::testing::Not(HasSubstr("shortlived")));
}

}  // namespace
}  // namespace holdfast

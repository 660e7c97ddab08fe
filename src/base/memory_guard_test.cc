#include "base/memory_guard.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

class MemoryGuardTest : public ::testing::Test {
 protected:
  MemoryGuard Guard(MemoryGuard::Options options) {
    return MemoryGuard(options, {.host =
                                     [this] {
                                       ++n_readings_;
                                       return host_;
                                     },
                                 .resident = [this] { return resident_; },
                                 .now_s = [this] { return now_s_; }});
  }
  HostMemory host_{.total_bytes = 10'000, .available_bytes = 1'000, .limited_by = "host"};
  std::optional<uint64_t> resident_ = 300;
  double now_s_ = 0;
  int n_readings_ = 0;
};

TEST_F(MemoryGuardTest, KeepsWhatMustStayFreeAndCountsItsOwnGrants) {
  MemoryGuard guard = Guard({.min_free_bytes = 400});
  EXPECT_EQ(guard.Headroom(), 600u);
  EXPECT_TRUE(guard.Consent(500).ok());
  const Status refused = guard.Consent(101);
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(),
            "101 B more memory refused: host available (1000 B), 400 B must stay free, 500 B just "
            "granted");
  EXPECT_TRUE(guard.Consent(100).ok());
  EXPECT_EQ(n_readings_, 1);
  // Later the readings show what was really taken.
  now_s_ = 3;
  host_.available_bytes = 450;
  EXPECT_EQ(guard.Headroom(), 50u);
  EXPECT_EQ(n_readings_, 2);
}

TEST_F(MemoryGuardTest, OperatorsLimitCountsWhenItIsTighter) {
  MemoryGuard guard = Guard({.min_free_bytes = 0, .memory_limit_bytes = 350});
  EXPECT_TRUE(guard.Consent(50).ok());
  EXPECT_EQ(guard.Consent(1).message(),
            "1 B more memory refused: memory limit 350 B, 300 B resident, 50 B just granted");
}

TEST_F(MemoryGuardTest, UnknownMeansRefuse) {
  host_ = {.limited_by = "the limits of our cgroups are unknown"};
  MemoryGuard guard = Guard({.min_free_bytes = 0});
  EXPECT_EQ(guard.Consent(1).message(),
            "1 B more memory refused: the limits of our cgroups are unknown");
  EXPECT_EQ(guard.Headroom(), 0u);
  EXPECT_EQ(guard.Shortage(), 0u);
  host_ = {.total_bytes = 10, .available_bytes = 10, .limited_by = "host"};
  resident_.reset();
  MemoryGuard limited = Guard({.min_free_bytes = 0, .memory_limit_bytes = 5});
  EXPECT_FALSE(limited.Consent(1).ok());
}

TEST_F(MemoryGuardTest, ShortageIsHowFarBelowTheReserveOrAboveTheLimit) {
  host_.available_bytes = 150;
  EXPECT_EQ(Guard({.min_free_bytes = 400}).Shortage(), 250u);
  EXPECT_EQ(Guard({.min_free_bytes = 100}).Shortage(), 0u);
  EXPECT_EQ(Guard({.min_free_bytes = 100, .memory_limit_bytes = 120}).Shortage(), 180u);
}

TEST_F(MemoryGuardTest, AmountsThatWrapAreRefused) {
  EXPECT_FALSE(Guard({.min_free_bytes = UINT64_MAX}).Consent(1).ok());
  EXPECT_FALSE(Guard({.min_free_bytes = 0}).Consent(UINT64_MAX).ok());
}

}  // namespace
}  // namespace holdfast

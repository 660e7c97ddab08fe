#include "engine/memory_relief.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "base/temp_folder.h"

namespace holdfast {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class MemoryReliefTest : public ::testing::Test {
 protected:
  MemoryReliefTest() {
    std::filesystem::create_directories(root_.path() + "/proc/pressure");
    Pressure(0, 0);
  }
  // As the kernel writes it.
  void Pressure(double some, double full) {
    std::ofstream(root_.path() + "/proc/pressure/memory")
        << "some avg10=" << some << " avg60=0.10 avg300=0.02 total=123456\n"
        << "full avg10=" << full << " avg60=0.05 avg300=0.01 total=23456\n";
  }
  void Tick(double after_s = 1) {
    now_s_ += after_s;
    given_.clear();
    relief_.Tick();
  }
  using Given = std::vector<std::pair<GiveBack, size_t>>;

  const TempFolder root_ = TempFolder::Create("relief").value();
  double now_s_ = 100;
  uint64_t shortage_ = 0;
  uint64_t free_ = 0, on_disk_ = 0, parked_ = 0;  // what there is of each
  Given given_;                                   // asked for, in order
  MemoryRelief relief_{{.shortage = [this] { return shortage_; },
                        .pressure = [this] { return ReadMemoryPressure(root_.path()); },
                        .kept_bytes = [] { return 4096 * kMiB; },
                        .now_s = [this] { return now_s_; }},
                       [this](GiveBack level, size_t bytes) {
                         given_.emplace_back(level, bytes);
                         uint64_t* const left = level == GiveBack::kFreeBuffers ? &free_
                                                : level == GiveBack::kOnDisk    ? &on_disk_
                                                                                : &parked_;
                         const uint64_t given = std::min<uint64_t>(*left, bytes);
                         *left -= given;
                         return given;
                       }};
};

TEST_F(MemoryReliefTest, WithoutPressureNothingIsGiven) {
  for (int i = 0; i < 3; ++i) Tick();
  EXPECT_TRUE(given_.empty());
  EXPECT_EQ(relief_.stats().n_changes, 0);
}

TEST_F(MemoryReliefTest, WhatIsMissingIsGivenAtOnceInTheFixedOrder) {
  Tick();
  shortage_ = 300 * kMiB;
  free_ = 50 * kMiB, on_disk_ = 100 * kMiB, parked_ = 1000 * kMiB;
  Tick(0.01);
  EXPECT_EQ(given_, (Given{{GiveBack::kFreeBuffers, 300 * kMiB},
                           {GiveBack::kOnDisk, 250 * kMiB},
                           {GiveBack::kParked, 150 * kMiB}}));
  EXPECT_EQ(relief_.stats().level, PressureLevel::kSome);
  EXPECT_EQ(relief_.stats().given_bytes,
            (std::array<uint64_t, 3>{50 * kMiB, 100 * kMiB, 150 * kMiB}));
  shortage_ = 0;
  Tick();
  EXPECT_EQ(relief_.stats().level, PressureLevel::kNone);
  EXPECT_EQ(relief_.stats().n_changes, 2);
}

// An eighth of 4096 MiB with every reading.
TEST_F(MemoryReliefTest, UnderSomePressureWhatIsNotOnDiskStays) {
  free_ = 10 * kMiB, on_disk_ = 2000 * kMiB, parked_ = 2000 * kMiB;
  Pressure(12, 1);
  Tick();
  EXPECT_EQ(given_, (Given{{GiveBack::kFreeBuffers, 512 * kMiB}, {GiveBack::kOnDisk, 502 * kMiB}}));
  Tick(0.2);
  EXPECT_TRUE(given_.empty()) << "twice on one reading";
  Pressure(6, 0);  // not below half of the threshold: still the same level
  Tick();
  EXPECT_EQ(given_.size(), 2u);
  Pressure(4.9, 0);
  Tick();
  EXPECT_TRUE(given_.empty());
  EXPECT_EQ(relief_.stats().n_changes, 2);
}

TEST_F(MemoryReliefTest, UnderHighPressureParkedConversationsGoToo) {
  on_disk_ = 100 * kMiB, parked_ = 2000 * kMiB;
  Pressure(40, 6);
  Tick();
  EXPECT_EQ(given_, (Given{{GiveBack::kFreeBuffers, 512 * kMiB},
                           {GiveBack::kOnDisk, 512 * kMiB},
                           {GiveBack::kParked, 412 * kMiB}}));
  EXPECT_EQ(relief_.stats().level, PressureLevel::kHigh);
  for (int i = 0; i < 5; ++i) Tick();
  EXPECT_EQ(relief_.stats().n_changes, 1) << "logged once per change";
}

TEST_F(MemoryReliefTest, WhereThereIsNoPsiOnlyTheShortageCounts) {
  std::filesystem::remove_all(root_.path() + "/proc");
  Tick();
  EXPECT_TRUE(given_.empty());
  EXPECT_FALSE(relief_.stats().pressure);
  shortage_ = kMiB;
  Tick();
  EXPECT_FALSE(given_.empty());
}

}  // namespace
}  // namespace holdfast

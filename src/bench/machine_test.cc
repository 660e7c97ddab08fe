#include "bench/machine.h"

#include <gtest/gtest.h>

#include "bench/machine_peak.h"

namespace holdfast {
namespace {

TEST(MachineTest, TheCpuIsNamed) {
  EXPECT_EQ(CpuModelName("processor\t: 0\nmodel name\t: Some  CPU @ 3 GHz \nflags\t: a b\n"),
            "Some CPU @ 3 GHz");
  EXPECT_EQ(CpuModelName("processor : 0\n"), "");
  EXPECT_EQ(CpuModelName("model name"), "");
  EXPECT_EQ(CpuModelName(""), "");
}

TEST(MachineTest, TimeOfTheCpusIsBusyOrIdle) {
  // user nice system idle iowait irq softirq steal guest guest_nice
  const CpuTimes times = ParseCpuTimes("cpu  10 1 5 100 20 2 3 4 7 0\ncpu0 1 1 1 1\n");
  EXPECT_EQ(times.busy, 10u + 1 + 5 + 2 + 3 + 4);
  EXPECT_EQ(times.all, 10u + 1 + 5 + 100 + 20 + 2 + 3 + 4);
  EXPECT_EQ(ParseCpuTimes("intr 5\n").all, 0u);
  EXPECT_EQ(ParseCpuTimes("").all, 0u);
}

TEST(MachineTest, ThisOneHasCpusAndMemory) {
  const Machine machine = ReadMachine();
  EXPECT_GE(machine.n_cpus, 1);
  EXPECT_GE(machine.busy_share, 0.0);
  EXPECT_LE(machine.busy_share, 1.0);
}

TEST(MachinePeakTest, EveryClockGivesRates) {
  for (const PeakClock clock : {PeakClock::kWall, PeakClock::kThread}) {
    EXPECT_GT(StreamingReadBytesPerSecond(1, clock), 1e8);
    EXPECT_GE(MeasureInt8Dot(1, clock).ops_per_s, 0.0);
  }
}

}  // namespace
}  // namespace holdfast

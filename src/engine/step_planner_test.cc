#include "engine/step_planner.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

TEST(PlanReadsTest, ShortestReadComesFirstAndTheRestGoesToTheNext) {
  const std::vector<PendingRead> reads = {{.remaining = 5000, .until_stop = 5000},
                                          {.remaining = 100, .until_stop = 100}};
  EXPECT_EQ(PlanReads(reads, 512), (std::vector<int64_t>{412, 100}));
  EXPECT_EQ(PlanReads(reads, 60), (std::vector<int64_t>{0, 60}));
}

TEST(PlanReadsTest, AStepEndsWhereACheckpointIsDue) {
  const std::vector<PendingRead> reads = {{.remaining = 900, .until_stop = 48}};
  EXPECT_EQ(PlanReads(reads, 512), (std::vector<int64_t>{48}));
}

TEST(PlanReadsTest, ALongReadIsNotStarvedByAStreamOfShortOnes) {
  int64_t waited = 0;
  for (int step = 0; step < 1000; ++step) {
    const std::vector<PendingRead> reads = {
        {.remaining = 10000, .until_stop = 10000, .waited_steps = waited},
        {.remaining = 200, .until_stop = 200}};
    if (PlanReads(reads, 128)[0] > 0) return;
    ++waited;
  }
  FAIL() << "no row in 1000 steps";
}

TEST(StepTimerTest, BudgetKeepsAStepNearItsTargetOnlyWhileSomebodyDecodes) {
  StepTimer timer;
  EXPECT_EQ(timer.ReadBudget(1, 100, 512), 511);  // nothing known yet
  timer.Add(1, 0, 20);
  timer.Add(0, 500, 1000);  // 2 ms a row
  EXPECT_EQ(timer.ReadBudget(1, 100, 512), 40);
  EXPECT_EQ(timer.ReadBudget(0, 100, 512), 512);
  EXPECT_EQ(timer.ReadBudget(1, 10, 512), 1);  // never none: the reader must get on
}

TEST(PlanReadsTest, RowsThatCostMoreTakeMoreOfTheStep) {
  const std::vector<PendingRead> reads = {{.remaining = 100, .until_stop = 100, .row_cost = 4.0},
                                          {.remaining = 5000, .until_stop = 5000}};
  EXPECT_EQ(PlanReads(reads, 512), (std::vector<int64_t>{100, 112}));
  EXPECT_EQ(PlanReads(reads, 42), (std::vector<int64_t>{10, 2}));
  // Dearer than a whole step, it still gets on, alone.
  EXPECT_EQ(PlanReads(reads, 3), (std::vector<int64_t>{1, 0}));
}

TEST(StepTimerTest, RowsWithLogitsAreMeasuredApartFromOrdinaryOnes) {
  StepTimer timer;
  EXPECT_GT(timer.ScoredRowCost(), 1.0);  // not measured yet: the first step is a small one
  timer.Add(0, 500, 1000);                // 2 ms a row
  timer.Add(0, 110, 820, 100);            // 10 ordinary rows and 100 of 8 ms
  EXPECT_EQ(timer.ScoredRowCost(), 4.0);
  EXPECT_EQ(timer.ms_per_read_row(), 2.0);
}

}  // namespace
}  // namespace holdfast

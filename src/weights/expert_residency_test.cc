#include "weights/expert_residency.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

// Uses `expert`, bringing it in when it is missing; true when it was there.
bool UseNow(ExpertResidency* r, int expert, double now) {
  const bool hit = r->SlotOf(expert) >= 0;
  if (!hit) {
    const int slot = *r->LeastWorth();
    r->Hold(slot);
    r->Place(expert, slot);
    r->Use(expert, now);
    r->Free(slot);
    return false;
  }
  const int slot = r->SlotOf(expert);
  r->Hold(slot);
  r->Use(expert, now);
  r->Free(slot);
  return true;
}

TEST(ExpertResidencyTest, EmptySlotsAreTakenFirst) {
  ExpertResidency r(5, 3, 10);
  for (int e = 0; e < 3; ++e) EXPECT_FALSE(UseNow(&r, e, 0));
  for (int e = 0; e < 3; ++e) EXPECT_GE(r.SlotOf(e), 0);
}

TEST(ExpertResidencyTest, OfEquallyOftenUsedOnesTheOldestGoes) {
  ExpertResidency r(4, 3, 10);
  for (int e = 0; e < 3; ++e) UseNow(&r, e, e);
  UseNow(&r, 3, 3);
  EXPECT_EQ(r.SlotOf(0), -1);
  EXPECT_GE(r.SlotOf(1), 0);
}

TEST(ExpertResidencyTest, OneLookAtEverythingDoesNotTurnOutWhatIsUsedAgainAndAgain) {
  ExpertResidency r(100, 10, 64);
  double now = 0;
  for (int i = 0; i < 20; ++i) {
    for (int e = 0; e < 5; ++e) UseNow(&r, e, now);
    ++now;
  }
  for (int e = 5; e < 100; ++e) UseNow(&r, e, now);
  for (int e = 0; e < 5; ++e) EXPECT_TRUE(UseNow(&r, e, now)) << e;
}

TEST(ExpertResidencyTest, WhatWasUsedOftenLongAgoGoesBeforeWhatIsUsedNow) {
  ExpertResidency r(3, 2, 10);
  for (int i = 0; i < 30; ++i) UseNow(&r, 0, 0);  // worth 30, 30 / 2^10 after ten half lives
  UseNow(&r, 1, 100);
  UseNow(&r, 2, 100);
  EXPECT_EQ(r.SlotOf(0), -1);
  EXPECT_GE(r.SlotOf(1), 0);
}

TEST(ExpertResidencyTest, WorthIsTheSumOfFadedUses) {
  ExpertResidency r(1, 1, 10);
  r.Use(0, 0);
  r.Use(0, 10);
  // 1 / 2 + 1 at time 10; in the scale that stands still: log2(1.5) + 10 / 10.
  EXPECT_NEAR(r.Worth(0), 1.584962500721156, 1e-12);
}

TEST(ExpertResidencyTest, AHeldSlotIsNotGivenAwayAndHistoryOutlivesResidence) {
  ExpertResidency r(3, 1, 10);
  UseNow(&r, 0, 0);
  r.Hold(0);
  EXPECT_FALSE(r.LeastWorth().has_value());
  r.Free(0);
  UseNow(&r, 1, 1);
  EXPECT_EQ(r.SlotOf(0), -1);
  EXPECT_EQ(r.Worth(0), 0.0);
}

}  // namespace
}  // namespace holdfast

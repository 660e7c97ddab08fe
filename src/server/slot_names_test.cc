#include "server/slot_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast {
namespace {

using ::testing::ElementsAre;

TEST(SlotNamesTest, AConversationKeepsItsNumberAndNewOnesTakeEmptyThenOldestOnes) {
  SlotNames slots(3);
  EXPECT_THAT(slots.All(), ElementsAre("", "", ""));
  slots.Use("a");
  slots.Use("b");
  slots.Use("a");
  slots.Use("");
  EXPECT_THAT(slots.All(), ElementsAre("a", "b", ""));
  slots.Use("c");
  slots.Use("d");  // b was used longest ago
  EXPECT_THAT(slots.All(), ElementsAre("a", "d", "c"));
  slots.Clear(2);
  slots.Use("e");
  EXPECT_THAT(slots.All(), ElementsAre("a", "d", "e"));
}

TEST(SlotNamesTest, AWantedNumberIsTakenFromWhoeverHasIt) {
  SlotNames slots(2);
  slots.Use("a", 1);
  EXPECT_THAT(slots.All(), ElementsAre("", "a"));
  slots.Use("b", 1);
  EXPECT_THAT(slots.All(), ElementsAre("", "b"));
  slots.Use("b", 0);  // it has one number only
  EXPECT_THAT(slots.All(), ElementsAre("b", ""));
  slots.Use("c", 2);  // there is none such
  slots.Use("b", -1);
  EXPECT_THAT(slots.All(), ElementsAre("b", "c"));
}

}  // namespace
}  // namespace holdfast

#include "engine/repack_plan.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

constexpr Model::RepackSizes kSizes = {.file_bytes = 110, .copy_bytes = 138};

TEST(RepackPlanTest, AutoLeavesConversationsMostOfTheRoom) {
  EXPECT_TRUE(ShouldRepack(RepackMode::kAuto, kSizes, 4 * 28));
  EXPECT_FALSE(ShouldRepack(RepackMode::kAuto, kSizes, 4 * 28 - 1));
  EXPECT_TRUE(ShouldRepack(RepackMode::kOn, kSizes, 28));
  EXPECT_FALSE(ShouldRepack(RepackMode::kOn, kSizes, 27));
  EXPECT_FALSE(ShouldRepack(RepackMode::kOff, kSizes, 1000));
}

TEST(RepackPlanTest, NothingToRepack) { EXPECT_FALSE(ShouldRepack(RepackMode::kOn, {}, 1000)); }

TEST(RepackPlanTest, ModesByName) {
  EXPECT_EQ(*ParseRepackMode("auto"), RepackMode::kAuto);
  EXPECT_EQ(*ParseRepackMode("on"), RepackMode::kOn);
  EXPECT_EQ(*ParseRepackMode("off"), RepackMode::kOff);
  EXPECT_NE(ParseRepackMode("yes").status().message().find("'yes'"), std::string::npos);
}

}  // namespace
}  // namespace holdfast

#include "engine/draft_source.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

TEST(DraftSourceTest, NamesAreReadAndOthersAreErrors) {
  EXPECT_EQ(*ParseDraftSource("auto"), DraftSource::kAuto);
  EXPECT_EQ(*ParseDraftSource("mtp"), DraftSource::kMtp);
  EXPECT_EQ(*ParseDraftSource("lookup"), DraftSource::kLookup);
  for (const char* name : {"", "MTP", "lookup "}) {
    EXPECT_EQ(ParseDraftSource(name).status().code(), StatusCode::kInvalidArgument) << name;
  }
}

}  // namespace
}  // namespace holdfast

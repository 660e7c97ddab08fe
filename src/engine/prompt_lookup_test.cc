#include "engine/prompt_lookup.h"

#include <gtest/gtest.h>

#include <numeric>

namespace holdfast {
namespace {

using Tokens = std::vector<TokenId>;

TEST(PromptLookupTest, GivesWhatFollowedTheSameTokensEarlier) {
  const Tokens tokens = {1, 2, 3, 4, 5, 6, 7, 2, 3, 4};
  EXPECT_EQ(LookUpDrafts(tokens, 3), (Tokens{5, 6, 7}));
  EXPECT_EQ(LookUpDrafts(tokens, 1), Tokens{5});
  EXPECT_EQ(LookUpDrafts(tokens, 0), Tokens());
  EXPECT_EQ(LookUpDrafts(tokens, 100), (Tokens{5, 6, 7, 2, 3, 4}));  // to the end, not beyond it
}

TEST(PromptLookupTest, TwoTokensInARowAreNotEnough) {
  EXPECT_EQ(LookUpDrafts(Tokens{9, 3, 4, 5, 6, 8, 3, 4}, 3), Tokens());
  EXPECT_EQ(LookUpDrafts(Tokens{}, 3), Tokens());
  EXPECT_EQ(LookUpDrafts(Tokens{5}, 3), Tokens());
  EXPECT_EQ(LookUpDrafts(Tokens{5, 5, 5}, 3), Tokens());
  EXPECT_EQ(LookUpDrafts(Tokens{5, 5, 5, 5}, 3), Tokens{5});
}

TEST(PromptLookupTest, TheLongestMatchWinsAndOfEqualOnesTheNewest) {
  EXPECT_EQ(LookUpDrafts(Tokens{1, 2, 3, 4, 50, 9, 2, 3, 4, 60, 1, 2, 3, 4}, 1), Tokens{50});
  EXPECT_EQ(LookUpDrafts(Tokens{1, 2, 3, 50, 1, 2, 3, 60, 1, 2, 3}, 1), Tokens{60});
}

TEST(PromptLookupTest, LooksBackSoFarAndNoFurther) {
  // A beginning that recurs at the very end, with different tokens in between.
  for (const bool within : {true, false}) {
    Tokens tokens(kLookBack - (within ? 6 : 2));
    std::iota(tokens.begin(), tokens.end(), 100);
    tokens.insert(tokens.begin(), {1, 2, 3});
    tokens.insert(tokens.end(), {1, 2, 3});
    EXPECT_EQ(LookUpDrafts(tokens, 2), within ? (Tokens{100, 101}) : Tokens()) << within;
  }
}

}  // namespace
}  // namespace holdfast

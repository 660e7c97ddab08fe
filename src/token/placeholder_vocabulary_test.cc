#include "token/placeholder_vocabulary.h"

#include <gtest/gtest.h>

#include "token/tokenizer.h"

namespace holdfast {
namespace {

TEST(PlaceholderVocabularyTest, EveryTextAndEveryIdWorksAndNothingEndsATurn) {
  ASSERT_TRUE(ValidateVocabulary(PlaceholderVocabulary(1000)).ok());
  const auto tokenizer = Tokenizer::Create(PlaceholderVocabulary(1000));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  const auto ids = (*tokenizer)->Encode("a z", AddedTokens::kAll);
  EXPECT_EQ(ids, (std::vector<TokenId>{'a', ' ', 'z'}));
  const std::vector<TokenId> some = {'h', 'i', 999};
  EXPECT_EQ((*tokenizer)->Decode(some, false), "hi[999]");
  for (TokenId id = 0; id < 1000; ++id) {
    EXPECT_TRUE((*tokenizer)->IsSampleable(id)) << id;
    EXPECT_FALSE((*tokenizer)->IsEndOfGeneration(id)) << id;
  }
}

}  // namespace
}  // namespace holdfast

#include "state/token_sequence.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

TEST(TokenSequenceTest, FirstDifferenceComparesIdsAndContentHashes) {
  const std::vector<TokenId> ids = {5, 6, 7, 8, 9};
  const std::vector<ContentHash> one = {{2, 77}};
  const std::vector<ContentHash> other = {{2, 78}};
  const std::vector<ContentHash> later = {{2, 77}, {4, 1}};
  const TokenView text(ids);
  EXPECT_EQ(FirstDifference(text, text), 5);
  EXPECT_EQ(FirstDifference({ids, one}, {ids, one}), 5);
  EXPECT_EQ(FirstDifference({ids, one}, {ids, other}), 2);
  EXPECT_EQ(FirstDifference({ids, one}, text), 2);
  EXPECT_EQ(FirstDifference({ids, one}, {ids, later}), 4);
  // From behind the difference on they agree again.
  EXPECT_EQ(FirstDifference({ids, one}, {ids, other}, 3), 5);
  EXPECT_EQ(FirstDifference(TokenView(ids).Prefix(3), text), 3);
  EXPECT_EQ(FirstDifference(text, text, 9), 5);
  const std::vector<TokenId> edited = {5, 6, 7, 0, 9};
  EXPECT_EQ(FirstDifference({edited, one}, {ids, one}), 3);
}

TEST(TokenSequenceTest, FirstDifferenceOfLongRuns) {
  const std::vector<TokenId> ids(10'000, 3);
  for (int64_t at : {0, 1, 4095, 4096, 4097, 8191, 8192, 9999}) {
    std::vector<TokenId> other = ids;
    other[at] = 4;
    for (int64_t from : {int64_t{0}, int64_t{1}, int64_t{5000}}) {
      EXPECT_EQ(FirstDifference(ids, other, from), at < from ? 10'000 : at);
    }
  }
  EXPECT_EQ(FirstDifference(ids, TokenView(ids).Prefix(8192)), 8192);
}

TEST(TokenSequenceTest, AppendFromAndTruncateKeepHashesWithTheirTokens) {
  const std::vector<TokenId> ids = {1, 2, 3, 4};
  const std::vector<ContentHash> hashes = {{1, 11}, {3, 33}};
  const TokenView all(ids, hashes);
  TokenSequence sequence(all.Prefix(2));
  EXPECT_EQ(sequence.size(), 2);
  sequence.AppendFrom(all, 2);
  EXPECT_EQ(FirstDifference(sequence.view(), all), 4);
  sequence.Truncate(3);
  EXPECT_EQ(sequence.view().hashes.size(), 1u);
  sequence.Append({4, 34});
  EXPECT_EQ(sequence.view().key(3), (TokenKey{4, 34}));
  EXPECT_EQ(FirstDifference(sequence.view(), all), 3);
  EXPECT_EQ(sequence.view().key(0), (TokenKey{1, 0}));
}

}  // namespace
}  // namespace holdfast

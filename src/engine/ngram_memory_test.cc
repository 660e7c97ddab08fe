#include "engine/ngram_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast {
namespace {

using ::testing::HasSubstr;
using Kind = NgramMemory::Kind;

constexpr uint64_t kMiB = uint64_t{1} << 20, kGiB = uint64_t{1} << 30;

// The released model's: rows of 90 bytes.
NgramSizes Sizes() {
  return {.table_bytes = 320001536ull * 90,
          .n_rows = 320001536,
          .slot_bytes = 96,
          .buffer_bytes = 6 * kMiB};
}

TEST(PlanNgramRowsTest, ATableThatFitsBesideTheRestIsMapped) {
  const NgramSizes sizes = Sizes();
  EXPECT_EQ(PlanNgramRows({}, sizes, sizes.table_bytes + 9 * kGiB, 9 * kGiB).value(), 0u);
  EXPECT_GT(PlanNgramRows({}, sizes, sizes.table_bytes + 9 * kGiB - 1, 9 * kGiB).value(), 0u);
  EXPECT_EQ(PlanNgramRows({}, {}, kGiB, 2 * kGiB).value(), 0u);  // there is none
}

TEST(PlanNgramRowsTest, OtherwiseRowsGetAShareOfTheRoomWithinBounds) {
  EXPECT_EQ(PlanNgramRows({}, Sizes(), kGiB, kGiB).value(), 64 * kMiB);
  EXPECT_EQ(PlanNgramRows({}, Sizes(), 32 * kGiB, 40 * kGiB).value(), 512 * kMiB);
  EXPECT_EQ(PlanNgramRows({}, Sizes(), 90 * kGiB, 70 * kGiB).value(), kGiB);
}

TEST(PlanNgramRowsTest, ATableNoLargerThanThatIsMappedEvenWhereExpertsDoNotFit) {
  NgramSizes sizes = Sizes();
  sizes.table_bytes = 60 * kMiB;
  EXPECT_EQ(PlanNgramRows({}, sizes, kGiB, 5 * kGiB).value(), 0u);
  sizes.table_bytes = 65 * kMiB;
  EXPECT_EQ(PlanNgramRows({}, sizes, kGiB, 5 * kGiB).value(), 64 * kMiB);
}

TEST(PlanNgramRowsTest, ASizeIsTakenByItsWordUpToAllRows) {
  const NgramSizes sizes = Sizes();
  EXPECT_EQ(PlanNgramRows({.kind = Kind::kSize, .bytes = 9 * kMiB}, sizes, kGiB << 10, 0).value(),
            9 * kMiB);
  EXPECT_EQ(PlanNgramRows({.kind = Kind::kSize, .bytes = kGiB << 10}, sizes, kGiB, 0).value(),
            sizes.most_bytes());
  const auto small =
      PlanNgramRows({.kind = Kind::kSize, .bytes = sizes.least_bytes() - 1}, sizes, kGiB, 0);
  EXPECT_EQ(small.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(small.status().message(), HasSubstr("--ngram-memory"));
  EXPECT_THAT(small.status().message(), HasSubstr(std::to_string(sizes.least_bytes())));
}

TEST(PlanNgramRowsTest, AllMeansMappedWhateverFits) {
  EXPECT_EQ(PlanNgramRows({.kind = Kind::kAll}, Sizes(), kGiB, kGiB).value(), 0u);
}

}  // namespace
}  // namespace holdfast

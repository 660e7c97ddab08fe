#include "base/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

namespace holdfast {
namespace {

Result<int> Half(int x) {
  if (x % 2 != 0) return InvalidArgumentError("x is " + std::to_string(x) + ", wanted an even one");
  return x / 2;
}

Result<int> Quarter(int x) {
  HF_ASSIGN_OR_RETURN(const int half, Half(x));
  return Half(half);
}

TEST(StatusTest, ResultCarriesTheValueOrTheReason) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status().ToString(), "invalid argument: x is 3, wanted an even one");
}

TEST(StatusTest, ResultTakesMoveOnlyValues) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  std::unique_ptr<int> p = *std::move(result);
  EXPECT_EQ(*p, 5);
}

TEST(StatusTest, ErrnoKeepsTheNameOfTheThingAndTheKindOfError) {
  const Status status = ErrnoError(ENOSPC, "/data/segment");
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "/data/segment: No space left on device");
}

}  // namespace
}  // namespace holdfast

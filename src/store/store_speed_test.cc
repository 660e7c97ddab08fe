#include "store/store_speed.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace holdfast {
namespace {

TEST(StoreSpeedTest, MeasuresAllFourAndLeavesNothingBehind) {
  const std::filesystem::path dir = std::filesystem::path(::testing::TempDir()) / "holdfast_speed";
  std::filesystem::create_directories(dir);
  const auto speed = MeasureStoreSpeed({dir.string(), 4 << 20, 1 << 16, 1 << 18, 1});
  ASSERT_TRUE(speed.ok()) << speed.status().ToString();
  EXPECT_EQ(speed->n_bytes, uint64_t{4} << 20);
  EXPECT_GT(speed->save_share(), 0.0);
  EXPECT_GT(speed->load_share(), 0.0);
  EXPECT_TRUE(std::filesystem::is_empty(dir));
  std::filesystem::remove(dir);
}

TEST(StoreSpeedTest, ADirectoryThatIsNotThereIsAnError) {
  EXPECT_EQ(MeasureStoreSpeed({"/nonexistent/holdfast"}).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace holdfast

#include "cli/cache_options.h"

#include <gtest/gtest.h>

namespace holdfast::cli {
namespace {

TEST(CacheOptionsTest, SizesAreReadWithAndWithoutUnits) {
  EXPECT_EQ(*ParseSize("0"), 0u);
  EXPECT_EQ(*ParseSize("2000000"), 2000000u);
  EXPECT_EQ(*ParseSize("512M"), 512u << 20);
  EXPECT_EQ(*ParseSize("1.5GiB"), 3u << 29);
  EXPECT_EQ(*ParseSize("8GB"), uint64_t{8} << 30);
  EXPECT_EQ(*ParseSize("1T"), uint64_t{1} << 40);
  for (const char* bad : {"", "G", "-1", "nan", "1X", "1GG", "8 G", "1e30", "inf"}) {
    EXPECT_FALSE(ParseSize(bad).ok()) << bad;
  }
}

TEST(CacheOptionsTest, ABadFlagIsNamedWithWhatWasWanted) {
  EngineOptions engine;
  EXPECT_EQ(ApplyCacheOptions({.cache_ram = "lots"}, &engine).message(),
            "--cache-ram: 'lots', wanted a size such as 512M or 8G");
  EXPECT_EQ(ApplyCacheOptions({.cache_min_tokens = "5,x"}, &engine).message(),
            "--cache-min-tokens: 'x', wanted a number of tokens");
  EXPECT_EQ(ApplyCacheOptions({.autosave = "now"}, &engine).message(),
            "--autosave: autosave is 'now', wanted turn, idle or off");
}

TEST(CacheOptionsTest, FlagsReachTheEngine) {
  EngineOptions engine;
  ASSERT_TRUE(ApplyCacheOptions({.cache_ram = "3G",
                                 .cache_min_tokens = "100,20",
                                 .store = "/some/where",
                                 .autosave = "turn"},
                                &engine)
                  .ok());
  EXPECT_EQ(engine.cache_ram_bytes, uint64_t{3} << 30);
  EXPECT_EQ(engine.min_write_tokens, 100);
  EXPECT_EQ(engine.min_read_tokens, 20);
  EXPECT_EQ(engine.store_dir, "/some/where");
  EXPECT_EQ(engine.autosave, Autosave::kTurn);
  ASSERT_TRUE(ApplyCacheOptions({.store = "off"}, &(engine = {})).ok());
  EXPECT_EQ(engine.store_dir, "");
}

}  // namespace
}  // namespace holdfast::cli

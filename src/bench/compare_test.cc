#include "bench/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace holdfast {
namespace {

using ::testing::HasSubstr;

Figure Decode(std::vector<double> rates, int n_slots = 1) {
  Figure figure{.test = "decode", .n = 128, .n_slots = n_slots};
  figure.tokens_per_s = Spread::Of(std::move(rates));
  return figure;
}

TEST(CompareTest, AChangeBeyondTheRangesOfBothCounts) {
  // Half ranges of 5% and 5%.
  const Figure before = Decode({95, 100, 105});
  EXPECT_EQ(Compare(before, Decode({103.55, 109, 114.45})).verdict, Change::kSame);
  EXPECT_EQ(Compare(before, Decode({105.45, 111, 116.55})).verdict, Change::kBetter);
  EXPECT_EQ(Compare(before, Decode({84.55, 89, 93.45})).verdict, Change::kWorse);
  const Comparison same = Compare(before, Decode({95, 99, 105}));
  EXPECT_EQ(same.verdict, Change::kSame);
  EXPECT_DOUBLE_EQ(same.before, 100);
  EXPECT_NEAR(same.change, -0.01, 1e-12);
  EXPECT_NEAR(same.noise, 0.05 + 5.0 / 99, 1e-12);
}

TEST(CompareTest, QuietRunsStillHaveTwoPercentOfNoise) {
  const Figure before = Decode({100, 100, 100});
  EXPECT_EQ(Compare(before, Decode({101.9, 101.9})).verdict, Change::kSame);
  EXPECT_EQ(Compare(before, Decode({102.1, 102.1})).verdict, Change::kBetter);
  EXPECT_EQ(Compare(before, Decode({97.9, 97.9})).verdict, Change::kWorse);
}

TEST(CompareTest, OfASingleRunNothingIsKnownSoFivePercentAreAssumed) {
  EXPECT_DOUBLE_EQ(NoiseOf(Spread::Of({100})), 0.05);
  EXPECT_EQ(Compare(Decode({100}), Decode({109})).verdict, Change::kSame);
  EXPECT_EQ(Compare(Decode({100}), Decode({111})).verdict, Change::kBetter);
}

TEST(BaselineTest, FindsTheSameMeasurementTheLastOfSeveral) {
  const Baseline baseline({{Decode({50}), {}}, {Decode({100}), {}}, {Decode({10}, 2), {}}});
  ASSERT_TRUE(baseline.CompareTo(Decode({120})).has_value());
  EXPECT_DOUBLE_EQ(baseline.CompareTo(Decode({120}))->before, 100);
  EXPECT_DOUBLE_EQ(baseline.CompareTo(Decode({10}, 2))->before, 10);
  EXPECT_FALSE(baseline.CompareTo(Decode({10}, 4)).has_value());
}

TEST(BaselineTest, SaysWhatElseIsDifferent) {
  BenchContext now{.cpu = "x", .n_threads = 2, .kernels = "avx2", .model = "m"};
  const Baseline baseline({{Decode({50}), now}});
  EXPECT_EQ(baseline.Differences(now), "");
  now.n_threads = 4;
  now.model = "k";
  EXPECT_EQ(baseline.Differences(now), "threads 2 -> 4, model m -> k");
  now = {.cpu = "x", .others_busy = 0.5, .n_threads = 2, .kernels = "avx2", .model = "m"};
  EXPECT_EQ(baseline.Differences(now), "CPUs that others took 0% -> 50%");
}

TEST(BaselineTest, FilesAreReadAndErrorsNameThem) {
  const std::string path = std::string(::testing::TempDir()) + "/holdfast_baseline.json";
  std::ofstream(path) << ToJson(Decode({70}), {}).dump() << "\n";
  const auto baseline = Baseline::Read(path);
  ASSERT_TRUE(baseline.ok()) << baseline.status().ToString();
  EXPECT_DOUBLE_EQ(baseline->CompareTo(Decode({70}))->before, 70);
  std::ofstream(path) << "test n depth";
  EXPECT_THAT(Baseline::Read(path).status().message(), HasSubstr(path + ": line 1"));
  std::ofstream(path) << "";
  EXPECT_THAT(Baseline::Read(path).status().message(), HasSubstr("no figures"));
  std::filesystem::remove(path);
  EXPECT_EQ(Baseline::Read(path).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace holdfast

#include "ops/profile/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "ops/cpu/cpu_backend.h"
#include "ops/profile/profiling_backend.h"

namespace holdfast {
namespace {

using std::chrono::microseconds;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// A step of 100 us: 60 us in "a" (twice), 30 us in "b", 10 us between them.
void AddStep(Profile* profile, Profile::Clock::time_point t, StepKind kind, int64_t n_rows) {
  profile->BeginStep(kind, n_rows, t);
  profile->AddOp({.name = "a", .layer = 1, .weight_bytes = 300'000}, t, t + microseconds(30));
  profile->AddOp({.name = "b", .weight_bytes = std::nullopt, .ops = 6e6}, t + microseconds(35),
                 t + microseconds(65));
  profile->AddOp({.name = "a", .layer = 2, .weight_bytes = 300'000}, t + microseconds(70),
                 t + microseconds(100));
  profile->EndStep();
}

TEST(ProfileTest, SumsOpsOfAMeanStepAndWhatIsBetween) {
  Profile profile;
  const auto t = Profile::Clock::now();
  AddStep(&profile, t, StepKind::kOneRow, 1);
  AddStep(&profile, t + microseconds(120), StepKind::kOneRow, 1);
  const std::string table = profile.Table();
  // 100 us and half of the gap of 20 us between the two.
  EXPECT_THAT(table, HasSubstr("2 steps of 1 row, 1.0 rows and 0.110 ms each"));
  EXPECT_THAT(table, ContainsRegex("\n  a +2\\.0 +60\\.0 +54\\.5% +10\\.0 *\n"));
  EXPECT_THAT(table, ContainsRegex("\n  b +1\\.0 +30\\.0 +27\\.3% +200\n"));
  EXPECT_THAT(table, ContainsRegex("\\(between ops\\) +10\\.0 "));
  EXPECT_THAT(table, ContainsRegex("\\(between steps\\) +10\\.0 "));
  EXPECT_LT(table.find("\n  a "), table.find("\n  b "));  // the longest first
}

TEST(ProfileTest, StepsOfDifferentKindsHaveTablesOfTheirOwn) {
  Profile profile;
  const auto t = Profile::Clock::now();
  AddStep(&profile, t, StepKind::kOneRow, 1);
  AddStep(&profile, t + microseconds(200), StepKind::kManyRows, 300);
  profile.AddOp({.name = "copy"}, t + microseconds(400), t + microseconds(2400));
  const std::string table = profile.Table();
  EXPECT_THAT(table, HasSubstr("1 steps of 1 row"));
  EXPECT_THAT(table, HasSubstr("1 steps of more rows, 300.0 rows"));
  EXPECT_THAT(table, ContainsRegex("outside steps\n.*\n  copy +1 +2\\.00\n"));
  EXPECT_THAT(table, Not(HasSubstr("draft")));
  profile.Reset();
  EXPECT_EQ(profile.Table(), "");
}

TEST(ProfileTest, LongWaitsAreNoPartOfAStep) {
  Profile profile;
  const auto t = Profile::Clock::now();
  AddStep(&profile, t, StepKind::kOneRow, 1);
  AddStep(&profile, t + std::chrono::seconds(5), StepKind::kOneRow, 1);
  EXPECT_THAT(profile.Table(), ContainsRegex("\\(between steps\\) +0\\.0 "));
}

std::string ReadWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(ProfileTest, TheTraceHoldsStepsAndOpsUpToItsLimit) {
  Profile profile(/*keep_events=*/true, /*max_events=*/4);
  const auto t = Profile::Clock::now();
  AddStep(&profile, t, StepKind::kFewRows, 3);
  profile.AddOp({.name = "dropped"}, t, t);
  EXPECT_EQ(profile.n_events_dropped(), 1);
  const std::string path = std::string(::testing::TempDir()) + "/holdfast_trace.json";
  ASSERT_TRUE(profile.WriteTrace(path).ok());
  const std::string trace = ReadWhole(path);
  std::filesystem::remove(path);
  EXPECT_THAT(trace, HasSubstr("{\"name\":\"a\",\"ph\":\"X\""));
  EXPECT_THAT(trace, HasSubstr("\"dur\":30.000,\"args\":{\"layer\":2}}"));
  EXPECT_THAT(trace, HasSubstr("\"dur\":100.000,\"args\":{\"rows\":3}}"));
  EXPECT_THAT(trace, Not(HasSubstr("dropped")));
  EXPECT_EQ(profile.WriteTrace("/nonexistent/trace.json").code(), StatusCode::kNotFound);
}

TEST(ProfileTest, NamesAreQuoted) {
  Profile profile(/*keep_events=*/true);
  const auto t = Profile::Clock::now();
  profile.AddOp({.name = "matmul \"x\\\n"}, t, t);
  const std::string path = std::string(::testing::TempDir()) + "/holdfast_trace_names.json";
  ASSERT_TRUE(profile.WriteTrace(path).ok());
  EXPECT_THAT(ReadWhole(path), HasSubstr("\"matmul \\u0022x\\u005c\\u000a\""));
  std::filesystem::remove(path);
}

TEST(ProfilingBackendTest, PassesResultsAndErrorsOnAndNamesProductsByTheirWeights) {
  const auto cpu = *CpuBackend::Create({.n_threads = 1});
  const auto profile = std::make_shared<Profile>();
  ProfilingBackend backend(cpu.get(), profile);
  const std::vector<float> weight = {1, 2, 3, 4}, x = {10, 1};
  const GgufTensor tensor;
  const WeightView view{.tensor = &tensor,
                        .name = "blk.7.attn_k.weight",
                        .n_cols = 2,
                        .n_rows = 2,
                        .n_mats = 1,
                        .data = reinterpret_cast<const std::byte*>(weight.data()),
                        .row_bytes = 8,
                        .mat_bytes = 16};
  const auto w = *backend.LoadWeight(view);
  const auto in = *backend.Allocate(64), out = *backend.Allocate(64);
  ASSERT_TRUE(backend.Upload({in.get(), 0}, std::as_bytes(std::span(x))).ok());
  ASSERT_TRUE(
      backend
          .MatMul({.x = {in.get(), 0}, .n_rows = 1, .outputs = {{w.get(), {out.get(), 0}, true}}})
          .ok());
  std::vector<float> y(2);
  ASSERT_TRUE(backend.Download({out.get(), 0}, std::as_writable_bytes(std::span(y))).ok());
  EXPECT_EQ(y, (std::vector<float>{12, 34}));
  const std::string table = profile->Table();
  EXPECT_THAT(table, ContainsRegex("\n  matmul attn_k +1 "));
  EXPECT_THAT(table, ContainsRegex("\n  upload +1 "));
}

}  // namespace
}  // namespace holdfast

#include "bench/run_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "bench/store_bench.h"
#include "tests/support/fixtures.h"

namespace holdfast {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  Status status;
  BenchHeader header;
  std::vector<Figure> figures;
  std::vector<std::string> notes, profiles, keys;
};

Outcome Measure(const BenchOptions& options) {
  Outcome outcome;
  BenchListener listener;
  listener.on_header = [&](const BenchHeader& header) { outcome.header = header; };
  listener.on_note = [&](const std::string& note) { outcome.notes.push_back(note); };
  listener.on_figure = [&](const Figure& figure, const std::string& profile) {
    outcome.figures.push_back(figure);
    outcome.profiles.push_back(profile);
    outcome.keys.push_back(figure.Key());
  };
  outcome.status = RunBench(options, listener);
  return outcome;
}

BenchOptions Tiny() {
  BenchOptions options;
  options.model.model_path = FixturePath("tinyC-mtp-bf16.gguf");
  options.model.cpu.n_threads = 2;
  options.peak = MachinePeak{.read_bytes_per_s = 5e10, .int8 = {.ops_per_s = 1e12}};
  options.request = {
      .prefill = {{16}}, .depths = {{0, 300}}, .slots = {{1, 2}}, .n_decode = 8, .n_runs = 2};
  return options;
}

TEST(RunBenchTest, MeasuresEverythingThatWasAskedFor) {
  const auto n_entries = [] {
    int n = 0;
    for (const auto& e :
         std::filesystem::directory_iterator(std::filesystem::temp_directory_path())) {
      n += e.path().filename().string().starts_with("holdfast_bench_");
    }
    return n;
  };
  const int n_before = n_entries();
  const Outcome outcome = Measure(Tiny());
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  const std::string rest = " draft=off prompt=random state=";
  ASSERT_EQ(outcome.keys.size(), 12u) << ::testing::PrintToString(outcome.keys);
  EXPECT_THAT(std::vector(outcome.keys.begin(), outcome.keys.begin() + 10),
              ElementsAre("prefill n=16 depth=0 slots=1" + rest + "none",
                          "decode n=8 depth=0 slots=1" + rest + "none",
                          "decode n=8 depth=0 slots=2" + rest + "none",
                          "prefill n=16 depth=300 slots=1" + rest + "read",
                          "decode n=8 depth=300 slots=1" + rest + "read",
                          "decode n=8 depth=300 slots=2" + rest + "read",
                          "park n=300 depth=300 slots=1" + rest + "read",
                          "restore n=300 depth=300 slots=1" + rest + "read",
                          "save n=300 depth=300 slots=1" + rest + "read",
                          "load n=300 depth=300 slots=1" + rest + "read"));
  EXPECT_THAT(outcome.keys[10], HasSubstr("draft=off prompt=text"));
  EXPECT_THAT(outcome.keys[11], HasSubstr("draft=on prompt=text"));
  for (const Figure& figure : outcome.figures) {
    EXPECT_GT(figure.tokens_per_s.median, 0) << figure.Key();
    EXPECT_LE(figure.tokens_per_s.min, figure.tokens_per_s.max);
    EXPECT_EQ(figure.tokens_per_s.n, 2) << figure.Key();
    EXPECT_GT(figure.seconds, 0);
    // What a reader of --json gets back is the same figure.
    const auto back = FigureFromJson(ToJson(figure, outcome.header.context));
    ASSERT_TRUE(back.ok()) << back.status().ToString();
    EXPECT_EQ(back->figure.Key(), figure.Key());
  }
  EXPECT_EQ(outcome.header.context.n_threads, 2);
  EXPECT_EQ(n_entries(), n_before);  // what was saved is gone
}

TEST(RunBenchTest, BytesOfAStepAreSharedByItsRows) {
  const Outcome outcome = Measure(Tiny());
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  const TokenWork& work = outcome.header.work;
  const Figure &alone = outcome.figures[1], &together = outcome.figures[2];
  ASSERT_EQ(alone.n_slots, 1);
  ASSERT_EQ(together.n_slots, 2);
  const double state = alone.bytes_per_token - static_cast<double>(work.StepBytes(1));
  EXPECT_GE(state, static_cast<double>(outcome.header.state_bytes));
  // Two rows choose between the experts of one and twice as many.
  const double dense = static_cast<double>(work.dense_bytes) / 2 + work.row_bytes + state;
  const double experts = static_cast<double>(work.StepBytes(1) - work.dense_bytes - work.row_bytes);
  EXPECT_GE(together.bytes_per_token, dense + experts / 2 - 1);
  EXPECT_LE(together.bytes_per_token, dense + experts + 1);
  EXPECT_DOUBLE_EQ(alone.of_roofline, alone.tokens_per_s.median * alone.bytes_per_token /
                                          outcome.header.context.memory_bytes_per_s);
}

TEST(RunBenchTest, ProfilesAreOfTheFiguresOwnRuns) {
  BenchOptions options = Tiny();
  options.model.profile = std::make_shared<Profile>();
  options.request.state = false;
  options.request.draft = DraftRuns::kOff;
  options.request.slots = {{2}};
  options.request.depths = {{0}};
  const Outcome outcome = Measure(options);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  ASSERT_EQ(outcome.profiles.size(), 2u);
  EXPECT_THAT(outcome.profiles[0], HasSubstr("profile: 2 steps of 2 to 16 rows, 16.0 rows"));
  // Two runs of the first token and 8 more.
  EXPECT_THAT(outcome.profiles[1], HasSubstr("profile: 18 steps of 2 to 16 rows, 2.0 rows"));
  for (const char* op : {"embed", "hc_read", "gdn", "qsa_attend", "moe", "matmul output"}) {
    EXPECT_THAT(outcome.profiles[1], HasSubstr(std::string("\n  ") + op));
  }
}

TEST(RunBenchTest, OnlyDraftsOrNone) {
  BenchOptions options = Tiny();
  options.request = {.prefill = {{0}},
                     .depths = {{0}},
                     .slots = {{1}},
                     .n_decode = 8,
                     .draft = DraftRuns::kOn,
                     .n_guesses = 3,
                     .n_runs = 1,
                     .state = false};
  const Outcome on = Measure(options);
  ASSERT_TRUE(on.status.ok()) << on.status.ToString();
  ASSERT_EQ(on.figures.size(), 2u);
  EXPECT_EQ(on.figures[1].draft, "on");
  options.model.model_path = FixturePath("tinyA-bf16.gguf");
  const Outcome no_head = Measure(options);
  EXPECT_EQ(no_head.figures.size(), 1u);
  EXPECT_THAT(no_head.notes, Contains(HasSubstr("no draft head")));
}

TEST(RunBenchTest, ErrorsNameWhatIsWrong) {
  BenchOptions options = Tiny();
  options.model.model_path = "/nonexistent.gguf";
  EXPECT_EQ(Measure(options).status.code(), StatusCode::kNotFound);
  options = Tiny();
  options.dir = "/nonexistent";
  EXPECT_THAT(Measure(options).status.message(), HasSubstr("/nonexistent"));
  options = Tiny();
  options.request.n_decode = -1;
  EXPECT_THAT(Measure(options).status.message(), HasSubstr("--decode"));
}

TEST(StoreBenchTest, SavesAndLoadsBesidePlainFiles) {
  std::vector<Figure> figures;
  std::vector<std::string> notes;
  const Status status = RunStoreBench(
      {.n_bytes = 4 << 20, .n_runs = 2}, [&](const std::string& note) { notes.push_back(note); },
      [&](const Figure& figure) { figures.push_back(figure); });
  ASSERT_TRUE(status.ok()) << status.ToString();
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(figures[0].test, "save");
  EXPECT_EQ(figures[1].test, "load");
  for (const Figure& figure : figures) {
    EXPECT_EQ(figure.state_bytes, uint64_t{4} << 20);
    EXPECT_EQ(figure.tokens_per_s.n, 2);
    EXPECT_GT(figure.of_plain, 0);
    EXPECT_GT(figure.plain_bytes_per_s, 0);
  }
  EXPECT_THAT(notes, Contains(HasSubstr("500 MB")));
  EXPECT_FALSE(RunStoreBench({.n_bytes = 1}, nullptr, [](const Figure&) {}).ok());
}

}  // namespace
}  // namespace holdfast

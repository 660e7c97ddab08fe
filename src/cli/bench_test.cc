#include "cli/bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "cli/bench_text.h"

namespace holdfast::cli {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const BenchCommandOptions& options) {
  std::ostringstream out;
  const Status status = RunBenchCommand(options, out);
  EXPECT_EQ(out.str(), "");  // refused before anything is measured
  return status.message();
}

TEST(BenchCommandTest, WrongArgumentsAreRefusedByName) {
  EXPECT_THAT(ErrorOf({.prefill = "1,x"}), HasSubstr("--prefill: 'x' in '1,x'"));
  EXPECT_THAT(ErrorOf({.depth = "-1"}), HasSubstr("--depth"));
  EXPECT_THAT(ErrorOf({.slots = "0"}), HasSubstr("--slots is 0, wanted 1 to 64"));
  EXPECT_THAT(ErrorOf({.decode = -5}), HasSubstr("--decode is -5"));
  EXPECT_THAT(ErrorOf({.repeat = -1}), HasSubstr("--repeat is -1"));
  EXPECT_THAT(ErrorOf({.model = {.draft = "maybe"}}), HasSubstr("--draft"));
  EXPECT_THAT(ErrorOf({.model = {.draft_source = "head"}}), HasSubstr("--draft-source"));
  EXPECT_THAT(ErrorOf({.model = {.draft_norm = "both"}}), HasSubstr("--draft-norm"));
  EXPECT_THAT(ErrorOf({.model = {.kv = "q3"}}), HasSubstr("--kv"));
  EXPECT_THAT(ErrorOf({.model = {.model = "/nonexistent.gguf"}}), HasSubstr("/nonexistent.gguf"));
  EXPECT_THAT(ErrorOf({.memory_limit = "much"}), HasSubstr("--memory-limit"));
  EXPECT_THAT(ErrorOf({.compare = "/nonexistent.json"}), HasSubstr("/nonexistent.json"));
  EXPECT_THAT(ErrorOf({.store = true, .bytes = "few"}), HasSubstr("--bytes"));
}

TEST(BenchTextTest, ALineSaysHowSureAndHowNear) {
  Figure figure{.test = "decode", .n = 128, .depth = 2048, .n_slots = 2, .state = "filled"};
  figure.tokens_per_s = Spread::Of({90, 100, 110});
  figure.bytes_per_token = 2e7;
  figure.of_roofline = 0.25;
  EXPECT_EQ(FigureLine(figure, std::nullopt),
            "decode       128    2048     2   off       100.0   10.0%    3  "
            "20.0 MB a token, 2.00 GB/s, 25% of memory, state filled\n");
  const Comparison comparison{
      .verdict = Change::kWorse, .before = 125, .change = -0.2, .noise = 0.15};
  EXPECT_THAT(FigureLine(figure, comparison),
              HasSubstr(" | worse: -20.0% (was 125.0, noise 15.0%)\n"));
}

TEST(BenchTextTest, StateAndPrompts) {
  Figure park{.test = "park", .n = 9, .depth = 9};
  park.tokens_per_s = Spread::Of({3e9});
  park.state_bytes = 5'000'000;
  park.seconds = 2e-6;
  EXPECT_THAT(FigureLine(park, std::nullopt), HasSubstr("3e+09"));
  EXPECT_THAT(FigureLine(park, std::nullopt), HasSubstr("5.0 MB in 2.0 us, by reference"));
  Figure save{.test = "save", .prompt = "none", .state = "filled"};
  save.tokens_per_s = Spread::Of({1});
  save.state_bytes = 1'000'000'000;
  save.seconds = 0.5;
  save.plain_bytes_per_s = 2.5e9;
  save.of_plain = 0.8;
  EXPECT_THAT(
      FigureLine(save, std::nullopt),
      HasSubstr("1.00 GB in 500.00 ms, 2.00 GB/s, 80% of dd bs=16M conv=fsync at 2.50 GB/s"));
  Figure draft{.test = "decode", .draft = "on", .prompt = "text"};
  draft.tokens_per_s = Spread::Of({1});
  draft.n_drafted = 10;
  draft.n_accepted = 7;
  EXPECT_THAT(FigureLine(draft, std::nullopt), HasSubstr("7 of 10 guesses right, a text"));
}

}  // namespace
}  // namespace holdfast::cli

#include "bench/figure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast {
namespace {

using ::testing::HasSubstr;

Figure SomeFigure() {
  Figure figure{.test = "decode", .n = 128, .depth = 2048, .n_slots = 4, .state = "read"};
  figure.tokens_per_s = Spread::Of({100, 110, 90});
  figure.seconds = 5.12;
  figure.bytes_per_token = 2e7;
  figure.of_roofline = 0.5;
  return figure;
}

BenchContext SomeContext() {
  return {.version = "1",
          .cpu = "Some \"CPU\"",
          .n_cpus = 2,
          .n_threads = 2,
          .kernels = "avx2",
          .model = "m.gguf",
          .model_bytes = 1234,
          .kv = "int8",
          .activations = "int16",
          .memory_bytes_per_s = 4e9};
}

TEST(SpreadTest, MedianAndExtremes) {
  EXPECT_EQ(Spread::Of({3}).median, 3);
  const Spread odd = Spread::Of({5, 1, 9});
  EXPECT_EQ(odd.median, 5);
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.max, 9);
  EXPECT_EQ(odd.n, 3);
  EXPECT_EQ(Spread::Of({4, 1, 2, 9}).median, 3);
  EXPECT_EQ(Spread::Of({}).n, 0);
}

TEST(FigureTest, JsonHasWhatAReaderNeeds) {
  const auto json = ToJson(SomeFigure(), SomeContext());
  EXPECT_EQ(json["test"], "decode");
  EXPECT_EQ(json["n"], 128);
  EXPECT_EQ(json["depth"], 2048);
  EXPECT_EQ(json["slots"], 4);
  EXPECT_EQ(json["tokens_per_s"], 100.0);
  EXPECT_EQ(json["tokens_per_s_min"], 90.0);
  EXPECT_EQ(json["runs"], 3);
  EXPECT_EQ(json["bytes_per_token"], 2e7);
  EXPECT_EQ(json["model"], "m.gguf");
  EXPECT_FALSE(json.contains("drafted"));
  EXPECT_FALSE(json.contains("state_bytes"));
}

TEST(FigureTest, ComesBackFromLinesAndFromAnArray) {
  const Figure figure = SomeFigure();
  const std::string line = ToJson(figure, SomeContext()).dump();
  for (const std::string& text : {line + "\n\n" + line, "[" + line + "," + line + "]"}) {
    const auto figures = ParseFigures(text);
    ASSERT_TRUE(figures.ok()) << figures.status().ToString();
    ASSERT_EQ(figures->size(), 2u);
    EXPECT_EQ(figures->back().figure.Key(), figure.Key());
    EXPECT_EQ(figures->back().figure.tokens_per_s.max, 110);
    EXPECT_EQ(figures->back().context.cpu, "Some \"CPU\"");
  }
  EXPECT_TRUE(ParseFigures("")->empty());
}

TEST(FigureTest, WhatIsWrongIsNamed) {
  auto json = ToJson(SomeFigure(), SomeContext());
  const std::string good = json.dump();
  json.erase("slots");
  EXPECT_THAT(ParseFigures(good + "\n" + json.dump()).status().message(),
              HasSubstr("line 2: no field 'slots'"));
  json["slots"] = "4";
  EXPECT_THAT(ParseFigures("[" + json.dump() + "]").status().message(),
              HasSubstr("element 0: 'slots' is string, wanted an integer"));
  json["slots"] = -1;
  EXPECT_THAT(ParseFigures(json.dump()).status().message(), HasSubstr("'slots' is negative"));
  EXPECT_THAT(ParseFigures("{").status().message(), HasSubstr("line 1: not JSON"));
  EXPECT_THAT(ParseFigures("7").status().message(), HasSubstr("line 1: number, wanted an object"));
}

TEST(FigureTest, TheKeyIsWhatIsMeasured) {
  const Figure figure = SomeFigure();
  Figure other = figure;
  other.tokens_per_s = Spread::Of({1});
  EXPECT_EQ(other.Key(), figure.Key());
  other.draft = "on";
  EXPECT_NE(other.Key(), figure.Key());
  other = figure;
  other.state = "filled";
  EXPECT_NE(other.Key(), figure.Key());
}

}  // namespace
}  // namespace holdfast

#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace holdfast {
namespace {

struct Outcome {
  std::string text, matched;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome Match(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  Outcome outcome;
  for (const std::string& piece : pieces) outcome.text += matcher.Push(piece);
  outcome.text += matcher.Flush();
  outcome.matched = matcher.matched();
  return outcome;
}

TEST(StopMatcherTest, WithoutStopsEverythingGoesThroughAtOnce) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.Push("abc"), "abc");
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcherTest, HoldsBackOnlyWhatMayBeginAStop) {
  StopMatcher matcher({"END"});
  EXPECT_EQ(matcher.Push("the E"), "the ");
  EXPECT_EQ(matcher.Push("N"), "");
  EXPECT_EQ(matcher.Push("T"), "ENT");
  EXPECT_EQ(matcher.Push("EN"), "");
  EXPECT_EQ(matcher.Flush(), "EN");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcherTest, StopsAcrossPiecesAndDropsTheRest) {
  StopMatcher matcher({"END"});
  EXPECT_EQ(matcher.Push("xE"), "x");
  EXPECT_EQ(matcher.Push("NDyyy"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.matched(), "END");
  EXPECT_EQ(matcher.Push("more"), "");
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcherTest, OverlappingBeginningsAreNotMissed) {
  EXPECT_EQ(Match({"aab"}, {"a", "a", "a", "b"}), (Outcome{"a", "aab"}));
  EXPECT_EQ(Match({"abac"}, {"abab", "ac!"}), (Outcome{"ab", "abac"}));
}

TEST(StopMatcherTest, TheFirstToEndWinsAndOfThoseTheLongest) {
  EXPECT_EQ(Match({"abcd", "bc"}, {"xabcd"}), (Outcome{"xa", "bc"}));
  EXPECT_EQ(Match({"c", "abc"}, {"xabcd"}), (Outcome{"x", "abc"}));
}

TEST(StopMatcherTest, CuttingThePiecesDifferentlyChangesNothing) {
  std::mt19937 rng(3);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops;
    for (int i = rng() % 4; i >= 0; --i) {
      std::string stop;
      for (int n = rng() % 4; n >= 0; --n) stop += static_cast<char>('a' + rng() % 2);
      stops.push_back(stop);
    }
    std::string text;
    for (int n = rng() % 20; n > 0; --n) text += static_cast<char>('a' + rng() % 3);
    const Outcome whole = Match(stops, {text});
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t n = 1 + rng() % 4;
      pieces.push_back(text.substr(at, n));
      at += n;
    }
    ASSERT_EQ(Match(stops, pieces), whole) << text;
    // Against plain search: the stop that ends first, and the text before it.
    size_t best_end = std::string::npos;
    for (const std::string& stop : stops) {
      const size_t at = text.find(stop);
      if (at != std::string::npos) best_end = std::min(best_end, at + stop.size());
    }
    EXPECT_EQ(whole.matched.empty(), best_end == std::string::npos);
    if (best_end != std::string::npos) {
      EXPECT_EQ(whole.text + whole.matched, text.substr(0, best_end));
    } else {
      EXPECT_EQ(whole.text, text);
    }
  }
}

TEST(StopMatcherTest, ValidateRefusesEmptyManyAndLong) {
  EXPECT_TRUE(ValidateStopStrings({"a", "b"}).ok());
  EXPECT_FALSE(ValidateStopStrings({"a", ""}).ok());
  EXPECT_FALSE(ValidateStopStrings({std::string(kMaxStopBytes + 1, 'x')}).ok());
  EXPECT_FALSE(ValidateStopStrings(std::vector<std::string>(kMaxStopStrings + 1, "x")).ok());
}

}  // namespace
}  // namespace holdfast

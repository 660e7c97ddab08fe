#include "cli/restart.h"

#include <gtest/gtest.h>

#include <string>

namespace holdfast::cli {
namespace {

using std::chrono::seconds;

TEST(RestartsTest, WhatIsWrittenIsReadByTheSameProcessOnly) {
  Restarts restarts;
  EXPECT_EQ(restarts.listening_socket(), -1);
  restarts.Add(seconds(100), 7);
  restarts.Add(seconds(250), 9);
  const std::string text = restarts.Text(42);
  const Restarts read = Restarts::Parse(text, 42);
  EXPECT_EQ(read.n_total(), 2);
  EXPECT_EQ(read.listening_socket(), 9);
  EXPECT_EQ(read.CountSince(seconds(0)), 2);
  EXPECT_EQ(read.CountSince(seconds(101)), 1);
  EXPECT_EQ(read.CountSince(seconds(250)), 1);
  EXPECT_EQ(read.CountSince(seconds(251)), 0);
  EXPECT_EQ(read.Text(42), text);
  EXPECT_EQ(Restarts::Parse(text, 43).n_total(), 0);
}

TEST(RestartsTest, AnythingElseIsNoRestart) {
  for (const char* text : {"", " ", "42", "42 3", "42 3 x", "42 3 1 ", "42  3 1", "x 3 1",
                           "-42 3 1", "42 3 99999999999999999999"}) {
    const Restarts read = Restarts::Parse(text, 42);
    EXPECT_EQ(read.n_total(), 0) << text;
    EXPECT_EQ(read.listening_socket(), -1) << text;
  }
}

TEST(RestartsTest, ALongHistoryKeepsItsCountAndTheLatestTimes) {
  Restarts restarts;
  for (int i = 0; i < 1000; ++i) restarts.Add(seconds(i), 5);
  EXPECT_EQ(restarts.n_total(), 1000);
  EXPECT_EQ(restarts.CountSince(seconds(990)), 10);
  EXPECT_LT(restarts.Text(1).size(), 1000u);
}

}  // namespace
}  // namespace holdfast::cli

#include "cli/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/temp_folder.h"

namespace holdfast::cli {
namespace {

using ::testing::HasSubstr;
using Verdict = Finding::Verdict;

TEST(DoctorTest, TheDemoModelFitsAndNothingIsLeftBehind) {
  const TempFolder folder = TempFolder::Create("doctor_test").value();
  DoctorOptions options;
  options.cache.store = folder.path() + "/not/there/yet";
  options.json = true;
  std::ostringstream out;
  ASSERT_TRUE(RunDoctor(options, out).ok()) << out.str();
  std::string subjects;
  const auto json = nlohmann::json::parse(out.str());
  for (const auto& finding : json["findings"]) {
    EXPECT_NE(finding["verdict"], "bad");
    subjects += finding["subject"].get<std::string>() + " ";
  }
  EXPECT_THAT(subjects, HasSubstr("cpu memory limits store model plan "));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(DoctorTest, WhatWouldKeepTheServerFromWorkingIsAnError) {
  const TempFolder folder = TempFolder::Create("doctor_test").value();
  const std::string broken = folder.path() + "/broken.gguf";
  std::ofstream(broken) << "GGUF and no more";
  DoctorOptions options;
  options.model.model = broken;
  options.cache.store = "off";
  std::ostringstream out;
  const Status status = RunDoctor(options, out);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(out.str(), HasSubstr("bad       model       " + broken));

  options.model.model.clear();
  options.cache.memory_limit = "1M";
  std::ostringstream small;
  EXPECT_FALSE(RunDoctor(options, small).ok());
  EXPECT_THAT(small.str(), HasSubstr("bad       plan"));
}

TEST(DoctorTest, LimitsAndDisksAreJudged) {
  EXPECT_EQ(JudgeFileLimit(1 << 20).verdict, Verdict::kGood);
  EXPECT_EQ(JudgeFileLimit(256).verdict, Verdict::kWarning);
  EXPECT_THAT(JudgeFileLimit(256).text, HasSubstr("ulimit -n"));
  const uint64_t gb = 1000 * 1000 * 1000;
  EXPECT_EQ(JudgeStoreFolder("/s", 100 * gb, false, 1e9).verdict, Verdict::kGood);
  EXPECT_THAT(JudgeStoreFolder("/s", 100 * gb, true, 1e9).text, HasSubstr("memory"));
  EXPECT_THAT(JudgeStoreFolder("/s", 1 * gb, false, 1e9).text, HasSubstr("--cache-disk"));
  EXPECT_EQ(JudgeStoreFolder("/s", 100 * gb, false, 1e7).verdict, Verdict::kWarning);
}

}  // namespace
}  // namespace holdfast::cli

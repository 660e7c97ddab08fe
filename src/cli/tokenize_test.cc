#include "cli/tokenize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/temp_folder.h"

namespace holdfast {
namespace {

std::string Tokenize(const std::string& text, bool special, bool json) {
  const TempFolder folder = TempFolder::Create("tokenize").value();
  const std::string path = folder.path() + "/text";
  std::ofstream(path, std::ios::binary) << text;
  std::ostringstream out;
  const Status status = RunTokenize(
      {std::string(HOLDFAST_SOURCE_DIR) + "/tests/fixtures/tinyA-bf16.gguf", path, special, json},
      out);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return out.str();
}

TEST(TokenizeTest, PrintsIdsAsJsonOrWithTheirTexts) {
  EXPECT_EQ(Tokenize("hello world", false, true), "{\"tokens\":[828,1460]}\n");
  EXPECT_EQ(Tokenize("hello world", false, false), "     828  \"hello\"\n    1460  \" world\"\n");
  EXPECT_EQ(Tokenize("", false, true), "{\"tokens\":[]}\n");
}

TEST(TokenizeTest, ControlTokensOnlyWithSpecialAndUserDefinedOnesAlways) {
  EXPECT_EQ(Tokenize("<|im_end|><think>", true, true), "{\"tokens\":[2022,2031]}\n");
  EXPECT_EQ(Tokenize("<|im_end|><think>", false, true),
            "{\"tokens\":[27,91,954,62,702,91,29,2031]}\n");
}

TEST(TokenizeTest, MissingFilesAreNamed) {
  std::ostringstream out;
  EXPECT_EQ(RunTokenize({"/none.gguf", "/none.txt"}, out).code(), StatusCode::kNotFound);
  const Status status = RunTokenize(
      {std::string(HOLDFAST_SOURCE_DIR) + "/tests/fixtures/tinyA-bf16.gguf", "/none.txt"}, out);
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), testing::HasSubstr("/none.txt"));
}

TEST(TokenizeTest, AFolderIsAnError) {
  std::ostringstream out;
  const std::string folder = testing::TempDir();
  const Status status = RunTokenize(
      {std::string(HOLDFAST_SOURCE_DIR) + "/tests/fixtures/tinyA-bf16.gguf", folder}, out);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), testing::HasSubstr(folder));
}

}  // namespace
}  // namespace holdfast

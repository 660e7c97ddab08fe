#include "cli/main.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/temp_folder.h"
#include "cli/find_model.h"
#include "cli/model_options.h"
#include "cli/token_file.h"

namespace holdfast::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Outcome {
  int code = -1;
  std::string out, err;
};

// Main() as a shell would call it, without "holdfast".
Outcome Call(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "holdfast");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.code = Main(static_cast<int>(argv.size()), argv.data());
  outcome.out = ::testing::internal::GetCapturedStdout();
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

TempFolder MakeFolder() { return TempFolder::Create("cli").value(); }

std::string Write(const TempFolder& folder, const std::string& name, const std::string& text) {
  const std::string path = folder.path() + "/" + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(MainTest, HelpIsNotAnError) {
  const Outcome help = Call({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* command :
       {"run", "chat", "serve", "logits", "perplexity", "inspect", "tokenize", "synth"}) {
    EXPECT_THAT(help.out, HasSubstr(command));
    EXPECT_EQ(Call({command, "--help"}).code, 0);
  }
  EXPECT_THAT(Call({"serve", "--help"}).out, HasSubstr("HOLDFAST_SHUTDOWN_TIMEOUT"));
  EXPECT_THAT(Call({"--version"}).out, StartsWith("holdfast "));
}

TEST(MainTest, WrongUsageIsTwoWithOneLine) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{},
                                                    {"nonsense"},
                                                    {"run", "--nonsense"},
                                                    {"serve", "--port", "x"},
                                                    {"logits", "--tokens", "x"},
                                                    {"run", "--threads", "-1"},
                                                    {"run", "-n", "-2"}}) {
    const Outcome outcome = Call(arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, StartsWith("holdfast: "));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST(MainTest, FailuresAreOneWithOneLine) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"run"},
        {"run", "-p", "a", "--tokens", "b"},
        {"run", "--model", "/nonexistent.gguf", "-p", "Hi"},
        {"run", "--kv", "q3", "-p", "Hi"},
        {"run", "--tokens", "/nonexistent.json"},
        {"serve", "--host", "0.0.0.0"},
        {"serve", "--port", "70000"},
        {"inspect", "/nonexistent.gguf"}}) {
    const Outcome outcome = Call(arguments);
    EXPECT_EQ(outcome.code, 1) << arguments.back();
    EXPECT_THAT(outcome.err, StartsWith("holdfast: "));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
}

TEST(MainTest, NumbersThatDoNotFitAreNotTakenForOthers) {
  EXPECT_THAT(Call({"run", "-p", "Hi", "--seed", "18446744073709551616"}).err,
              HasSubstr("--seed: 18446744073709551616 is too large a number"));
  EXPECT_THAT(Call({"run", "-p", "Hi", "--seed", "-1"}).err, HasSubstr("--seed: -1 is below 0"));
  EXPECT_THAT(Call({"run", "-p", "Hi", "--ctx", "9223372036854775808"}).err,
              HasSubstr("--ctx: 9223372036854775808 is too large a number"));
}

TEST(MainTest, FlagsHaveEnvironmentTwins) {
  ::setenv("HOLDFAST_KV", "q3", 1);
  EXPECT_THAT(Call({"run", "-p", "Hi"}).err, HasSubstr("q3"));
  ::setenv("HOLDFAST_MODEL", "/from/environment.gguf", 1);
  EXPECT_THAT(Call({"run", "-p", "Hi", "--kv", "f16"}).err, HasSubstr("/from/environment.gguf"));
  ::unsetenv("HOLDFAST_KV");
  ::unsetenv("HOLDFAST_MODEL");
}

TEST(TokenFileTest, ReadsArraysAndObjectsAndRefusesTheRest) {
  const TempFolder folder = MakeFolder();
  EXPECT_EQ(*ReadTokenFile(Write(folder, "a.json", "[1, 2, 3]")), (std::vector<TokenId>{1, 2, 3}));
  EXPECT_EQ(*ReadTokenFile(Write(folder, "b.json", R"({"tokens":[7]})")), std::vector<TokenId>{7});
  for (const char* text :
       {"", "[]", "{}", "[1.5]", "[\"1\"]", "[-1]", "[99999999999]", "[1", "7"}) {
    const auto tokens = ReadTokenFile(Write(folder, "c.json", text));
    ASSERT_FALSE(tokens.ok()) << text;
    EXPECT_THAT(tokens.status().message(), HasSubstr("c.json")) << text;
  }
  EXPECT_FALSE(ReadTokenFile("/nonexistent.json").ok());
}

TEST(FindModelTest, TheDemoModelIsInTheSourceTree) {
  const Result<std::string> found = FindModel("");
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_TRUE(found->ends_with(kDemoModelFile));
  EXPECT_TRUE(FindSidecar(*found).ends_with("holdfast-demo-mtp.gguf"));
  EXPECT_EQ(*FindModel("x.gguf"), "x.gguf");
}

TEST(FindModelTest, InstalledBinariesLookUnderTheirPrefix) {
  const auto places = DemoModelPlaces("/usr/local/bin/holdfast");
  EXPECT_THAT(places, ::testing::Contains(std::filesystem::path(
                          "/usr/local/share/holdfast/models/holdfast-demo-Q4_K_M.gguf")));
}

TEST(FindModelTest, TheSidecarOfTheLongestPrefixWins) {
  const TempFolder folder = MakeFolder();
  const std::string model = Write(folder, "big-model-Q4_K_M.gguf", "");
  EXPECT_EQ(FindSidecar(model), "");
  const std::string general = Write(folder, "mtp-big.gguf", "");
  EXPECT_EQ(FindSidecar(model), general);
  const std::string exact = Write(folder, "big-model-mtp.gguf", "");
  EXPECT_EQ(FindSidecar(model), exact);
  EXPECT_EQ(FindSidecar(exact), general);  // never itself
}

TEST(ModelOptionsTest, ASidecarThatDoesNotFitIsLeftAloneUnlessAskedFor) {
  const TempFolder folder = MakeFolder();
  const std::string model = folder.path() + "/m-Q4_K_M.gguf";
  std::filesystem::create_symlink(*FindModel(""), model);
  const std::string sidecar = Write(folder, "m-mtp.gguf", "not a model");
  const Result<EngineOptions> found = ToEngineOptions({.model = model});
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->mtp_path, "");
  EXPECT_EQ(ToEngineOptions({.model = model, .mtp = sidecar})->mtp_path, sidecar);
  const Outcome inspect = Call({"inspect", "--no-tensors", model});
  EXPECT_EQ(inspect.code, 0);
  EXPECT_THAT(inspect.out, HasSubstr("no draft head: " + sidecar + " cannot be used: "));

  std::filesystem::remove(sidecar);
  std::filesystem::create_symlink(FindSidecar(*FindModel("")), sidecar);
  EXPECT_EQ(ToEngineOptions({.model = model})->mtp_path, sidecar);
  EXPECT_THAT(Call({"inspect", "--no-tensors", model}).out,
              HasSubstr("draft head             yes"));
}

TEST(ModelOptionsTest, TheModelIdIsTheFilesNameWithoutSplit) {
  EXPECT_EQ(ModelId("/x/Model-IQ3_S-00001-of-00002.gguf"), "Model-IQ3_S");
  EXPECT_EQ(ModelId("demo.gguf"), "demo");
  EXPECT_EQ(ModelId("odd"), "odd");
}

}  // namespace
}  // namespace holdfast::cli

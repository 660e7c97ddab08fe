#include "cli/synth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <string>

#include "weights/gguf.h"
#include "weights/model_config.h"
#include "weights/model_weights.h"

namespace holdfast::cli {
namespace {

using testing::HasSubstr;

class SynthTest : public testing::Test {
 protected:
  SynthTest() : path_(testing::TempDir() + "/synth_test_" + std::to_string(getpid()) + ".gguf") {}
  ~SynthTest() override { std::filesystem::remove(path_); }

  Status Run(SynthOptions options) {
    options.out_path = path_;
    return RunSynth(options, out_);
  }

  std::string path_;
  std::ostringstream out_;
};

TEST_F(SynthTest, OptionsChangeThePresetAndTheFileLoads) {
  SynthOptions options{.preset = "tiny"};
  options.n_layers = 8;
  options.n_experts = 16;
  options.n_experts_used = 3;
  options.vocab_size = 200;
  options.ngram_rows = 100;
  options.types = "experts=Q8_0,down=IQ4_NL";
  options.mtp = true;
  ASSERT_TRUE(Run(options).ok());
  const auto file = GgufFile::Open(path_).value();
  const ModelConfig config = ReadModelConfig(*file).value();
  EXPECT_EQ(config.n_layers, 8);
  EXPECT_EQ(config.n_mtp_layers, 1);
  EXPECT_EQ(config.n_experts, 16);
  EXPECT_EQ(config.n_experts_used, 3);
  EXPECT_EQ(config.vocab_size, 200);
  EXPECT_EQ(config.ple->head_vocab_sizes[0], 101u);
  EXPECT_EQ(file->FindTensor("blk.8.ffn_up_exps.weight")->type, QuantType::kQ8_0);
  EXPECT_EQ(file->FindTensor("blk.0.ffn_down_exps.weight")->type, QuantType::kIQ4_NL);
  EXPECT_THAT(out_.str(), HasSubstr("8 layers, 16 experts"));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".tmp"));
}

TEST_F(SynthTest, ATokenizerComesFromAnotherFile) {
  SynthOptions options{.preset = "tiny"};
  options.tokenizer_path = HOLDFAST_SOURCE_DIR "/models/demo/holdfast-demo-Q4_K_M.gguf";
  ASSERT_TRUE(Run(options).ok());
  const auto file = GgufFile::Open(path_).value();
  EXPECT_EQ(file->GetStrings("tokenizer.ggml.tokens").value().size(), 8192u);
  EXPECT_NE(file->Find("tokenizer.chat_template"), nullptr);
  options.vocab_size = 100;
  EXPECT_THAT(Run(options).message(), HasSubstr("only one of --vocab and --tokenizer"));
}

TEST_F(SynthTest, AModelLargerThanTheDiskIsRefusedBeforeWriting) {
  SynthOptions options;
  options.n_layers = 2;
  options.n_experts = 65536;  // about 400 TB
  const Status status = Run(options);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("GB free"));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(SynthTest, ADeviceIsNotReplacedByAFile) {
  SynthOptions options{.preset = "tiny"};
  options.out_path = path_ + ".fifo";
  ASSERT_EQ(mkfifo(options.out_path.c_str(), 0600), 0);
  EXPECT_THAT(RunSynth(options, out_).message(), HasSubstr("is not a regular file"));
  EXPECT_TRUE(std::filesystem::is_fifo(options.out_path));
  std::filesystem::remove(options.out_path);
}

TEST_F(SynthTest, WrongOptionsAreNamed) {
  SynthOptions options{.preset = "huge"};
  EXPECT_THAT(Run(options).message(), HasSubstr("--preset: found \"huge\""));
  options.preset = "tiny";
  options.n_experts = 0;
  EXPECT_THAT(Run(options).message(), HasSubstr("experts: found 0, wanted 1 to 65536"));
  options = {.preset = "tiny"};
  options.types = "Q9_K";
  EXPECT_THAT(Run(options).message(), HasSubstr("found \"Q9_K\""));
  EXPECT_THAT(RunSynth({}, out_).message(), HasSubstr("wanted OUT.gguf"));
}

}  // namespace
}  // namespace holdfast::cli

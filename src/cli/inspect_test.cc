#include "cli/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>
#include <string>

#include "weights/gguf_writer.h"
#include "weights/synth_model.h"

namespace holdfast::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Inspect(const InspectOptions& options) {
  std::ostringstream out;
  const Status status = RunInspect(options, out);
  return status.ok() ? out.str() : status.ToString();
}

const std::string kDemo = HOLDFAST_SOURCE_DIR "/models/demo/holdfast-demo-Q4_K_M.gguf";
const std::string kDemoMtp = HOLDFAST_SOURCE_DIR "/models/demo/holdfast-demo-mtp.gguf";

TEST(InspectTest, ShowsMetadataTensorsSizesAndTheModelAsUnderstood) {
  InspectOptions options{.model_path = kDemo, .mtp_path = kDemoMtp};
  options.describe_state = [](const ModelConfig& config) {
    return "  state of " + std::to_string(config.layer_kinds.size()) + " layers\n";
  };
  const std::string text = Inspect(options);
  EXPECT_THAT(text, HasSubstr("qwen4exp.block_count                         u32            12\n"));
  EXPECT_THAT(text, HasSubstr("tokenizer.ggml.tokens                        string[8192]"));
  EXPECT_THAT(text, HasSubstr("blk.0.ffn_gate_exps.weight               Q4_K     {256, 256, 12}"));
  EXPECT_THAT(text, HasSubstr("Q4_K       157 tensors"));
  EXPECT_THAT(text, HasSubstr("12  GNGSGGGSGGGS + draft S\n"));
  EXPECT_THAT(text, HasSubstr("state of a conversation\n  state of 13 layers\n"));
  EXPECT_THAT(text, HasSubstr("what would not work\n  nothing: the model loads\n"));
}

TEST(InspectTest, TensorLinesCanBeLeftOut) {
  const std::string text = Inspect({.model_path = kDemo, .list_tensors = false});
  EXPECT_THAT(text, Not(HasSubstr("blk.0.ffn_gate_exps.weight")));
  EXPECT_THAT(text, HasSubstr("all        315 tensors"));
}

TEST(InspectTest, AFileThatDoesNotLoadIsShownWithTheReason) {
  const std::string text = Inspect({.model_path = kDemoMtp});
  EXPECT_THAT(text, HasSubstr("blk.12.nextn.enorm.weight"));
  EXPECT_THAT(text, HasSubstr("does not load: "));
  EXPECT_THAT(text, HasSubstr("no tensor \"token_embd.weight\""));
}

TEST(InspectTest, NamesFromTheFileAreEscapedAndLeftOversNamed) {
  const std::string path =
      testing::TempDir() + "/inspect_test_" + std::to_string(getpid()) + ".gguf";
  GgufWriter writer = MakeSynthModel(TinySynth()).value();
  writer.SetString("general.evil\x1b[2J", "\x1b]0;title\x07");
  const std::vector<std::byte> data(4);
  writer.AddTensor("spare\n", QuantType::kF32, {1}, data);
  ASSERT_TRUE(writer.WriteFile(path).ok());
  const std::string text = Inspect({.model_path = path});
  std::remove(path.c_str());
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_THAT(text, HasSubstr("general.evil\\x1b[2J"));
  EXPECT_THAT(text, HasSubstr("tensor \"spare\\x0a\" is not used\n"));
  EXPECT_THAT(text, HasSubstr("no tokenizer: runs on token ids only\n"));
}

TEST(InspectTest, AMissingFileIsAnError) {
  EXPECT_THAT(Inspect({.model_path = "/no/such.gguf"}), HasSubstr("not found: /no/such.gguf"));
}

}  // namespace
}  // namespace holdfast::cli

#include "weights/synth_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "weights/gguf.h"
#include "weights/model_config.h"
#include "weights/model_weights.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

struct Bound {
  std::vector<std::byte> bytes;
  std::unique_ptr<GgufFile> file;
  ModelConfig config;
  ModelWeights weights;
};

Bound Bind(const SynthSpec& spec, const GgufFile* tokenizer = nullptr) {
  Bound bound;
  bound.bytes = MakeSynthModel(spec, tokenizer).value().ToBytes();
  bound.file = GgufFile::Parse(bound.bytes, "synth").value();
  bound.config = ReadModelConfig(*bound.file).value();
  Result<ModelWeights> weights = BindModelWeights(bound.config, *bound.file);
  EXPECT_TRUE(weights.ok()) << weights.status().ToString();
  if (weights.ok()) bound.weights = std::move(weights).value();
  return bound;
}

TEST(SynthModelTest, ATinyModelBindsWithEveryKindOfLayer) {
  SynthSpec spec = TinySynth();
  spec.mtp = true;
  const Bound bound = Bind(spec);
  EXPECT_LT(bound.bytes.size(), 600u << 10);
  EXPECT_EQ(bound.config.n_layers, 4);
  EXPECT_TRUE(bound.weights.mtp.has_value());
  EXPECT_TRUE(bound.weights.layers[1].ple.has_value());
  EXPECT_TRUE(std::holds_alternative<QsaWeights>(bound.weights.layers[3].mixer));
}

TEST(SynthModelTest, FusedAndSeparateExpertsGiveViewsOfTheSameShape) {
  SynthSpec spec = TinySynth();
  spec.fused_gate_up = true;
  const Bound fused = Bind(spec), separate = Bind(TinySynth());
  const MoeWeights& a = fused.weights.layers[0].moe;
  const MoeWeights& b = separate.weights.layers[0].moe;
  for (const auto& [x, y] : {std::pair(&a.gate, &b.gate), std::pair(&a.up, &b.up)}) {
    EXPECT_EQ(x->n_rows, y->n_rows);
    EXPECT_EQ(x->n_cols, y->n_cols);
    EXPECT_EQ(x->n_mats, y->n_mats);
  }
  // Rows 0..ffn-1 of an expert are gate, the next ffn are up.
  EXPECT_EQ(a.gate.tensor, a.up.tensor);
  EXPECT_EQ(a.up.Row(0, 3) - a.gate.Row(0, 3), spec.expert_ffn * a.gate.row_bytes);
  EXPECT_EQ(a.gate.Row(0, 1) - a.gate.Row(0, 0), 2 * spec.expert_ffn * a.gate.row_bytes);
  EXPECT_EQ(ToFloats(a.up.Mat(2)).size(), static_cast<size_t>(spec.expert_ffn * spec.hidden_size));
}

TEST(SynthModelTest, AMixUsesManyTypesAndBinds) {
  SynthSpec spec = TinySynth();
  spec.hidden_size = 256;
  spec.types = ParseSynthTypes("mix").value();
  const Bound bound = Bind(spec);
  std::set<QuantType> types;
  for (const GgufTensor& tensor : bound.file->tensors()) types.insert(tensor.type);
  EXPECT_GE(types.size(), 27u);
}

TEST(SynthModelTest, SameSeedSameBytes) {
  SynthSpec spec = TinySynth();
  const std::vector<std::byte> first = MakeSynthModel(spec).value().ToBytes();
  EXPECT_EQ(MakeSynthModel(spec).value().ToBytes(), first);
  spec.seed = 2;
  EXPECT_NE(MakeSynthModel(spec).value().ToBytes(), first);
}

TEST(SynthModelTest, TheReleasedHashConstantsComeOutOfTheRule) {
  // Constants of the released model (qwen4exp, section 7.1); nothing is written here.
  SynthSpec spec;
  spec.n_layers = 2;
  const GgufWriter writer = MakeSynthModel(spec).value();
  SynthSpec small = TinySynth();
  small.vocab_size = 248320;
  small.types.embd = QuantType::kQ4_0;
  const Bound bound = Bind(small);
  EXPECT_THAT(bound.config.ple->multipliers,
              testing::ElementsAre(23703573157769, 20109073645365, 8052911324071));
  // 320,001,536 rows of 90 bytes dominate: the released table.
  EXPECT_GT(writer.tensor_bytes(), int64_t{320001536} * 90);
  EXPECT_LT(writer.tensor_bytes(), int64_t{320001536} * 90 + (int64_t{6} << 30));
}

TEST(SynthModelTest, ReleasedDimensionsGiveTheReleasedTensors) {
  SynthSpec spec;
  spec.mtp = true;
  spec.ple_head_rows = 20000000;
  // Every tensor of the published file: 1,224 and 32 for the draft layer (gguf, section 3).
  const GgufWriter writer = MakeSynthModel(spec).value();
  EXPECT_EQ(writer.n_tensors(), 1256);
}

TEST(SynthModelTest, RowsThatDoNotFitFallBackToBlocksOf32) {
  // As the released model: 256 divides the hidden size, but no row of the down projections, of the
  // low-rank matrices or of the n-gram table.
  SynthSpec spec = TinySynth();
  spec.hidden_size = 256;
  spec.types = ParseSynthTypes("experts=Q4_K,down=Q4_K,dense=Q6_K,small=Q6_K,table=Q2_K").value();
  const Bound bound = Bind(spec);
  const auto type = [&](const char* name) { return bound.file->FindTensor(name)->type; };
  EXPECT_EQ(type("blk.0.ffn_gate_exps.weight"), QuantType::kQ4_K);
  EXPECT_EQ(type("blk.0.ffn_down_exps.weight"), QuantType::kQ5_1);
  EXPECT_EQ(type("blk.0.hc_attn_up.weight"), QuantType::kQ8_0);
  EXPECT_EQ(type("per_layer_token_embd.weight"), QuantType::kIQ4_NL);
}

TEST(SynthModelTest, ATokenizerIsCopiedWithItsVocabulary) {
  const auto tokenizer =
      GgufFile::Open(HOLDFAST_SOURCE_DIR "/tests/fixtures/tinyC-mtp-bf16.gguf").value();
  const Bound bound = Bind(TinySynth(), tokenizer.get());
  EXPECT_EQ(bound.config.vocab_size, 2048);
  EXPECT_EQ(bound.config.ple->eos_token_id, 2020);
  EXPECT_EQ(bound.file->GetString("tokenizer.ggml.pre").value(), "qwen35");
  EXPECT_EQ(bound.file->GetStrings("tokenizer.ggml.merges").value(),
            tokenizer->GetStrings("tokenizer.ggml.merges").value());
}

// Over 64 columns, unit variance means a standard deviation of 1/8 for each weight.
TEST(SynthModelTest, MatricesGiveUnitVarianceFromTheHalvedInputsOfSubBlocks) {
  const Bound bound = Bind(TinySynth());
  const WeightView& q = bound.weights.layers[3].qsa().q;
  double squares = 0;
  const std::vector<float> values = ToFloats(q);
  for (float value : values) squares += double{value} * value;
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(values.size()) * 64), 2.0, 0.2);
}

TEST(SynthModelTest, WrongTypesAndSizesAreNamed) {
  EXPECT_THAT(ParseSynthTypes("Q4_X").status().message(), HasSubstr("found \"Q4_X\""));
  EXPECT_THAT(ParseSynthTypes("dense=I32").status().message(), HasSubstr("found \"I32\""));
  EXPECT_THAT(ParseSynthTypes("attn=Q4_K").status().message(), HasSubstr("found \"attn\""));
  SynthSpec spec = TinySynth();
  spec.n_experts_used = 9;
  EXPECT_EQ(MakeSynthModel(spec).status().message(), "experts used: found 9, wanted 1 to 4");
  spec = TinySynth();
  spec.n_layers = 0;
  EXPECT_EQ(MakeSynthModel(spec).status().message(), "layers: found 0, wanted 1 to 1023");
}

}  // namespace
}  // namespace holdfast

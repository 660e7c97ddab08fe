#include "weights/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "weights/gguf.h"
#include "weights/model_weights.h"

namespace holdfast {
namespace {

using testing::Each;
using testing::ElementsAre;

std::unique_ptr<GgufFile> OpenFixture(const std::string& name) {
  return GgufFile::Open(HOLDFAST_SOURCE_DIR "/tests/fixtures/" + name).value();
}
std::unique_ptr<GgufFile> OpenDemo(const std::string& name) {
  return GgufFile::Open(HOLDFAST_SOURCE_DIR "/models/demo/" + name).value();
}

TEST(ModelConfigTest, ReadsEveryHyperParameterOfTinyC) {
  const auto file = OpenFixture("tinyC-mtp-bf16.gguf");
  const Result<ModelConfig> read = ReadModelConfig(*file);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  const ModelConfig& config = *read;
  EXPECT_EQ(config.name, "tinyC");
  EXPECT_EQ(config.n_layers, 4);
  EXPECT_EQ(config.n_mtp_layers, 1);
  EXPECT_EQ(config.context_length, 4096);
  EXPECT_EQ(config.hidden_size, 128);
  EXPECT_EQ(config.vocab_size, 2048);
  EXPECT_EQ(config.rms_eps, 1e-6f);
  EXPECT_THAT(config.layer_kinds, ElementsAre(LayerKind::kGdn, LayerKind::kGdn, LayerKind::kGdn,
                                              LayerKind::kQsa, LayerKind::kQsa));
  EXPECT_EQ(config.n_heads, 4);
  EXPECT_EQ(config.n_kv_heads, 1);
  EXPECT_EQ(config.head_dim, 32);
  EXPECT_EQ(config.n_index_heads, 6);
  EXPECT_EQ(config.index_dim, 32);
  EXPECT_EQ(config.index_budget, 32);
  EXPECT_THAT(config.block_ratio, ElementsAre(0, 0, 0, 4, 4));  // the file says 0 for the last
  EXPECT_EQ(config.rope_dims, 16);
  EXPECT_EQ(config.rope_theta, 1e7f);
  EXPECT_THAT(config.rope_sections, ElementsAre(3, 3, 2, 0));
  EXPECT_EQ(config.gdn_conv_kernel, 4);
  EXPECT_EQ(config.gdn_n_key_heads, 2);
  EXPECT_EQ(config.gdn_n_value_heads, 4);
  EXPECT_EQ(config.gdn_head_dim, 32);
  EXPECT_EQ(config.gdn_value_width(), 128);
  EXPECT_EQ(config.gdn_conv_channels(), 256);
  EXPECT_EQ(config.hc_streams, 4);
  EXPECT_EQ(config.hc_low_rank, 32);
  EXPECT_EQ(config.n_experts, 8);
  EXPECT_EQ(config.n_experts_used, 2);
  EXPECT_EQ(config.expert_ffn, 64);
  EXPECT_EQ(config.shared_ffn, 64);
  ASSERT_TRUE(config.ple.has_value());
  EXPECT_EQ(config.ple->layer, 1);
  EXPECT_EQ(config.ple->ngram_size, 3);
  EXPECT_EQ(config.ple->heads_per_ngram, 8);
  EXPECT_EQ(config.ple->n_heads, 16);
  EXPECT_EQ(config.ple->row_width, 8);
  EXPECT_EQ(config.ple->embedding_width(), 128);
  EXPECT_EQ(config.ple->conv_kernel, 4);
  EXPECT_EQ(config.ple->eos_token_id, 2020);
  EXPECT_THAT(config.ple->multipliers,
              ElementsAre(4295158889771065, 3929419265628323, 1270917961438207));
  EXPECT_EQ(config.ple->head_offsets[15], 8361u);
  EXPECT_EQ(config.ple->head_vocab_sizes[15], 607u);
}

TEST(ModelConfigTest, ZeroRatioPolicyDecidesForLayersThatTheFileCallsDense) {
  const auto file = OpenFixture("tinyC-mtp-bf16.gguf");
  const ModelConfigOptions dense{.zero_ratio_policy = ZeroRatioPolicy::kDense};
  EXPECT_THAT(ReadModelConfig(*file, nullptr, dense).value().block_ratio,
              ElementsAre(0, 0, 0, 4, 0));
}

TEST(ModelConfigTest, ASidecarAddsItsDraftLayer) {
  const auto trunk = OpenDemo("holdfast-demo-Q4_K_M.gguf");
  const auto sidecar = OpenDemo("holdfast-demo-mtp.gguf");
  const ModelConfig alone = ReadModelConfig(*trunk).value();
  EXPECT_EQ(alone.n_mtp_layers, 0);
  EXPECT_EQ(alone.layer_kinds.size(), 12u);
  const Result<ModelConfig> both = ReadModelConfig(*trunk, sidecar.get());
  ASSERT_TRUE(both.ok()) << both.status().ToString();
  EXPECT_EQ(both->n_layers, 12);
  EXPECT_EQ(both->n_mtp_layers, 1);
  EXPECT_EQ(both->layer_kinds.back(), LayerKind::kQsa);
  EXPECT_EQ(both->block_ratio.back(), 4);
  EXPECT_EQ(both->vocab_size, 8192);
}

TEST(ModelConfigTest, ASidecarOfAnotherModelOrAloneIsRefused) {
  const auto trunk = OpenDemo("holdfast-demo-Q4_K_M.gguf");
  const auto foreign = OpenFixture("mtp-tinyC-bf16.gguf");
  EXPECT_THAT(ReadModelConfig(*trunk, foreign.get()).status().message(),
              testing::HasSubstr("the number of trunk layers is 4, the model's is 12"));
  EXPECT_THAT(ReadModelConfig(*trunk, trunk.get()).status().message(),
              testing::HasSubstr("nextn_predict_layers\": found 0, wanted 1"));
  const auto sidecar = OpenDemo("holdfast-demo-mtp.gguf");
  EXPECT_THAT(ReadModelConfig(*sidecar).status().message(),
              testing::HasSubstr("no tensor \"token_embd.weight\""));
}

TEST(ModelWeightsTest, BindsEveryTensorOfEveryShippedModel) {
  struct Case {
    std::unique_ptr<GgufFile> trunk, sidecar;
  };
  Case cases[] = {{OpenFixture("tinyA-bf16.gguf"), nullptr},
                  {OpenFixture("tinyA-mix.gguf"), nullptr},
                  {OpenFixture("tinyC-mtp-bf16.gguf"), nullptr},
                  {OpenFixture("tinyC-mtp-bf16.gguf"), OpenFixture("mtp-tinyC-bf16.gguf")},
                  {OpenDemo("holdfast-demo-Q4_K_M.gguf"), OpenDemo("holdfast-demo-mtp.gguf")}};
  for (const Case& c : cases) {
    const ModelConfig config = ReadModelConfig(*c.trunk, c.sidecar.get()).value();
    const Result<ModelWeights> weights = BindModelWeights(config, *c.trunk, c.sidecar.get());
    ASSERT_TRUE(weights.ok()) << c.trunk->name() << ": " << weights.status().ToString();
    ASSERT_EQ(weights->layers.size(), static_cast<size_t>(config.n_layers));
    EXPECT_EQ(weights->mtp.has_value(), config.n_mtp_layers == 1);
    for (size_t i = 0; i < weights->layers.size(); ++i) {
      const LayerWeights& layer = weights->layers[i];
      EXPECT_EQ(layer.ple.has_value(), config.ple->layer == static_cast<int>(i));
      EXPECT_EQ(std::holds_alternative<GdnWeights>(layer.mixer),
                config.layer_kinds[i] == LayerKind::kGdn);
      EXPECT_EQ(layer.moe.down.n_mats, config.n_experts);
      EXPECT_EQ(layer.moe.down.n_cols, config.expert_ffn);
      EXPECT_EQ(layer.moe.shared_gate.n_rows, 1);
    }
    EXPECT_EQ(weights->output.name, "output.weight");
    // Nothing of the file is left over.
    std::set<const GgufTensor*> bound;
    for (const WeightView& view : AllViews(*weights)) bound.insert(view.tensor);
    for (const GgufTensor& tensor : c.trunk->tensors()) {
      // tinyC's own draft layer, where the sidecar's is used.
      if (c.sidecar != nullptr && config.n_layers == 4 && tensor.name.starts_with("blk.4."))
        continue;
      EXPECT_TRUE(bound.contains(&tensor)) << tensor.name;
    }
  }
}

TEST(ModelWeightsTest, ExpertViewsAreTheSlicesOfTheTensor) {
  const auto file = OpenFixture("tinyC-mtp-bf16.gguf");
  const ModelWeights weights = BindModelWeights(ReadModelConfig(*file).value(), *file).value();
  const WeightView& down = weights.layers[2].moe.down;
  const WeightView expert = down.Mat(5);
  EXPECT_EQ(expert.n_mats, 1);
  EXPECT_EQ(expert.data, down.tensor->data.data() + 5 * (down.tensor->data.size() / 8));
  EXPECT_EQ(expert.Row(3), down.Row(3, 5));
  EXPECT_EQ(expert.ScaleOf(0), 1.0f);
  // ToFloats() of one expert is that part of the whole.
  const std::vector<float> all = ToFloats(down), one = ToFloats(expert);
  ASSERT_EQ(one.size(), 64u * 128);
  EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + 5 * 64 * 128));
}

TEST(ModelWeightsTest, NormGainsAreThoseOfTheFile) {
  const auto file = OpenFixture("tinyC-mtp-bf16.gguf");
  const ModelWeights weights = BindModelWeights(ReadModelConfig(*file).value(), *file).value();
  const std::vector<float> gain = ToFloats(weights.output_hc.norm);
  ASSERT_EQ(gain.size(), 512u);
  EXPECT_THAT(gain, Each(testing::AllOf(testing::Gt(0.0f), testing::Lt(3.0f))));  // 1 + w
}

}  // namespace
}  // namespace holdfast

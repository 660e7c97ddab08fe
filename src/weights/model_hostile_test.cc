// Well-formed files with hyper-parameters or tensors that no model can have: each is refused with a
// message that names key or tensor, what was found and what was wanted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "weights/gguf.h"
#include "weights/gguf_writer.h"
#include "weights/model_config.h"
#include "weights/model_weights.h"
#include "weights/synth_model.h"

namespace holdfast {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::vector<std::byte> TinyModel(bool mtp) {
  SynthSpec spec = TinySynth();
  spec.mtp = mtp;
  return MakeSynthModel(spec).value().ToBytes();
}

// A tiny good model with some keys and tensors replaced or left out.
class EditedModel {
 public:
  using Setter = std::function<void(GgufWriter*, const std::string& key)>;

  explicit EditedModel(bool mtp = false) {
    static const std::vector<std::byte> trunk_bytes = TinyModel(false), mtp_bytes = TinyModel(true);
    base_ = GgufFile::Parse(mtp ? mtp_bytes : trunk_bytes, "base").value();
  }
  EditedModel& Key(const std::string& key, Setter setter) {
    keys_[key] = std::move(setter);
    return *this;
  }
  EditedModel& NoKey(const std::string& key) {
    return Key(key, [](GgufWriter*, const std::string&) {});
  }
  EditedModel& U32(const std::string& key, uint32_t value) {
    return Key(key, [value](GgufWriter* w, const std::string& k) { w->SetU32(k, value); });
  }
  EditedModel& F32(const std::string& key, float value) {
    return Key(key, [value](GgufWriter* w, const std::string& k) { w->SetF32(k, value); });
  }
  EditedModel& String(const std::string& key, const std::string& value) {
    return Key(key, [value](GgufWriter* w, const std::string& k) { w->SetString(k, value); });
  }
  EditedModel& Ints(const std::string& key, std::vector<int64_t> values) {
    return Key(key, [values](GgufWriter* w, const std::string& k) {
      w->SetInts(k, GgufType::kI64, values);
    });
  }
  EditedModel& Uint64s(const std::string& key, std::vector<uint64_t> values) {
    return Key(key, [values](GgufWriter* w, const std::string& k) { w->SetUint64s(k, values); });
  }
  // Another tensor of that name, of zeros; no dimensions: none.
  EditedModel& Tensor(const std::string& name, QuantType type, std::vector<int64_t> ne) {
    tensors_[name] = {type, std::move(ne)};
    return *this;
  }

  const GgufFile& file() {
    GgufWriter writer;
    for (const GgufValue& value : base_->values()) {
      const auto it = keys_.find(std::string(value.key()));
      if (it == keys_.end()) {
        writer.SetValue(value);
      } else {
        it->second(&writer, it->first);
        keys_.erase(it);
      }
    }
    for (const auto& [key, setter] : keys_) setter(&writer, key);
    for (const GgufTensor& tensor : base_->tensors()) {
      if (tensors_.contains(tensor.name)) continue;
      writer.AddTensor(tensor.name, tensor.type,
                       {tensor.ne.begin(), tensor.ne.begin() + tensor.n_dims}, tensor.data);
    }
    static const std::vector<std::byte> zeros(1 << 20);
    for (const auto& [name, tensor] : tensors_) {
      if (!tensor.second.empty()) writer.AddTensor(name, tensor.first, tensor.second, zeros);
    }
    bytes_ = writer.ToBytes();
    file_ = GgufFile::Parse(bytes_, "bad.gguf").value();
    return *file_;
  }

  // Of reading the config, or else of binding the weights.
  std::string Error() {
    const GgufFile& gguf = file();
    const Result<ModelConfig> config = ReadModelConfig(gguf);
    if (!config.ok()) return config.status().message();
    const Result<ModelWeights> weights = BindModelWeights(*config, gguf);
    return weights.ok() ? "no error" : weights.status().message();
  }

 private:
  std::vector<std::byte> bytes_;
  std::unique_ptr<GgufFile> base_, file_;
  std::map<std::string, Setter> keys_;
  std::map<std::string, std::pair<QuantType, std::vector<int64_t>>> tensors_;
};

TEST(ModelHostileTest, TheUneditedModelIsGood) {
  EXPECT_EQ(EditedModel().Error(), "no error");
  EXPECT_EQ(EditedModel(true).Error(), "no error");
}

TEST(ModelHostileTest, AnotherArchitecture) {
  EXPECT_EQ(EditedModel().String("general.architecture", "llama").Error(),
            "bad.gguf: key \"general.architecture\": found \"llama\", wanted \"qwen4exp\"");
  EXPECT_EQ(EditedModel().U32("general.architecture", 7).Error(),
            "bad.gguf: key \"general.architecture\": found u32 7, wanted a string");
}

TEST(ModelHostileTest, EveryRequiredKeyMissing) {
  for (const char* key : {"general.architecture",
                          "qwen4exp.block_count",
                          "qwen4exp.context_length",
                          "qwen4exp.embedding_length",
                          "qwen4exp.attention.head_count",
                          "qwen4exp.attention.head_count_kv",
                          "qwen4exp.attention.key_length",
                          "qwen4exp.attention.value_length",
                          "qwen4exp.attention.layer_norm_rms_epsilon",
                          "qwen4exp.attention.indexer.head_count",
                          "qwen4exp.attention.indexer.key_length",
                          "qwen4exp.attention.indexer.top_k",
                          "qwen4exp.rope.dimension_count",
                          "qwen4exp.rope.freq_base",
                          "qwen4exp.ssm.conv_kernel",
                          "qwen4exp.ssm.state_size",
                          "qwen4exp.ssm.group_count",
                          "qwen4exp.ssm.time_step_rank",
                          "qwen4exp.ssm.inner_size",
                          "qwen4exp.hyper_connection.count",
                          "qwen4exp.hyper_connection.low_rank",
                          "qwen4exp.expert_count",
                          "qwen4exp.expert_used_count",
                          "qwen4exp.expert_feed_forward_length",
                          "qwen4exp.expert_shared_feed_forward_length",
                          "qwen4exp.ple.ngram_size",
                          "qwen4exp.ple.heads_per_ngram",
                          "qwen4exp.ple.conv_kernel",
                          "qwen4exp.ple.eos_token_id",
                          "qwen4exp.embedding_length_per_layer_input",
                          "qwen4exp.ple.layer_multipliers",
                          "qwen4exp.ple.head_offsets",
                          "qwen4exp.ple.head_vocab_sizes"}) {
    EXPECT_EQ(EditedModel().NoKey(key).Error(), "bad.gguf: no key \"" + std::string(key) + "\"");
  }
}

// Integer keys at 0, -1 (as u32) and 2^31, and as another type: never accepted, always named.
TEST(ModelHostileTest, EveryCountOutOfItsRange) {
  for (const char* key : {"qwen4exp.block_count",
                          "qwen4exp.context_length",
                          "qwen4exp.embedding_length",
                          "qwen4exp.attention.head_count",
                          "qwen4exp.attention.head_count_kv",
                          "qwen4exp.attention.key_length",
                          "qwen4exp.attention.value_length",
                          "qwen4exp.attention.indexer.head_count",
                          "qwen4exp.attention.indexer.key_length",
                          "qwen4exp.attention.indexer.top_k",
                          "qwen4exp.rope.dimension_count",
                          "qwen4exp.ssm.conv_kernel",
                          "qwen4exp.ssm.state_size",
                          "qwen4exp.ssm.group_count",
                          "qwen4exp.ssm.time_step_rank",
                          "qwen4exp.ssm.inner_size",
                          "qwen4exp.hyper_connection.count",
                          "qwen4exp.hyper_connection.low_rank",
                          "qwen4exp.expert_count",
                          "qwen4exp.expert_used_count",
                          "qwen4exp.expert_feed_forward_length",
                          "qwen4exp.expert_shared_feed_forward_length",
                          "qwen4exp.ple.ngram_size",
                          "qwen4exp.ple.heads_per_ngram",
                          "qwen4exp.ple.conv_kernel",
                          "qwen4exp.embedding_length_per_layer_input"}) {
    const std::string quoted = "\"" + std::string(key) + "\"";
    EXPECT_THAT(EditedModel().U32(key, 0).Error(),
                AllOf(HasSubstr(quoted), HasSubstr("found 0, wanted")));
    EXPECT_THAT(EditedModel().U32(key, 0xffffffffu).Error(),
                AllOf(HasSubstr(quoted), HasSubstr("found 4294967295, wanted")));
    const auto minus_one = [](GgufWriter* w, const std::string& k) {
      w->SetInt(k, GgufType::kI64, std::numeric_limits<int64_t>::min());
    };
    EXPECT_THAT(EditedModel().Key(key, minus_one).Error(),
                AllOf(HasSubstr(quoted), HasSubstr("found -9223372036854775808, wanted")));
    EXPECT_THAT(EditedModel().String(key, "4").Error(),
                AllOf(HasSubstr(quoted), HasSubstr("found string \"4\"")));
    EXPECT_THAT(EditedModel().F32(key, 4.0f).Error(),
                AllOf(HasSubstr(quoted), HasSubstr("found f32 4, wanted an integer")));
  }
}

TEST(ModelHostileTest, NumbersThatContradictEachOther) {
  EXPECT_EQ(EditedModel().U32("qwen4exp.attention.head_count_kv", 3).Error(),
            "bad.gguf: key \"qwen4exp.attention.head_count_kv\": found 3, wanted a divisor of the "
            "2 heads");
  EXPECT_EQ(EditedModel().U32("qwen4exp.attention.value_length", 64).Error(),
            "bad.gguf: key \"qwen4exp.attention.value_length\": found 64, wanted 32 as "
            "attention.key_length");
  EXPECT_EQ(EditedModel().U32("qwen4exp.expert_used_count", 5).Error(),
            "bad.gguf: key \"qwen4exp.expert_used_count\": found 5, wanted 1 to 4");
  EXPECT_EQ(EditedModel().U32("qwen4exp.rope.dimension_count", 34).Error(),
            "bad.gguf: key \"qwen4exp.rope.dimension_count\": found 34, wanted 2 to 32");
  EXPECT_EQ(EditedModel().U32("qwen4exp.rope.dimension_count", 15).Error(),
            "bad.gguf: key \"qwen4exp.rope.dimension_count\": found 15, wanted an even number");
  EXPECT_EQ(EditedModel().U32("qwen4exp.ssm.inner_size", 65).Error(),
            "bad.gguf: key \"qwen4exp.ssm.inner_size\": found 65, wanted ssm.time_step_rank * "
            "ssm.state_size = 64");
  EXPECT_EQ(EditedModel().U32("qwen4exp.ssm.group_count", 4).Error(),
            "bad.gguf: key \"qwen4exp.ssm.time_step_rank\": found 2, wanted a multiple of "
            "ssm.group_count 4");
  EXPECT_EQ(
      EditedModel().U32("qwen4exp.attention.indexer.top_k", 3).Error(),
      "bad.gguf: key \"qwen4exp.attention.indexer.top_k\": found 3 tokens, wanted at least one "
      "block of 4 (layer 3)");
  EXPECT_EQ(EditedModel().U32("qwen4exp.nextn_predict_layers", 2).Error(),
            "bad.gguf: key \"qwen4exp.nextn_predict_layers\": found 2, wanted 0 to 1");
  EXPECT_THAT(
      EditedModel().U32("qwen4exp.block_count", 1).U32("qwen4exp.nextn_predict_layers", 1).Error(),
      HasSubstr("\"qwen4exp.block_count\": found 1 with 1 draft layers in it"));
}

TEST(ModelHostileTest, FloatsOutOfRange) {
  for (const float value : {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity()}) {
    EXPECT_THAT(EditedModel().F32("qwen4exp.attention.layer_norm_rms_epsilon", value).Error(),
                HasSubstr("\"qwen4exp.attention.layer_norm_rms_epsilon\": found"));
    EXPECT_THAT(EditedModel().F32("qwen4exp.rope.freq_base", value).Error(),
                HasSubstr("\"qwen4exp.rope.freq_base\": found"));
  }
}

TEST(ModelHostileTest, RopeScalingIsRefusedNotIgnored) {
  EXPECT_EQ(
      EditedModel().String("qwen4exp.rope.scaling.type", "yarn").Error(),
      "bad.gguf: key \"qwen4exp.rope.scaling.type\": found \"yarn\", wanted \"none\": scaled rope "
      "is not supported");
  EXPECT_EQ(EditedModel().F32("qwen4exp.rope.scaling.factor", 4.0f).Error(),
            "bad.gguf: key \"qwen4exp.rope.scaling.factor\": found 4, wanted 1: scaled rope is not "
            "supported");
  EXPECT_EQ(EditedModel().String("qwen4exp.rope.scaling.type", "none").Error(), "no error");
  EXPECT_EQ(EditedModel().Ints("qwen4exp.rope.dimension_sections", {1, 2}).Error(),
            "bad.gguf: key \"qwen4exp.rope.dimension_sections\": 2 elements, wanted 3 or 4");
  EXPECT_THAT(EditedModel().Ints("qwen4exp.rope.dimension_sections", {1, -2, 3}).Error(),
              HasSubstr("element 1 is -2"));
}

TEST(ModelHostileTest, PerLayerArraysOfTheWrongLength) {
  EXPECT_EQ(EditedModel().Ints("qwen4exp.attention.recurrent_layers", {1, 1, 1}).Error(),
            "bad.gguf: key \"qwen4exp.attention.recurrent_layers\": 3 elements, wanted 4");
  EXPECT_EQ(EditedModel().Ints("qwen4exp.attention.compress_ratios", {0, 0, 0, 4, 4}).Error(),
            "bad.gguf: key \"qwen4exp.attention.compress_ratios\": 5 elements, wanted 4");
  EXPECT_EQ(
      EditedModel().Ints("qwen4exp.attention.compress_ratios", {0, 0, 0, 257}).Error(),
      "bad.gguf: key \"qwen4exp.attention.compress_ratios\": element 3 is 257, wanted 0 to 256");
  EXPECT_EQ(EditedModel().Ints("qwen4exp.attention.recurrent_layers", {1, 1, 2, 0}).Error(),
            "bad.gguf: key \"qwen4exp.attention.recurrent_layers\": element 2 is 2, wanted 0 to 1");
  EXPECT_EQ(EditedModel().Ints("qwen4exp.attention.head_count", {2, 2, 2}).Error(),
            "bad.gguf: key \"qwen4exp.attention.head_count\": 3 elements, wanted one for each of 4 "
            "layers");
  EXPECT_EQ(EditedModel().Ints("qwen4exp.attention.head_count", {0, 2, 0, 4}).Error(),
            "bad.gguf: key \"qwen4exp.attention.head_count\": element 3 is 4, an earlier one is 2; "
            "wanted the same in all layers");
  EXPECT_EQ(EditedModel().Ints("qwen4exp.attention.head_count", {0, 0, 0, 2}).Error(), "no error");
}

TEST(ModelHostileTest, LayerKindsThatTheTensorsContradict) {
  EXPECT_THAT(EditedModel().Ints("qwen4exp.attention.recurrent_layers", {1, 1, 1, 1}).Error(),
              HasSubstr("no tensor \"blk.3.attn_qkv.weight\""));
  // Without the array the interval of the file decides, and it is right.
  EXPECT_EQ(EditedModel().NoKey("qwen4exp.attention.recurrent_layers").Error(), "no error");
  EXPECT_THAT(EditedModel()
                  .U32("qwen4exp.block_count", 5)
                  .NoKey("qwen4exp.attention.recurrent_layers")
                  .NoKey("qwen4exp.attention.compress_ratios")
                  .Error(),
              HasSubstr("no tensor \"blk.4.hc_attn_norm.weight\""));
}

TEST(ModelHostileTest, VocabulariesThatDoNotAgree) {
  const auto tokens = [](GgufWriter* w, const std::string& key) {
    w->SetStrings(key, std::vector<std::string>(95, "x"));
  };
  EXPECT_EQ(
      EditedModel().Key("tokenizer.ggml.tokens", tokens).Error(),
      "bad.gguf: key \"tokenizer.ggml.tokens\": 95 tokens, but \"token_embd.weight\" has 96 rows");
  EXPECT_THAT(EditedModel().U32("tokenizer.ggml.tokens", 96).Error(),
              HasSubstr("\"tokenizer.ggml.tokens\": found u32 96, wanted an array of strings"));
  EXPECT_EQ(
      EditedModel().U32("qwen4exp.vocab_size", 97).Error(),
      "bad.gguf: key \"qwen4exp.vocab_size\": 97 tokens, but \"token_embd.weight\" has 96 rows");
}

TEST(ModelHostileTest, NgramHashesThatCouldLeaveTheirTable) {
  EXPECT_EQ(
      EditedModel().Ints("qwen4exp.ple.layers", {1, 2}).Error(),
      "bad.gguf: key \"qwen4exp.ple.layers\": 2 PLE layers, wanted 1: the format has one table and "
      "one set of hash keys");
  EXPECT_EQ(EditedModel().Ints("qwen4exp.ple.layers", {4}).Error(),
            "bad.gguf: key \"qwen4exp.ple.layers\": element 0 is 4, wanted 0 to 3");
  EXPECT_EQ(EditedModel().Ints("qwen4exp.ple.layers", {3}).Error(),
            "bad.gguf: key \"qwen4exp.ple.layers\": layer 3 has attention, wanted a gated delta "
            "net layer");
  EXPECT_EQ(EditedModel().U32("qwen4exp.ple.eos_token_id", 96).Error(),
            "bad.gguf: key \"qwen4exp.ple.eos_token_id\": found 96, wanted 0 to 95");
  EXPECT_EQ(EditedModel().Uint64s("qwen4exp.ple.layer_multipliers", {1, 3}).Error(),
            "bad.gguf: key \"qwen4exp.ple.layer_multipliers\": 2 elements, wanted 3");
  EXPECT_EQ(
      EditedModel().Uint64s("qwen4exp.ple.layer_multipliers", {1, 3, UINT64_MAX}).Error(),
      "bad.gguf: key \"qwen4exp.ple.layer_multipliers\": element 2 is 18446744073709551615, wanted "
      "at most 96076792050570581");
  EXPECT_EQ(EditedModel().Uint64s("qwen4exp.ple.head_vocab_sizes", {53, 0}).Error(),
            "bad.gguf: key \"qwen4exp.ple.head_vocab_sizes\": element 1 is 0, wanted 1 or more");
  EXPECT_EQ(EditedModel().Uint64s("qwen4exp.ple.head_vocab_sizes", {53, 59, 61}).Error(),
            "bad.gguf: key \"qwen4exp.ple.head_vocab_sizes\": 3 elements, wanted 2");
  EXPECT_EQ(
      EditedModel().Uint64s("qwen4exp.ple.head_offsets", {0, 100}).Error(),
      "bad.gguf: key \"qwen4exp.ple.head_offsets\": element 1 is 100, with 59 rows; the table has "
      "128");
  EXPECT_THAT(EditedModel().Uint64s("qwen4exp.ple.head_offsets", {0, UINT64_MAX}).Error(),
              HasSubstr("element 1 is 18446744073709551615, with 59 rows; the table has 128"));
  EXPECT_THAT(EditedModel().Ints("qwen4exp.ple.layer_multipliers", {1, -3, 5}).Error(),
              HasSubstr("element 1 is -3, wanted 0 or more"));
}

TEST(ModelHostileTest, EveryTensorMissingIsNamed) {
  EditedModel good(true);
  for (const GgufTensor& tensor : good.file().tensors()) {
    if (tensor.name == "output.weight") continue;  // tied to token_embd then
    const std::string error = EditedModel(true).Tensor(tensor.name, tensor.type, {}).Error();
    EXPECT_THAT(error, HasSubstr("no tensor \"" + tensor.name + "\""));
  }
}

TEST(ModelHostileTest, EveryTensorOfAnotherShapeIsNamedWithBothShapes) {
  EditedModel good(true);
  for (const GgufTensor& tensor : good.file().tensors()) {
    std::vector<int64_t> ne(tensor.ne.begin(), tensor.ne.begin() + tensor.n_dims);
    ne.back() += 1;
    const std::string error = EditedModel(true).Tensor(tensor.name, QuantType::kF32, ne).Error();
    if (tensor.name == "per_layer_token_embd.weight") {
      EXPECT_EQ(error, "no error");  // more padding rows
    } else if (tensor.name == "token_embd.weight") {
      EXPECT_THAT(error, HasSubstr("has 97 rows"));  // the vocabulary is known otherwise
    } else {
      EXPECT_THAT(error, AllOf(HasSubstr("tensor \"" + tensor.name + "\": found shape {"),
                               HasSubstr("wanted {")));
    }
  }
}

TEST(ModelHostileTest, PrunedExpertsMustAgreeEverywhere) {
  EXPECT_EQ(EditedModel().U32("qwen4exp.expert_count", 3).Error(),
            "bad.gguf: tensor \"blk.0.ffn_gate_inp.weight\": found shape {64, 4}, wanted {64, 3}");
  EXPECT_EQ(
      EditedModel().Tensor("blk.2.ffn_down_exps.weight", QuantType::kF32, {32, 64, 3}).Error(),
      "bad.gguf: tensor \"blk.2.ffn_down_exps.weight\": found shape {32, 64, 3}, wanted {32, 64, "
      "4}");
}

TEST(ModelHostileTest, IntegerTensorsAreNoWeights) {
  EXPECT_EQ(EditedModel().Tensor("blk.0.ssm_a", QuantType::kI32, {2}).Error(),
            "bad.gguf: tensor \"blk.0.ssm_a\": type I32 is not a weight format");
  EXPECT_EQ(EditedModel().Tensor("blk.0.attn_gate.weight", QuantType::kQ8_1, {64, 64}).Error(),
            "bad.gguf: tensor \"blk.0.attn_gate.weight\": type Q8_1 is not a weight format");
}

TEST(ModelHostileTest, AFusedQkvOfAttentionIsRefusedWithTheReason) {
  EXPECT_THAT(
      EditedModel()
          .Tensor("blk.3.attn_q.weight", QuantType::kF32, {})
          .Tensor("blk.3.attn_qkv.weight", QuantType::kF32, {64, 192})
          .Error(),
      HasSubstr("\"blk.3.attn_qkv.weight\": a fused q, k and v of an attention layer is not "
                "supported"));
}

TEST(ModelHostileTest, ScalesOfTheWrongShapeOrType) {
  EXPECT_EQ(EditedModel().Tensor("blk.0.ffn_up_exps.scale", QuantType::kF32, {3}).Error(),
            "bad.gguf: tensor \"blk.0.ffn_up_exps.scale\": found F32 {3}, wanted F32 {1} or {4}");
  EXPECT_EQ(EditedModel().Tensor("blk.0.ffn_up_exps.scale", QuantType::kF16, {4}).Error(),
            "bad.gguf: tensor \"blk.0.ffn_up_exps.scale\": found F16 {4}, wanted F32 {1} or {4}");
}

// Forms that published files really use.
TEST(ModelHostileTest, AllowedVariantsBind) {
  EXPECT_EQ(EditedModel().Tensor("output.weight", QuantType::kF32, {}).Error(), "no error");
  EXPECT_EQ(EditedModel().Tensor("blk.0.hc_attn_norm.weight", QuantType::kF32, {64, 4}).Error(),
            "no error");
  EXPECT_EQ(
      EditedModel().Tensor("blk.0.ffn_gate_inp_shexp.weight", QuantType::kQ8_0, {64, 1}).Error(),
      "no error");
  EXPECT_EQ(EditedModel().Tensor("blk.1.ple_conv1d.weight", QuantType::kBF16, {4, 256}).Error(),
            "no error");
  EXPECT_EQ(EditedModel().Tensor("blk.0.ssm_conv1d.weight", QuantType::kF16, {4, 128}).Error(),
            "no error");
  EXPECT_EQ(EditedModel()
                .Tensor("blk.0.ffn_up_exps.scale", QuantType::kF32, {4})
                .Tensor("blk.0.attn_gate.scale", QuantType::kF32, {1})
                .Error(),
            "no error");
}

TEST(ModelHostileTest, ScalesReadBackForEachExpert) {
  SynthSpec spec = TinySynth();
  GgufWriter writer = MakeSynthModel(spec).value();
  const std::vector<float> scales = {0.5f, 1.5f, 2.5f, 3.5f};
  writer.AddTensor("blk.0.ffn_up_exps.scale", QuantType::kF32, {4},
                   std::as_bytes(std::span(scales)));
  const std::vector<std::byte> bytes = writer.ToBytes();
  const auto file = GgufFile::Parse(bytes, "scaled").value();
  const ModelWeights weights = BindModelWeights(ReadModelConfig(*file).value(), *file).value();
  const WeightView& up = weights.layers[0].moe.up;
  EXPECT_EQ(up.n_scales, 4);
  EXPECT_EQ(up.ScaleOf(2), 2.5f);
  EXPECT_EQ(up.Mat(3).ScaleOf(0), 3.5f);
  EXPECT_EQ(weights.layers[0].moe.gate.ScaleOf(2), 1.0f);
}

// compress_ratios of only zeros although there are indexers (seen in the wild).
TEST(ModelHostileTest, ZeroRatiosFollowThePolicy) {
  EditedModel model;
  model.Ints("qwen4exp.attention.compress_ratios", {0, 0, 0, 0});
  const GgufFile& file = model.file();
  EXPECT_EQ(ReadModelConfig(file).value().block_ratio[3], 4);
  const ModelConfigOptions dense{.zero_ratio_policy = ZeroRatioPolicy::kDense};
  EXPECT_EQ(ReadModelConfig(file, nullptr, dense).value().block_ratio[3], 0);
}

// A sidecar whose own mixer goes by the trunk's name.
TEST(ModelHostileTest, BothNamingsOfTheDraftMixerBindInASidecar) {
  SynthSpec spec = TinySynth();
  const std::vector<std::byte> trunk_bytes = MakeSynthModel(spec).value().ToBytes();
  const auto trunk = GgufFile::Parse(trunk_bytes, "trunk").value();
  spec.mtp = true;
  const std::vector<std::byte> full_bytes = MakeSynthModel(spec).value().ToBytes();
  const auto full = GgufFile::Parse(full_bytes, "full").value();
  for (const bool trunk_naming : {false, true}) {
    GgufWriter writer;
    for (const GgufValue& value : full->values()) writer.SetValue(value);
    for (const GgufTensor& tensor : full->tensors()) {
      if (!tensor.name.starts_with("blk.4.")) continue;
      std::string name = tensor.name;
      const std::string mixer = "blk.4.nextn.hc_head";
      if (trunk_naming && name.starts_with(mixer)) name = "output_hc" + name.substr(mixer.size());
      writer.AddTensor(name, tensor.type, {tensor.ne.begin(), tensor.ne.begin() + tensor.n_dims},
                       tensor.data);
    }
    const std::vector<std::byte> bytes = writer.ToBytes();
    const auto sidecar = GgufFile::Parse(bytes, "sidecar").value();
    const ModelConfig config = ReadModelConfig(*trunk, sidecar.get()).value();
    const Result<ModelWeights> weights = BindModelWeights(config, *trunk, sidecar.get());
    ASSERT_TRUE(weights.ok()) << weights.status().ToString();
    EXPECT_EQ(weights->mtp->output_hc.norm.name,
              trunk_naming ? "output_hc_norm.weight" : "blk.4.nextn.hc_head_norm.weight");
    EXPECT_EQ(weights->mtp->output_hc.norm.tensor,
              sidecar->FindTensor(weights->mtp->output_hc.norm.name));
    EXPECT_EQ(weights->output_hc.norm.tensor, trunk->FindTensor("output_hc_norm.weight"));
    EXPECT_EQ(weights->mtp->output.tensor, trunk->FindTensor("output.weight"));
  }
}

}  // namespace
}  // namespace holdfast

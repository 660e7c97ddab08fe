#include "weights/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "weights/gguf.h"

namespace holdfast {
namespace {

// Limits of each hyper-parameter, far above every published model and low enough that no product of
// two or three of them overflows int64.
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxContext = int64_t{1} << 31;
constexpr int64_t kMaxHidden = 1 << 17;
constexpr int64_t kMaxVocab = 1 << 24;
constexpr int64_t kMaxHeads = 1024;
constexpr int64_t kMaxHeadDim = 4096;
constexpr int64_t kMaxBlockRatio = 256;
constexpr int64_t kMaxConvKernel = 16;
constexpr int64_t kMaxStreams = 16;
constexpr int64_t kMaxExperts = 1 << 16;
constexpr int64_t kMaxFfn = 1 << 20;
constexpr int64_t kMaxNgram = 8;
constexpr int64_t kMaxNgramHeads = 256;
constexpr int64_t kDefaultFullAttentionInterval = 4;  // of the released model

// Keys of the architecture's own part, with its prefix.
std::string Key(std::string_view name) { return fmt::format("qwen4exp.{}", name); }

class ConfigReader {
 public:
  ConfigReader(const GgufFile& file, const ModelConfigOptions& options)
      : file_(file), options_(options) {}

  Result<ModelConfig> Read() {
    HF_RETURN_IF_ERROR(CheckArchitecture());
    HF_RETURN_IF_ERROR(ReadSizes());
    HF_RETURN_IF_ERROR(ReadVocabSize());
    HF_RETURN_IF_ERROR(ReadLayerKinds());
    HF_RETURN_IF_ERROR(ReadAttention());
    HF_RETURN_IF_ERROR(ReadRope());
    HF_RETURN_IF_ERROR(ReadGdn());
    HF_RETURN_IF_ERROR(ReadHcAndMoe());
    HF_RETURN_IF_ERROR(ReadBlockRatios());
    HF_RETURN_IF_ERROR(ReadPle());
    return std::move(config_);
  }

 private:
  // One integer key into an int or int64_t field.
  template <typename T>
  Status Read(std::string_view name, int64_t low, int64_t high, T* out) const {
    HF_ASSIGN_OR_RETURN(const int64_t value, file_.GetInt(Key(name), low, high));
    *out = static_cast<T>(value);
    return OkStatus();
  }

  Status Wrong(std::string_view key, std::string_view found_and_wanted) const {
    return InvalidArgumentError(
        fmt::format("{}: key {}: {}", file_.name(), Quoted(Key(key)), found_and_wanted));
  }

  // An integer, or an array of one per block that says the same for every block it applies to.
  Status ReadPerLayer(std::string_view name, int64_t high, int* out) const {
    HF_ASSIGN_OR_RETURN(const GgufValue* value, file_.Require(Key(name)));
    if (!value->is_array()) return Read(name, 1, high, out);
    HF_ASSIGN_OR_RETURN(const std::vector<int64_t> values, file_.GetInts(Key(name), 0, high));
    if (values.size() < static_cast<size_t>(config_.n_layers)) {
      return Wrong(name, fmt::format("{} elements, wanted one for each of {} layers", values.size(),
                                     config_.n_layers));
    }
    // Layers without attention may say 0.
    int64_t common = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] == 0 || values[i] == common) continue;
      if (common != 0) {
        return Wrong(
            name,
            fmt::format("element {} is {}, an earlier one is {}; wanted the same in all layers", i,
                        values[i], common));
      }
      common = values[i];
    }
    if (common == 0) return Wrong(name, "all elements are 0, wanted 1 or more");
    *out = static_cast<int>(common);
    return OkStatus();
  }

  Status CheckArchitecture() const {
    HF_ASSIGN_OR_RETURN(const std::string_view architecture,
                        file_.GetString("general.architecture"));
    if (architecture == "qwen4exp") return OkStatus();
    return UnimplementedError(
        fmt::format("{}: key \"general.architecture\": found {}, wanted \"qwen4exp\"", file_.name(),
                    Quoted(architecture)));
  }

  Status ReadSizes() {
    HF_ASSIGN_OR_RETURN(const std::string_view name, file_.GetStringOr("general.name", ""));
    config_.name = name;
    int64_t n_blocks = 0;
    HF_RETURN_IF_ERROR(Read("block_count", 1, kMaxLayers, &n_blocks));
    HF_ASSIGN_OR_RETURN(const int64_t n_mtp, file_.GetIntOr(Key("nextn_predict_layers"), 0, 1, 0));
    if (n_mtp >= n_blocks) {
      return Wrong("block_count",
                   fmt::format("found {} with {} draft layers in it, wanted at least one more",
                               n_blocks, n_mtp));
    }
    config_.n_mtp_layers = static_cast<int>(n_mtp);
    config_.n_layers = static_cast<int>(n_blocks - n_mtp);
    HF_RETURN_IF_ERROR(Read("context_length", 1, kMaxContext, &config_.context_length));
    HF_RETURN_IF_ERROR(Read("embedding_length", 1, kMaxHidden, &config_.hidden_size));
    HF_ASSIGN_OR_RETURN(const double eps,
                        file_.GetFloat(Key("attention.layer_norm_rms_epsilon"), 1e-12, 1e-1));
    config_.rms_eps = static_cast<float>(eps);
    return OkStatus();
  }

  // Rows of token_embd; token list and vocab_size must agree with it. A draft sidecar may have none
  // of them.
  Status ReadVocabSize() {
    const GgufTensor* embd = file_.FindTensor("token_embd.weight");
    if (embd != nullptr) config_.vocab_size = embd->ne[1];
    const auto agree = [&](std::string_view key, int64_t size) -> Status {
      if (config_.vocab_size == 0) config_.vocab_size = size;
      if (config_.vocab_size == size) return OkStatus();
      return InvalidArgumentError(
          fmt::format("{}: key {}: {} tokens, but \"token_embd.weight\" has {} rows", file_.name(),
                      Quoted(key), size, config_.vocab_size));
    };
    if (const GgufValue* tokens = file_.Find("tokenizer.ggml.tokens"); tokens != nullptr) {
      if (!tokens->is_array()) return file_.GetStrings("tokenizer.ggml.tokens").status();
      HF_RETURN_IF_ERROR(agree("tokenizer.ggml.tokens", static_cast<int64_t>(tokens->count())));
    }
    if (file_.Find(Key("vocab_size")) != nullptr) {
      HF_ASSIGN_OR_RETURN(const int64_t size, file_.GetInt(Key("vocab_size"), 1, kMaxVocab));
      HF_RETURN_IF_ERROR(agree(Key("vocab_size"), size));
    }
    if (config_.vocab_size > kMaxVocab) {
      return OutOfRangeError(
          fmt::format("{}: tensor \"token_embd.weight\": {} rows, the limit is {}", file_.name(),
                      config_.vocab_size, kMaxVocab));
    }
    return OkStatus();
  }

  Status ReadLayerKinds() {
    const auto n_layers = static_cast<size_t>(config_.n_layers);
    const size_t n_blocks = n_layers + static_cast<size_t>(config_.n_mtp_layers);
    config_.layer_kinds.assign(n_blocks, LayerKind::kQsa);  // a draft layer is always one
    if (const GgufValue* value = file_.Find(Key("attention.recurrent_layers")); value != nullptr) {
      HF_ASSIGN_OR_RETURN(const std::vector<int64_t> recurrent,
                          file_.GetInts(Key("attention.recurrent_layers"), 0, 1));
      HF_RETURN_IF_ERROR(CheckPerBlock("attention.recurrent_layers", recurrent.size()));
      for (size_t i = 0; i < n_layers; ++i) {
        if (recurrent[i] == 1) config_.layer_kinds[i] = LayerKind::kGdn;
      }
      return OkStatus();
    }
    HF_ASSIGN_OR_RETURN(const int64_t interval,
                        file_.GetIntOr(Key("full_attention_interval"), 1, kMaxLayers,
                                       kDefaultFullAttentionInterval));
    for (size_t i = 0; i < n_layers; ++i) {
      if ((static_cast<int64_t>(i) + 1) % interval != 0) config_.layer_kinds[i] = LayerKind::kGdn;
    }
    return OkStatus();
  }

  // One element for each block, or for each trunk layer.
  Status CheckPerBlock(std::string_view name, size_t n) const {
    const auto n_layers = static_cast<size_t>(config_.n_layers);
    if (n == n_layers || n == n_layers + static_cast<size_t>(config_.n_mtp_layers))
      return OkStatus();
    return Wrong(name, fmt::format("{} elements, wanted {}", n,
                                   n_layers + static_cast<size_t>(config_.n_mtp_layers)));
  }

  Status ReadAttention() {
    HF_RETURN_IF_ERROR(ReadPerLayer("attention.head_count", kMaxHeads, &config_.n_heads));
    HF_RETURN_IF_ERROR(ReadPerLayer("attention.head_count_kv", kMaxHeads, &config_.n_kv_heads));
    if (config_.n_heads % config_.n_kv_heads != 0) {
      return Wrong("attention.head_count_kv",
                   fmt::format("found {}, wanted a divisor of the {} heads", config_.n_kv_heads,
                               config_.n_heads));
    }
    HF_RETURN_IF_ERROR(Read("attention.key_length", 1, kMaxHeadDim, &config_.head_dim));
    int value_length = 0;
    HF_RETURN_IF_ERROR(Read("attention.value_length", 1, kMaxHeadDim, &value_length));
    if (value_length != config_.head_dim) {
      return Wrong("attention.value_length",
                   fmt::format("found {}, wanted {} as attention.key_length", value_length,
                               config_.head_dim));
    }
    HF_RETURN_IF_ERROR(Read("attention.indexer.head_count", 1, kMaxHeads, &config_.n_index_heads));
    HF_RETURN_IF_ERROR(Read("attention.indexer.key_length", 1, kMaxHeadDim, &config_.index_dim));
    return Read("attention.indexer.top_k", 1, kMaxContext, &config_.index_budget);
  }

  Status ReadRope() {
    // Rotations must fit a head of the attention and of the indexer.
    const int64_t max_dims = std::min(config_.head_dim, config_.index_dim);
    HF_RETURN_IF_ERROR(Read("rope.dimension_count", 2, max_dims, &config_.rope_dims));
    if (config_.rope_dims % 2 != 0) {
      return Wrong("rope.dimension_count",
                   fmt::format("found {}, wanted an even number", config_.rope_dims));
    }
    HF_ASSIGN_OR_RETURN(const double theta, file_.GetFloat(Key("rope.freq_base"), 1.0, 1e12));
    config_.rope_theta = static_cast<float>(theta);
    if (file_.Find(Key("rope.dimension_sections")) != nullptr) {
      HF_ASSIGN_OR_RETURN(const std::vector<int64_t> sections,
                          file_.GetInts(Key("rope.dimension_sections"), 0, max_dims));
      if (sections.size() < 3 || sections.size() > 4) {
        return Wrong("rope.dimension_sections",
                     fmt::format("{} elements, wanted 3 or 4", sections.size()));
      }
      for (size_t i = 0; i < sections.size(); ++i)
        config_.rope_sections[i] = static_cast<int>(sections[i]);
    }
    HF_ASSIGN_OR_RETURN(const std::string_view scaling,
                        file_.GetStringOr(Key("rope.scaling.type"), "none"));
    if (scaling != "none") {
      return UnimplementedError(
          fmt::format("{}: key {}: found {}, wanted \"none\": scaled rope is not supported",
                      file_.name(), Quoted(Key("rope.scaling.type")), Quoted(scaling)));
    }
    // A factor without a type means linear scaling to other engines.
    HF_ASSIGN_OR_RETURN(const double factor,
                        file_.GetFloatOr(Key("rope.scaling.factor"), 0.0, 1e9, 1.0));
    if (factor == 0.0 || factor == 1.0) return OkStatus();
    return UnimplementedError(
        fmt::format("{}: key {}: found {}, wanted 1: scaled rope is not supported", file_.name(),
                    Quoted(Key("rope.scaling.factor")), factor));
  }

  Status ReadGdn() {
    HF_RETURN_IF_ERROR(Read("ssm.conv_kernel", 1, kMaxConvKernel, &config_.gdn_conv_kernel));
    HF_RETURN_IF_ERROR(Read("ssm.state_size", 1, kMaxHeadDim, &config_.gdn_head_dim));
    HF_RETURN_IF_ERROR(Read("ssm.group_count", 1, kMaxHeads, &config_.gdn_n_key_heads));
    HF_RETURN_IF_ERROR(Read("ssm.time_step_rank", 1, kMaxHeads, &config_.gdn_n_value_heads));
    if (config_.gdn_n_value_heads % config_.gdn_n_key_heads != 0) {
      return Wrong("ssm.time_step_rank",
                   fmt::format("found {}, wanted a multiple of ssm.group_count {}",
                               config_.gdn_n_value_heads, config_.gdn_n_key_heads));
    }
    int64_t inner_size = 0;
    HF_RETURN_IF_ERROR(Read("ssm.inner_size", 1, kMaxHeads * kMaxHeadDim, &inner_size));
    if (inner_size != config_.gdn_value_width()) {
      return Wrong("ssm.inner_size",
                   fmt::format("found {}, wanted ssm.time_step_rank * ssm.state_size = {}",
                               inner_size, config_.gdn_value_width()));
    }
    return OkStatus();
  }

  Status ReadHcAndMoe() {
    HF_RETURN_IF_ERROR(Read("hyper_connection.count", 1, kMaxStreams, &config_.hc_streams));
    HF_RETURN_IF_ERROR(Read("hyper_connection.low_rank", 1, kMaxHidden, &config_.hc_low_rank));
    HF_RETURN_IF_ERROR(Read("expert_count", 1, kMaxExperts, &config_.n_experts));
    HF_RETURN_IF_ERROR(Read("expert_used_count", 1, config_.n_experts, &config_.n_experts_used));
    HF_RETURN_IF_ERROR(Read("expert_feed_forward_length", 1, kMaxFfn, &config_.expert_ffn));
    return Read("expert_shared_feed_forward_length", 1, kMaxFfn, &config_.shared_ffn);
  }

  bool HasIndexer(size_t layer) const {
    return file_.FindTensor(fmt::format("blk.{}.indexer.k_proj.weight", layer)) != nullptr;
  }

  Status ReadBlockRatios() {
    const auto n_layers = static_cast<size_t>(config_.n_layers);
    config_.block_ratio.assign(config_.layer_kinds.size(), 0);
    if (file_.Find(Key("attention.compress_ratios")) != nullptr) {
      HF_ASSIGN_OR_RETURN(const std::vector<int64_t> ratios,
                          file_.GetInts(Key("attention.compress_ratios"), 0, kMaxBlockRatio));
      HF_RETURN_IF_ERROR(CheckPerBlock("attention.compress_ratios", ratios.size()));
      for (size_t i = 0; i < ratios.size(); ++i) {
        if (config_.layer_kinds[i] == LayerKind::kQsa)
          config_.block_ratio[i] = static_cast<int>(ratios[i]);
      }
    }
    const int max_trunk =
        *std::max_element(config_.block_ratio.begin(),
                          config_.block_ratio.begin() + static_cast<ptrdiff_t>(n_layers));
    if (options_.zero_ratio_policy == ZeroRatioPolicy::kBlocksOf4) {
      // All zeros although there are indexers: a converter that did not know the layers' new name.
      if (max_trunk == 0) {
        for (size_t i = 0; i < n_layers; ++i) {
          if (config_.layer_kinds[i] == LayerKind::kQsa && HasIndexer(i))
            config_.block_ratio[i] = 4;
        }
      }
      // Files usually say 0 for the draft layer; it was trained like the trunk's.
      for (size_t i = n_layers; i < config_.block_ratio.size(); ++i) {
        if (config_.block_ratio[i] == 0 && HasIndexer(i))
          config_.block_ratio[i] = max_trunk > 0 ? max_trunk : 4;
      }
    }
    for (size_t i = 0; i < config_.block_ratio.size(); ++i) {
      if (config_.block_ratio[i] > config_.index_budget) {
        return Wrong("attention.indexer.top_k",
                     fmt::format("found {} tokens, wanted at least one block of {} (layer {})",
                                 config_.index_budget, config_.block_ratio[i], i));
      }
    }
    return OkStatus();
  }

  Status ReadPle() {
    if (file_.Find(Key("ple.layers")) == nullptr) return OkStatus();
    HF_ASSIGN_OR_RETURN(const std::vector<int64_t> layers,
                        file_.GetInts(Key("ple.layers"), 0, config_.n_layers - 1));
    if (layers.empty()) return OkStatus();
    if (layers.size() > 1) {
      return UnimplementedError(fmt::format(
          "{}: key {}: {} PLE layers, wanted 1: the format has one table and one set of hash keys",
          file_.name(), Quoted(Key("ple.layers")), layers.size()));
    }
    PleConfig ple;
    ple.layer = static_cast<int>(layers[0]);
    if (config_.layer_kinds[static_cast<size_t>(ple.layer)] != LayerKind::kGdn) {
      return Wrong(
          "ple.layers",
          fmt::format("layer {} has attention, wanted a gated delta net layer", ple.layer));
    }
    HF_RETURN_IF_ERROR(Read("ple.ngram_size", 2, kMaxNgram, &ple.ngram_size));
    HF_RETURN_IF_ERROR(Read("ple.heads_per_ngram", 1, kMaxNgramHeads, &ple.heads_per_ngram));
    ple.n_heads = (ple.ngram_size - 1) * ple.heads_per_ngram;
    HF_RETURN_IF_ERROR(Read("embedding_length_per_layer_input", 1, kMaxHidden, &ple.row_width));
    HF_RETURN_IF_ERROR(Read("ple.conv_kernel", 1, kMaxConvKernel, &ple.conv_kernel));
    const int64_t max_token = config_.vocab_size > 0 ? config_.vocab_size - 1 : kMaxVocab - 1;
    HF_RETURN_IF_ERROR(Read("ple.eos_token_id", 0, max_token, &ple.eos_token_id));
    HF_RETURN_IF_ERROR(ReadHash(&ple));
    config_.ple = std::move(ple);
    return OkStatus();
  }

  Status ReadHash(PleConfig* ple) const {
    const auto read = [&](std::string_view name, int n, std::vector<uint64_t>* out) -> Status {
      HF_ASSIGN_OR_RETURN(*out, file_.GetUint64s(Key(name)));
      if (out->size() == static_cast<size_t>(n)) return OkStatus();
      return Wrong(name, fmt::format("{} elements, wanted {}", out->size(), n));
    };
    HF_RETURN_IF_ERROR(read("ple.layer_multipliers", ple->ngram_size, &ple->multipliers));
    HF_RETURN_IF_ERROR(read("ple.head_offsets", ple->n_heads, &ple->head_offsets));
    HF_RETURN_IF_ERROR(read("ple.head_vocab_sizes", ple->n_heads, &ple->head_vocab_sizes));
    // So that id * multiplier never wraps, and signed and unsigned hashes are the same.
    const uint64_t max_multiplier =
        INT64_MAX / static_cast<uint64_t>(std::max<int64_t>(1, config_.vocab_size));
    for (size_t i = 0; i < ple->multipliers.size(); ++i) {
      if (ple->multipliers[i] <= max_multiplier) continue;
      return Wrong("ple.layer_multipliers", fmt::format("element {} is {}, wanted at most {}", i,
                                                        ple->multipliers[i], max_multiplier));
    }
    // Every row a head can name must be in the table.
    const GgufTensor* table = file_.FindTensor("per_layer_token_embd.weight");
    const uint64_t n_rows = table != nullptr ? static_cast<uint64_t>(table->ne[1]) : INT64_MAX;
    for (size_t i = 0; i < ple->head_offsets.size(); ++i) {
      uint64_t end = 0;
      if (ple->head_vocab_sizes[i] < 1)
        return Wrong("ple.head_vocab_sizes", fmt::format("element {} is 0, wanted 1 or more", i));
      if (__builtin_add_overflow(ple->head_offsets[i], ple->head_vocab_sizes[i], &end) ||
          end > n_rows) {
        return Wrong("ple.head_offsets",
                     fmt::format("element {} is {}, with {} rows; the table has {}", i,
                                 ple->head_offsets[i], ple->head_vocab_sizes[i], n_rows));
      }
    }
    return OkStatus();
  }

  const GgufFile& file_;
  const ModelConfigOptions& options_;
  ModelConfig config_;
};

// The hyper-parameters that a draft layer shares with its trunk.
Status CheckSidecar(const ModelConfig& trunk, const ModelConfig& sidecar, const std::string& name) {
  const auto same = [&](std::string_view what, int64_t found, int64_t wanted) -> Status {
    if (found == wanted) return OkStatus();
    return InvalidArgumentError(
        fmt::format("{}: {} is {}, the model's is {}: a draft head of another model", name, what,
                    found, wanted));
  };
  HF_RETURN_IF_ERROR(same("the number of trunk layers", sidecar.n_layers, trunk.n_layers));
  HF_RETURN_IF_ERROR(same("embedding_length", sidecar.hidden_size, trunk.hidden_size));
  if (sidecar.vocab_size != 0) {
    HF_RETURN_IF_ERROR(same("the vocabulary", sidecar.vocab_size, trunk.vocab_size));
  }
  HF_RETURN_IF_ERROR(same("attention.head_count", sidecar.n_heads, trunk.n_heads));
  HF_RETURN_IF_ERROR(same("attention.head_count_kv", sidecar.n_kv_heads, trunk.n_kv_heads));
  HF_RETURN_IF_ERROR(same("attention.key_length", sidecar.head_dim, trunk.head_dim));
  HF_RETURN_IF_ERROR(
      same("attention.indexer.head_count", sidecar.n_index_heads, trunk.n_index_heads));
  HF_RETURN_IF_ERROR(same("attention.indexer.key_length", sidecar.index_dim, trunk.index_dim));
  HF_RETURN_IF_ERROR(same("attention.indexer.top_k", sidecar.index_budget, trunk.index_budget));
  HF_RETURN_IF_ERROR(same("rope.dimension_count", sidecar.rope_dims, trunk.rope_dims));
  HF_RETURN_IF_ERROR(same("rope.freq_base", static_cast<int64_t>(sidecar.rope_theta),
                          static_cast<int64_t>(trunk.rope_theta)));
  HF_RETURN_IF_ERROR(same("hyper_connection.count", sidecar.hc_streams, trunk.hc_streams));
  HF_RETURN_IF_ERROR(same("hyper_connection.low_rank", sidecar.hc_low_rank, trunk.hc_low_rank));
  HF_RETURN_IF_ERROR(same("expert_count", sidecar.n_experts, trunk.n_experts));
  HF_RETURN_IF_ERROR(same("expert_used_count", sidecar.n_experts_used, trunk.n_experts_used));
  HF_RETURN_IF_ERROR(same("expert_feed_forward_length", sidecar.expert_ffn, trunk.expert_ffn));
  return same("expert_shared_feed_forward_length", sidecar.shared_ffn, trunk.shared_ffn);
}

}  // namespace

Result<ModelConfig> ReadModelConfig(const GgufFile& trunk, const GgufFile* mtp_sidecar,
                                    const ModelConfigOptions& options) {
  HF_ASSIGN_OR_RETURN(ModelConfig config, ConfigReader(trunk, options).Read());
  if (config.vocab_size == 0) {
    return NotFoundError(trunk.name() +
                         ": no tensor \"token_embd.weight\" (a draft sidecar alone?)");
  }
  if (mtp_sidecar == nullptr) return config;
  HF_ASSIGN_OR_RETURN(const ModelConfig sidecar, ConfigReader(*mtp_sidecar, options).Read());
  if (sidecar.n_mtp_layers != 1) {
    return InvalidArgumentError(
        fmt::format("{}: key {}: found {}, wanted 1 in a draft sidecar", mtp_sidecar->name(),
                    Quoted(Key("nextn_predict_layers")), sidecar.n_mtp_layers));
  }
  HF_RETURN_IF_ERROR(CheckSidecar(config, sidecar, mtp_sidecar->name()));
  const auto n_layers = static_cast<size_t>(config.n_layers);
  config.n_mtp_layers = 1;
  config.layer_kinds.resize(n_layers);
  config.layer_kinds.push_back(LayerKind::kQsa);
  config.block_ratio.resize(n_layers);
  config.block_ratio.push_back(sidecar.block_ratio[n_layers]);
  return config;
}

}  // namespace holdfast

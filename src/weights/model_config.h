#ifndef HOLDFAST_WEIGHTS_MODEL_CONFIG_H_
#define HOLDFAST_WEIGHTS_MODEL_CONFIG_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace holdfast {

class GgufFile;

// The hashed n-gram embedding (PLE) of the one layer that has it.
struct PleConfig {
  int layer = 0;                       // a GDN layer of the trunk
  int ngram_size = 0;                  // longest n-gram; also the dilation of the PLE convolution
  int heads_per_ngram = 0;             // table heads for each order 2..ngram_size
  int n_heads = 0;                     // (ngram_size - 1) * heads_per_ngram
  int row_width = 0;                   // values per table row
  int conv_kernel = 0;                 // taps
  int32_t eos_token_id = 0;            // cuts the context of the hash; not the end of a turn
  std::vector<uint64_t> multipliers;   // [ngram_size], each <= (2^63 - 1) / vocab_size
  std::vector<uint64_t> head_offsets;  // [n_heads] first table row of a head
  std::vector<uint64_t> head_vocab_sizes;  // [n_heads] rows of a head, >= 1

  // Values of a token's gathered rows, the input of ple_key and ple_value.
  int64_t embedding_width() const { return int64_t{n_heads} * row_width; }
};

enum class LayerKind { kGdn, kQsa };

// What compress_ratios of only zeros mean in a file that has indexer tensors: blocks of 4 tokens as
// the reference implementation reads it, or dense attention as llama.cpp does.
enum class ZeroRatioPolicy { kBlocksOf4, kDense };

struct ModelConfigOptions {
  ZeroRatioPolicy zero_ratio_policy = ZeroRatioPolicy::kBlocksOf4;
};

// The hyper-parameters of a qwen4exp model, range-checked and consistent with each other. Sizes of
// tensors are checked against it when the weights are bound (model_weights.h).
struct ModelConfig {
  std::string name;
  int n_layers = 0;      // trunk only
  int n_mtp_layers = 0;  // 0 or 1
  int64_t context_length = 0;
  int64_t hidden_size = 0;
  int64_t vocab_size = 0;  // rows of token_embd
  float rms_eps = 0;
  std::vector<LayerKind> layer_kinds;  // [n_layers + n_mtp_layers]

  // Sparse attention.
  int n_heads = 0, n_kv_heads = 0, head_dim = 0;
  int n_index_heads = 0, index_dim = 0;
  int64_t index_budget = 0;      // tokens
  std::vector<int> block_ratio;  // [n_layers + n_mtp_layers] tokens per block; 0: dense, or GDN
  int rope_dims = 0;             // rotated dims of each head, even
  float rope_theta = 0;
  std::array<int, 4> rope_sections = {0, 0, 0, 0};

  // Gated delta net. Key and value head dim are equal (ssm.state_size).
  int gdn_conv_kernel = 0, gdn_n_key_heads = 0, gdn_n_value_heads = 0, gdn_head_dim = 0;

  // Hyper-connections.
  int hc_streams = 0, hc_low_rank = 0;

  // Mixture of experts.
  int n_experts = 0, n_experts_used = 0;
  int64_t expert_ffn = 0, shared_ffn = 0;

  std::optional<PleConfig> ple;

  int64_t gdn_key_width() const { return int64_t{gdn_n_key_heads} * gdn_head_dim; }
  int64_t gdn_value_width() const { return int64_t{gdn_n_value_heads} * gdn_head_dim; }
  // q | k | v.
  int64_t gdn_conv_channels() const { return 2 * gdn_key_width() + gdn_value_width(); }
  // All streams of one token.
  int64_t hc_width() const { return hc_streams * hidden_size; }
};

// Reads the configuration of `trunk`. When `mtp_sidecar` is given its draft layer is used instead
// of one in the trunk file, and its hyper-parameters must agree with the trunk's. Errors: kNotFound
// for a missing key, kInvalidArgument for a wrong one, kOutOfRange for one beyond its limits,
// kUnimplemented for what this engine does not do (rope scaling, several PLE layers).
Result<ModelConfig> ReadModelConfig(const GgufFile& trunk, const GgufFile* mtp_sidecar = nullptr,
                                    const ModelConfigOptions& options = {});

}  // namespace holdfast

#endif  // HOLDFAST_WEIGHTS_MODEL_CONFIG_H_

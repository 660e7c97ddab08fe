#ifndef HOLDFAST_WEIGHTS_SYNTH_MODEL_H_
#define HOLDFAST_WEIGHTS_SYNTH_MODEL_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "weights/gguf.h"
#include "weights/gguf_writer.h"
#include "weights/quant_type.h"

namespace holdfast {

// The type of each class of tensors. Where a row length does not fit it, a type of 32-value blocks
// takes its place (Q5_1, Q8_0 or IQ4_NL), then F16; norms, gates of the delta net, convolutions and
// routers are F32 as converters write them. Empty: a different type for each tensor in turn.
struct SynthTypes {
  std::optional<QuantType> experts = QuantType::kQ4_K;  // ffn_gate_exps, ffn_up_exps
  std::optional<QuantType> down = QuantType::kQ5_1;     // ffn_down_exps
  std::optional<QuantType> dense = QuantType::kQ6_K;    // attention, delta net, shared expert, PLE
  std::optional<QuantType> small = QuantType::kQ8_0;    // hyper-connections, ssm gates, indexer
  std::optional<QuantType> embd = QuantType::kQ6_K;     // token_embd and output
  std::optional<QuantType> table = QuantType::kIQ4_NL;  // n-gram table
};

// "Q4_K", or "experts=Q4_K,down=Q5_1,dense=Q6_K,small=BF16,embd=Q6_K,table=IQ4_NL" (any of them,
// the rest stay), each a type or "mix".
Result<SynthTypes> ParseSynthTypes(std::string_view text);

// The dimensions of a model with random weights; the defaults are the released model's.
struct SynthSpec {
  int n_layers = 48;  // trunk; every full_attention_interval-th is sparse attention
  int full_attention_interval = 4;
  bool mtp = false;  // a draft layer at the end
  int64_t context_length = 262144;
  int64_t vocab_size = 248320;  // ignored when a tokenizer is given
  int64_t hidden_size = 2560;
  int n_heads = 24, n_kv_heads = 2, head_dim = 256;
  int n_index_heads = 4, index_dim = 128;
  int64_t index_budget = 2048;
  int block_ratio = 4;
  int rope_dims = 64;
  int gdn_n_key_heads = 16, gdn_n_value_heads = 48, gdn_head_dim = 128, gdn_conv_kernel = 4;
  int hc_streams = 4, hc_low_rank = 320;
  int n_experts = 512, n_experts_used = 10;
  int64_t expert_ffn = 640, shared_ffn = 640;
  bool fused_gate_up = false;  // ffn_gate_up_exps instead of two tensors
  bool ple = true;
  int ngram_size = 3, heads_per_ngram = 8, ple_row_width = 160, ple_conv_kernel = 4;
  int64_t ple_head_rows = 20000000;  // each n-gram head has the next prime of rows from here on
  SynthTypes types;
  uint64_t seed = 1;

  // kInvalidArgument naming the field, the value found and the value wanted.
  Status Validate() const;
};

// The released dimensions with 8 layers, 64 experts and an n-gram table of 20,000 rows a head:
// 3.2 GB that load a machine as the real layers do, most of them embeddings and experts.
SynthSpec FlashNext8x64();
// A few hundred kilobytes with every kind of layer, for tests: 4 layers, hidden size 64.
SynthSpec TinySynth();

// Metadata and tensors of the model, ready to be written; weights are made while writing. Scales
// are such that every sub-block gives values of order one, as a trained model does. The tokenizer
// is copied from `tokenizer` when given; else `tokenizer.ggml.model` is "none".
Result<GgufWriter> MakeSynthModel(const SynthSpec& spec, const GgufFile* tokenizer = nullptr);

}  // namespace holdfast

#endif  // HOLDFAST_WEIGHTS_SYNTH_MODEL_H_

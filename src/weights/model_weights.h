#ifndef HOLDFAST_WEIGHTS_MODEL_WEIGHTS_H_
#define HOLDFAST_WEIGHTS_MODEL_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "weights/gguf.h"
#include "weights/model_config.h"
#include "weights/quant_type.h"

namespace holdfast {

// A tensor, or a rectangular piece of one, seen as n_mats matrices of n_rows rows of n_cols stored
// values. A view: the GgufFile owns the bytes.
struct WeightView {
  const GgufTensor* tensor = nullptr;  // null: the model has no such tensor
  std::string_view name;
  QuantType type = QuantType::kF32;
  // `data` is a backend's own copy in a form of its own: only its products may read the rows.
  bool repacked = false;
  int64_t n_cols = 0, n_rows = 0, n_mats = 0;
  const std::byte* data = nullptr;  // first row of the first matrix
  int64_t row_bytes = 0;
  int64_t mat_bytes = 0;  // from one matrix to the next; rows of one matrix are contiguous
  // Second-level scales (`<tensor>.scale`, NVFP4): one f32 for all matrices or one for each. They
  // multiply the product W x, not the weights. Null: none.
  const std::byte* scale = nullptr;
  int64_t n_scales = 0;

  bool exists() const { return tensor != nullptr; }
  const std::byte* Row(int64_t row, int64_t mat = 0) const {
    return data + mat * mat_bytes + row * row_bytes;
  }
  // Matrix `mat` alone (an expert), with its scale.
  WeightView Mat(int64_t mat) const;
  // The second-level scale of matrix `mat`; 1 when there is none.
  float ScaleOf(int64_t mat) const;
};

// All values decoded to f32, in file order. For small tensors (norms, convolutions, gates).
std::vector<float> ToFloats(const WeightView& view);

// Hyper-connection of one sub-block; the final mixer has no inject.
struct HcWeights {
  WeightView norm;    // [streams * hidden]
  WeightView down;    // [low_rank][streams * hidden]
  WeightView up;      // [streams * hidden][low_rank]
  WeightView inject;  // [streams][streams * hidden]
};

struct GdnWeights {
  WeightView qkv;      // [conv_channels][hidden]
  WeightView gate;     // [value_width][hidden]
  WeightView beta;     // [n_value_heads][hidden]
  WeightView alpha;    // [n_value_heads][hidden]
  WeightView a;        // [n_value_heads], -exp(A_log)
  WeightView dt_bias;  // [n_value_heads]
  WeightView conv;     // [conv_channels][conv_kernel], last tap is the current token
  WeightView norm;     // [head_dim]
  WeightView out;      // [hidden][value_width]
};

struct QsaWeights {
  WeightView q;       // [n_heads * 2 * head_dim][hidden], per head query then gate
  WeightView k, v;    // [n_kv_heads * head_dim][hidden]
  WeightView out;     // [hidden][n_heads * head_dim]
  WeightView q_norm;  // [head_dim]
  WeightView k_norm;  // [head_dim]
  // All four exist, or none (then block_ratio is 0).
  WeightView index_q;       // [n_index_heads * index_dim][hidden]
  WeightView index_k;       // [index_dim][hidden]
  WeightView index_q_norm;  // [index_dim]
  WeightView index_k_norm;  // [index_dim]
};

// Expert e of a 3-D tensor is Mat(e). Separate gate and up tensors and the fused one look the same.
struct MoeWeights {
  WeightView router;                       // [n_experts][hidden]
  WeightView gate, up;                     // n_experts x [expert_ffn][hidden]
  WeightView down;                         // n_experts x [hidden][expert_ffn]
  WeightView shared_gate;                  // [1][hidden], the scalar gate of the shared expert
  WeightView shared_gate_proj, shared_up;  // [shared_ffn][hidden]
  WeightView shared_down;                  // [hidden][shared_ffn]
};

struct PleWeights {
  WeightView table;                            // [rows][row_width]
  WeightView key;                              // [streams * hidden][embedding_width]
  WeightView value;                            // [hidden][embedding_width]
  WeightView norm_key, norm_query, norm_conv;  // [streams * hidden]
  WeightView conv;                             // [streams * hidden][conv_kernel]
};

struct LayerWeights {
  HcWeights hc_attn, hc_ffn;
  std::variant<GdnWeights, QsaWeights> mixer;
  MoeWeights moe;
  std::optional<PleWeights> ple;

  const GdnWeights& gdn() const { return std::get<GdnWeights>(mixer); }
  const QsaWeights& qsa() const { return std::get<QsaWeights>(mixer); }
};

// The draft head: one QSA layer with its own entry and its own final mixer.
struct MtpWeights {
  WeightView embed_norm;   // nextn.enorm [hidden]
  WeightView hidden_norm;  // nextn.hnorm [streams * hidden]
  WeightView eh_proj;      // [hidden][2 * hidden], embedding half first
  HcWeights output_hc;     // no inject
  LayerWeights layer;
  WeightView token_embd;  // its own, or the trunk's
  WeightView output;      // its own, or the trunk's
};

// Every tensor of a model, found by name and checked for shape and type against the config.
struct ModelWeights {
  WeightView token_embd;             // [vocab][hidden]
  WeightView output;                 // [vocab][hidden]; token_embd when the file has none
  HcWeights output_hc;               // no inject
  std::vector<LayerWeights> layers;  // trunk
  std::optional<MtpWeights> mtp;
};

// Binds all tensors of `config` (as read from the same files). A missing tensor, or one of another
// shape or a type that cannot be decoded, is an error naming it, what was found and what was
// wanted. Tensors that no part of the model asks for are ignored.
Result<ModelWeights> BindModelWeights(const ModelConfig& config, const GgufFile& trunk,
                                      const GgufFile* mtp_sidecar = nullptr);

// Every tensor bound in `weights`, in the order of the struct; a tensor that serves twice (a tied
// output, the halves of fused experts) comes twice.
std::vector<WeightView> AllViews(const ModelWeights& weights);

}  // namespace holdfast

#endif  // HOLDFAST_WEIGHTS_MODEL_WEIGHTS_H_

#include "bench/token_work.h"

#include <algorithm>

namespace holdfast {
namespace {

uint64_t Bytes(const WeightView& view) {
  return view.exists() ? static_cast<uint64_t>(view.n_mats) * view.n_rows * view.row_bytes : 0;
}

double Ops(const WeightView& view) {
  return view.exists() ? 2.0 * static_cast<double>(view.n_mats) * view.n_rows * view.n_cols : 0.0;
}

void AddProduct(const WeightView& view, TokenWork* work) {
  work->dense_bytes += Bytes(view);
  work->dense_ops += Ops(view);
}

// Norms, convolutions and the like are read, but are no products.
void AddVector(const WeightView& view, TokenWork* work) { work->dense_bytes += Bytes(view); }

void AddHc(const HcWeights& hc, TokenWork* work) {
  AddVector(hc.norm, work);
  for (const WeightView& view : {hc.down, hc.up, hc.inject}) AddProduct(view, work);
}

void AddMixer(const LayerWeights& layer, TokenWork* work) {
  if (const auto* gdn = std::get_if<GdnWeights>(&layer.mixer)) {
    for (const WeightView& view : {gdn->qkv, gdn->gate, gdn->beta, gdn->alpha, gdn->out}) {
      AddProduct(view, work);
    }
    for (const WeightView& view : {gdn->a, gdn->dt_bias, gdn->conv, gdn->norm}) {
      AddVector(view, work);
    }
    return;
  }
  const QsaWeights& qsa = layer.qsa();
  for (const WeightView& view : {qsa.q, qsa.k, qsa.v, qsa.out, qsa.index_q, qsa.index_k}) {
    AddProduct(view, work);
  }
  for (const WeightView& view : {qsa.q_norm, qsa.k_norm, qsa.index_q_norm, qsa.index_k_norm}) {
    AddVector(view, work);
  }
}

void AddMoe(const MoeWeights& moe, TokenWork* work) {
  for (const WeightView& view :
       {moe.router, moe.shared_gate, moe.shared_gate_proj, moe.shared_up, moe.shared_down}) {
    AddProduct(view, work);
  }
  uint64_t bytes = 0;
  double ops = 0.0;
  for (const WeightView& view : {moe.gate, moe.up, moe.down}) {
    if (!view.exists()) continue;
    bytes += Bytes(view) / view.n_mats;
    ops += Ops(view) / static_cast<double>(view.n_mats);
  }
  work->expert_bytes.push_back(bytes);
  work->expert_ops.push_back(ops);
}

}  // namespace

uint64_t TokenWork::StepBytes(int64_t n_rows, const std::vector<double>& experts) const {
  double bytes = static_cast<double>(dense_bytes) + static_cast<double>(n_rows * row_bytes);
  for (size_t layer = 0; layer < expert_bytes.size(); ++layer) {
    const double n = experts.empty() ? n_experts_used : experts[layer];
    bytes += n * static_cast<double>(expert_bytes[layer]);
  }
  return static_cast<uint64_t>(bytes);
}

double TokenWork::PromptOpsPerToken() const {
  double ops = dense_ops;
  for (const double one : expert_ops) ops += n_experts_used * one;
  return ops;
}

TokenWork WorkOf(const ModelConfig& config, const ModelWeights& weights) {
  TokenWork work;
  work.n_experts_used = config.n_experts_used;
  work.row_bytes = weights.token_embd.row_bytes;
  for (const LayerWeights& layer : weights.layers) {
    AddHc(layer.hc_attn, &work);
    AddHc(layer.hc_ffn, &work);
    AddMixer(layer, &work);
    AddMoe(layer.moe, &work);
    if (!layer.ple) continue;
    AddProduct(layer.ple->key, &work);
    AddProduct(layer.ple->value, &work);
    for (const WeightView& view :
         {layer.ple->norm_key, layer.ple->norm_query, layer.ple->norm_conv, layer.ple->conv}) {
      AddVector(view, &work);
    }
    work.row_bytes += config.ple->n_heads * layer.ple->table.row_bytes;
  }
  work.output_bytes = Bytes(weights.output);
  work.output_ops = Ops(weights.output);
  AddHc(weights.output_hc, &work);
  work.dense_bytes += work.output_bytes;
  return work;
}

Result<TokenWork> WorkOf(const Model& model) {
  HF_ASSIGN_OR_RETURN(const ModelWeights weights,
                      BindModelWeights(model.config(), model.file(), model.mtp_file()));
  return WorkOf(model.config(), weights);
}

uint64_t StateBytes(const ModelConfig& config, const StateLayout& layout, int64_t position) {
  double bytes = static_cast<double>(layout.running_bytes());
  const double page_tokens = layout.page_tokens();
  for (const Part& part : layout.cell_parts()) {
    const bool sparse = config.block_ratio[part.layer] != 0;
    int64_t n_cells = position + 1;
    if (part.kind == PartKind::kPooledKeys) {
      // Within the budget every block is chosen without looking at any.
      if (position < config.index_budget) n_cells = 0;
    } else if (sparse) {
      n_cells = std::min<int64_t>(n_cells, config.index_budget);
    }
    bytes += static_cast<double>(part.bytes) / page_tokens * static_cast<double>(n_cells);
  }
  return static_cast<uint64_t>(bytes);
}

}  // namespace holdfast

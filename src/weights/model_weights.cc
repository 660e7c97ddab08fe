#include "weights/model_weights.h"

#include <fmt/format.h>

#include <cstring>
#include <initializer_list>
#include <string>

#include "weights/dequantize.h"

namespace holdfast {
namespace {

std::string ShapeText(std::initializer_list<int64_t> ne) {
  return fmt::format("{{{}}}", fmt::join(ne, ", "));
}

// Dimensions of 1 at the end may be declared or not.
std::string MatrixShape(int64_t n_cols, int64_t n_rows, int64_t n_mats) {
  if (n_mats > 1) return ShapeText({n_cols, n_rows, n_mats});
  return n_rows > 1 ? ShapeText({n_cols, n_rows}) : ShapeText({n_cols});
}

// Finds tensors of one file and checks them. Names are those of the GGUF tables: global ones as
// they are, a layer's after "blk.N.".
class Binder {
 public:
  Binder(const ModelConfig& config, const GgufFile& file)
      : config_(config), file_(file), hidden_(config.hidden_size), wide_(config.hc_width()) {}

  // A matrix {n_cols, n_rows} or n_mats of them {n_cols, n_rows, n_mats}.
  Status Matrix(const std::string& name, int64_t n_cols, int64_t n_rows, WeightView* out) const {
    return Matrices(name, n_cols, n_rows, 1, out);
  }
  Status Matrices(const std::string& name, int64_t n_cols, int64_t n_rows, int64_t n_mats,
                  WeightView* out) const {
    const GgufTensor* tensor = file_.FindTensor(name);
    if (tensor == nullptr) return Missing(name, MatrixShape(n_cols, n_rows, n_mats));
    if (tensor->ne != std::array<int64_t, 4>{n_cols, n_rows, n_mats, 1}) {
      return Misshapen(*tensor, MatrixShape(n_cols, n_rows, n_mats));
    }
    HF_RETURN_IF_ERROR(CheckDecodes(*tensor));
    *out = View(*tensor, n_cols, n_rows, n_mats);
    return BindScale(name, out);
  }
  // n values, whatever the dimensions: {n}, {n, 1}, or {n / streams, streams} for gains of all
  // streams.
  Status Vector(const std::string& name, int64_t n, WeightView* out) const {
    const GgufTensor* tensor = file_.FindTensor(name);
    if (tensor == nullptr) return Missing(name, ShapeText({n}));
    const bool flat = tensor->ne[0] == n;
    const bool by_stream = tensor->ne[0] == hidden_ && tensor->ne[1] == config_.hc_streams;
    if (tensor->n_values() != n || (!flat && !by_stream)) return Misshapen(*tensor, ShapeText({n}));
    HF_RETURN_IF_ERROR(CheckDecodes(*tensor));
    *out = View(*tensor, n, 1, 1);
    return OkStatus();
  }

  Status Hc(const std::string& prefix, bool has_inject, HcWeights* out) const {
    const int64_t rank = config_.hc_low_rank;
    HF_RETURN_IF_ERROR(Vector(prefix + "_norm.weight", wide_, &out->norm));
    HF_RETURN_IF_ERROR(Matrix(prefix + "_down.weight", wide_, rank, &out->down));
    HF_RETURN_IF_ERROR(Matrix(prefix + "_up.weight", rank, wide_, &out->up));
    if (!has_inject) return OkStatus();
    return Matrix(prefix + "_inject.weight", wide_, config_.hc_streams, &out->inject);
  }

  Status Layer(int layer, LayerWeights* out) const {
    const std::string blk = fmt::format("blk.{}.", layer);
    HF_RETURN_IF_ERROR(Hc(blk + "hc_attn", true, &out->hc_attn));
    HF_RETURN_IF_ERROR(Hc(blk + "hc_ffn", true, &out->hc_ffn));
    if (config_.layer_kinds[static_cast<size_t>(layer)] == LayerKind::kGdn) {
      HF_RETURN_IF_ERROR(Gdn(blk, &out->mixer.emplace<GdnWeights>()));
    } else {
      const int ratio = config_.block_ratio[static_cast<size_t>(layer)];
      HF_RETURN_IF_ERROR(Qsa(blk, ratio, &out->mixer.emplace<QsaWeights>()));
    }
    HF_RETURN_IF_ERROR(Moe(blk, &out->moe));
    if (config_.ple.has_value() && config_.ple->layer == layer) {
      HF_RETURN_IF_ERROR(Ple(blk, *config_.ple, &out->ple.emplace()));
    }
    return OkStatus();
  }

  bool Has(const std::string& name) const { return file_.FindTensor(name) != nullptr; }

 private:
  Status Missing(const std::string& name, const std::string& wanted) const {
    return NotFoundError(
        fmt::format("{}: no tensor {}, wanted shape {}", file_.name(), Quoted(name), wanted));
  }
  Status Misshapen(const GgufTensor& tensor, const std::string& wanted) const {
    return InvalidArgumentError(fmt::format("{}: tensor {}: found shape {}, wanted {}",
                                            file_.name(), Quoted(tensor.name), tensor.ShapeText(),
                                            wanted));
  }
  Status CheckDecodes(const GgufTensor& tensor) const {
    if (InfoOf(tensor.type).decodes) return OkStatus();
    return UnimplementedError(fmt::format("{}: tensor {}: type {} is not a weight format",
                                          file_.name(), Quoted(tensor.name),
                                          QuantTypeName(tensor.type)));
  }

  static WeightView View(const GgufTensor& tensor, int64_t n_cols, int64_t n_rows, int64_t n_mats) {
    WeightView view;
    view.tensor = &tensor;
    view.name = tensor.name;
    view.type = tensor.type;
    view.n_cols = n_cols;
    view.n_rows = n_rows;
    view.n_mats = n_mats;
    view.data = tensor.data.data();
    view.row_bytes = RowBytes(tensor.type, n_cols).value();
    view.mat_bytes = view.row_bytes * n_rows;
    return view;
  }

  // "x.weight" may have "x.scale": one f32, or one for each matrix.
  Status BindScale(const std::string& name, WeightView* out) const {
    constexpr std::string_view kSuffix = ".weight";
    if (!name.ends_with(kSuffix)) return OkStatus();
    const GgufTensor* scale =
        file_.FindTensor(name.substr(0, name.size() - kSuffix.size()) + ".scale");
    if (scale == nullptr) scale = file_.FindTensor(name + ".scale");
    if (scale == nullptr) return OkStatus();
    const int64_t n = scale->n_values();
    if (scale->type != QuantType::kF32 || scale->ne[0] != n || (n != 1 && n != out->n_mats)) {
      return InvalidArgumentError(fmt::format(
          "{}: tensor {}: found {} {}, wanted F32 {{1}} or {{{}}}", file_.name(),
          Quoted(scale->name), QuantTypeName(scale->type), scale->ShapeText(), out->n_mats));
    }
    out->scale = scale->data.data();
    out->n_scales = n;
    return OkStatus();
  }

  Status Gdn(const std::string& blk, GdnWeights* out) const {
    const int64_t n_heads = config_.gdn_n_value_heads, width = config_.gdn_value_width();
    const int64_t channels = config_.gdn_conv_channels();
    HF_RETURN_IF_ERROR(Matrix(blk + "attn_qkv.weight", hidden_, channels, &out->qkv));
    HF_RETURN_IF_ERROR(Matrix(blk + "attn_gate.weight", hidden_, width, &out->gate));
    HF_RETURN_IF_ERROR(Matrix(blk + "ssm_beta.weight", hidden_, n_heads, &out->beta));
    HF_RETURN_IF_ERROR(Matrix(blk + "ssm_alpha.weight", hidden_, n_heads, &out->alpha));
    HF_RETURN_IF_ERROR(Vector(blk + "ssm_a", n_heads, &out->a));
    HF_RETURN_IF_ERROR(Vector(blk + "ssm_dt.bias", n_heads, &out->dt_bias));
    HF_RETURN_IF_ERROR(
        Matrix(blk + "ssm_conv1d.weight", config_.gdn_conv_kernel, channels, &out->conv));
    HF_RETURN_IF_ERROR(Vector(blk + "ssm_norm.weight", config_.gdn_head_dim, &out->norm));
    return Matrix(blk + "ssm_out.weight", width, hidden_, &out->out);
  }

  Status Qsa(const std::string& blk, int block_ratio, QsaWeights* out) const {
    const int64_t q_width = int64_t{config_.n_heads} * config_.head_dim;
    const int64_t kv_width = int64_t{config_.n_kv_heads} * config_.head_dim;
    if (!Has(blk + "attn_q.weight") && Has(blk + "attn_qkv.weight")) {
      return UnimplementedError(fmt::format(
          "{}: tensor {}: a fused q, k and v of an attention layer is not supported, wanted {}",
          file_.name(), Quoted(blk + "attn_qkv.weight"), Quoted(blk + "attn_q.weight")));
    }
    HF_RETURN_IF_ERROR(Matrix(blk + "attn_q.weight", hidden_, 2 * q_width, &out->q));
    HF_RETURN_IF_ERROR(Matrix(blk + "attn_k.weight", hidden_, kv_width, &out->k));
    HF_RETURN_IF_ERROR(Matrix(blk + "attn_v.weight", hidden_, kv_width, &out->v));
    HF_RETURN_IF_ERROR(Matrix(blk + "attn_output.weight", q_width, hidden_, &out->out));
    HF_RETURN_IF_ERROR(Vector(blk + "attn_q_norm.weight", config_.head_dim, &out->q_norm));
    HF_RETURN_IF_ERROR(Vector(blk + "attn_k_norm.weight", config_.head_dim, &out->k_norm));
    if (block_ratio == 0 && !Has(blk + "indexer.k_proj.weight")) return OkStatus();
    const int64_t dim = config_.index_dim;
    HF_RETURN_IF_ERROR(
        Matrix(blk + "indexer.q_proj.weight", hidden_, config_.n_index_heads * dim, &out->index_q));
    HF_RETURN_IF_ERROR(Matrix(blk + "indexer.k_proj.weight", hidden_, dim, &out->index_k));
    HF_RETURN_IF_ERROR(Vector(blk + "indexer.q_norm.weight", dim, &out->index_q_norm));
    return Vector(blk + "indexer.k_norm.weight", dim, &out->index_k_norm);
  }

  Status Moe(const std::string& blk, MoeWeights* out) const {
    const int64_t n = config_.n_experts, width = config_.expert_ffn, shared = config_.shared_ffn;
    HF_RETURN_IF_ERROR(Matrix(blk + "ffn_gate_inp.weight", hidden_, n, &out->router));
    if (Has(blk + "ffn_gate_up_exps.weight")) {
      WeightView both;
      HF_RETURN_IF_ERROR(Matrices(blk + "ffn_gate_up_exps.weight", hidden_, 2 * width, n, &both));
      both.n_rows = width;  // the stride between experts stays that of the fused tensor
      out->gate = both;
      out->up = both;
      out->up.data += width * both.row_bytes;
    } else {
      HF_RETURN_IF_ERROR(Matrices(blk + "ffn_gate_exps.weight", hidden_, width, n, &out->gate));
      HF_RETURN_IF_ERROR(Matrices(blk + "ffn_up_exps.weight", hidden_, width, n, &out->up));
    }
    HF_RETURN_IF_ERROR(Matrices(blk + "ffn_down_exps.weight", width, hidden_, n, &out->down));
    HF_RETURN_IF_ERROR(Matrix(blk + "ffn_gate_inp_shexp.weight", hidden_, 1, &out->shared_gate));
    HF_RETURN_IF_ERROR(
        Matrix(blk + "ffn_gate_shexp.weight", hidden_, shared, &out->shared_gate_proj));
    HF_RETURN_IF_ERROR(Matrix(blk + "ffn_up_shexp.weight", hidden_, shared, &out->shared_up));
    return Matrix(blk + "ffn_down_shexp.weight", shared, hidden_, &out->shared_down);
  }

  Status Ple(const std::string& blk, const PleConfig& ple, PleWeights* out) const {
    // The table has padding rows at the end, so its rows are whatever the file says; that every row
    // a hash can name exists was checked with the config.
    const GgufTensor* table = file_.FindTensor("per_layer_token_embd.weight");
    if (table == nullptr) return Missing("per_layer_token_embd.weight", ShapeText({ple.row_width}));
    HF_RETURN_IF_ERROR(
        Matrix("per_layer_token_embd.weight", ple.row_width, table->ne[1], &out->table));
    HF_RETURN_IF_ERROR(Matrix(blk + "ple_key.weight", ple.embedding_width(), wide_, &out->key));
    HF_RETURN_IF_ERROR(
        Matrix(blk + "ple_value.weight", ple.embedding_width(), hidden_, &out->value));
    HF_RETURN_IF_ERROR(Vector(blk + "ple_norm_key.weight", wide_, &out->norm_key));
    HF_RETURN_IF_ERROR(Vector(blk + "ple_norm_query.weight", wide_, &out->norm_query));
    HF_RETURN_IF_ERROR(Vector(blk + "ple_norm_conv.weight", wide_, &out->norm_conv));
    return Matrix(blk + "ple_conv1d.weight", ple.conv_kernel, wide_, &out->conv);
  }

  const ModelConfig& config_;
  const GgufFile& file_;
  const int64_t hidden_;
  const int64_t wide_;
};

// The draft head. Two namings of its final mixer circulate; in a sidecar, which has no trunk
// layers, the trunk's name means the head's.
Status BindMtp(const ModelConfig& config, const GgufFile& file, bool is_sidecar,
               const ModelWeights& trunk, MtpWeights* out) {
  const Binder binder(config, file);
  const int64_t hidden = config.hidden_size;
  const std::string nextn = fmt::format("blk.{}.nextn.", config.n_layers);
  HF_RETURN_IF_ERROR(binder.Vector(nextn + "enorm.weight", hidden, &out->embed_norm));
  HF_RETURN_IF_ERROR(binder.Vector(nextn + "hnorm.weight", config.hc_width(), &out->hidden_norm));
  HF_RETURN_IF_ERROR(binder.Matrix(nextn + "eh_proj.weight", 2 * hidden, hidden, &out->eh_proj));
  const bool trunk_name = is_sidecar && !binder.Has(nextn + "hc_head_norm.weight") &&
                          binder.Has("output_hc_norm.weight");
  HF_RETURN_IF_ERROR(
      binder.Hc(trunk_name ? "output_hc" : nextn + "hc_head", false, &out->output_hc));
  HF_RETURN_IF_ERROR(binder.Layer(config.n_layers, &out->layer));
  out->token_embd = trunk.token_embd;
  out->output = trunk.output;
  if (binder.Has(nextn + "embed_tokens.weight")) {
    HF_RETURN_IF_ERROR(
        binder.Matrix(nextn + "embed_tokens.weight", hidden, config.vocab_size, &out->token_embd));
  }
  if (!binder.Has(nextn + "shared_head_head.weight")) return OkStatus();
  return binder.Matrix(nextn + "shared_head_head.weight", hidden, config.vocab_size, &out->output);
}

void AppendExisting(std::initializer_list<WeightView> views, std::vector<WeightView>* out) {
  for (const WeightView& view : views) {
    if (view.exists()) out->push_back(view);
  }
}

void AppendHc(const HcWeights& hc, std::vector<WeightView>* out) {
  AppendExisting({hc.norm, hc.down, hc.up, hc.inject}, out);
}

void AppendLayer(const LayerWeights& layer, std::vector<WeightView>* out) {
  AppendHc(layer.hc_attn, out);
  AppendHc(layer.hc_ffn, out);
  if (const auto* g = std::get_if<GdnWeights>(&layer.mixer)) {
    AppendExisting({g->qkv, g->gate, g->beta, g->alpha, g->a, g->dt_bias, g->conv, g->norm, g->out},
                   out);
  } else {
    const QsaWeights& q = layer.qsa();
    AppendExisting({q.q, q.k, q.v, q.out, q.q_norm, q.k_norm, q.index_q, q.index_k, q.index_q_norm,
                    q.index_k_norm},
                   out);
  }
  const MoeWeights& m = layer.moe;
  AppendExisting({m.router, m.gate, m.up, m.down, m.shared_gate, m.shared_gate_proj, m.shared_up,
                  m.shared_down},
                 out);
  if (!layer.ple.has_value()) return;
  const PleWeights& p = *layer.ple;
  AppendExisting({p.table, p.key, p.value, p.norm_key, p.norm_query, p.norm_conv, p.conv}, out);
}

}  // namespace

WeightView WeightView::Mat(int64_t mat) const {
  WeightView view = *this;
  view.data = data + mat * mat_bytes;
  view.n_mats = 1;
  if (n_scales > 1) {
    view.scale = scale + mat * static_cast<int64_t>(sizeof(float));
    view.n_scales = 1;
  }
  return view;
}

float WeightView::ScaleOf(int64_t mat) const {
  if (scale == nullptr) return 1.0f;
  float value = 0;
  std::memcpy(&value, scale + (n_scales > 1 ? mat : 0) * static_cast<int64_t>(sizeof(float)),
              sizeof value);
  return value;
}

std::vector<float> ToFloats(const WeightView& view) {
  const int64_t mat_values = view.n_cols * view.n_rows;
  std::vector<float> out(static_cast<size_t>(mat_values * view.n_mats));
  for (int64_t mat = 0; mat < view.n_mats; ++mat) {
    // Rows of a matrix are contiguous, so it decodes as one long row.
    DequantizeRow(view.type, view.Row(0, mat), mat_values, out.data() + mat * mat_values);
  }
  return out;
}

Result<ModelWeights> BindModelWeights(const ModelConfig& config, const GgufFile& trunk,
                                      const GgufFile* mtp_sidecar) {
  const Binder binder(config, trunk);
  ModelWeights weights;
  HF_RETURN_IF_ERROR(binder.Matrix("token_embd.weight", config.hidden_size, config.vocab_size,
                                   &weights.token_embd));
  weights.output = weights.token_embd;
  if (binder.Has("output.weight")) {
    HF_RETURN_IF_ERROR(
        binder.Matrix("output.weight", config.hidden_size, config.vocab_size, &weights.output));
  }
  HF_RETURN_IF_ERROR(binder.Hc("output_hc", false, &weights.output_hc));
  for (int layer = 0; layer < config.n_layers; ++layer) {
    HF_RETURN_IF_ERROR(binder.Layer(layer, &weights.layers.emplace_back()));
  }
  if (config.n_mtp_layers > 0) {
    const bool is_sidecar = mtp_sidecar != nullptr;
    HF_RETURN_IF_ERROR(BindMtp(config, is_sidecar ? *mtp_sidecar : trunk, is_sidecar, weights,
                               &weights.mtp.emplace()));
  }
  return weights;
}

std::vector<WeightView> AllViews(const ModelWeights& weights) {
  std::vector<WeightView> views = {weights.token_embd, weights.output};
  AppendHc(weights.output_hc, &views);
  for (const LayerWeights& layer : weights.layers) AppendLayer(layer, &views);
  if (!weights.mtp.has_value()) return views;
  const MtpWeights& mtp = *weights.mtp;
  AppendExisting({mtp.embed_norm, mtp.hidden_norm, mtp.eh_proj}, &views);
  AppendHc(mtp.output_hc, &views);
  AppendLayer(mtp.layer, &views);
  AppendExisting({mtp.token_embd, mtp.output}, &views);
  return views;
}

}  // namespace holdfast

#include <fmt/format.h>

#include <algorithm>

#include "model/model_parts.h"

namespace holdfast {
namespace {

std::span<const std::byte> AsBytes(std::span<const float> values) { return std::as_bytes(values); }

// The draft head attends to a window of its cells; at least the released model's budget.
constexpr int64_t kMinDraftWindow = 2048;

// Limits of the ops that the configuration itself does not have.
Status CheckSupported(const ModelConfig& config, KvFormat format) {
  if (config.n_experts_used > kMaxExpertsUsed) {
    return UnimplementedError(fmt::format("expert_used_count is {}, at most {} are supported",
                                          config.n_experts_used, kMaxExpertsUsed));
  }
  if (format == KvFormat::kInt8 && config.head_dim % CellGroup(config.head_dim) != 0) {
    return UnimplementedError(
        fmt::format("head dimension {} is not a multiple of {}, which --kv int8 needs; use f16",
                    config.head_dim, kInt8CellGroup));
  }
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<Model>> Model::Load(const std::string& path, const ModelOptions& options,
                                           Backend* backend) {
  if (options.max_rows < 1) {
    return InvalidArgumentError(
        fmt::format("steps of {} rows, wanted at least 1", options.max_rows));
  }
  std::unique_ptr<Model> model(new Model(backend, options));
  HF_ASSIGN_OR_RETURN(model->file_, GgufFile::Open(path));
  if (!options.mtp_path.empty()) {
    HF_ASSIGN_OR_RETURN(model->mtp_file_, GgufFile::Open(options.mtp_path));
  }
  HF_ASSIGN_OR_RETURN(model->config_,
                      ReadModelConfig(*model->file_, model->mtp_file_.get(), options.config));
  HF_RETURN_IF_ERROR(CheckSupported(model->config_, options.kv_format));
  backend->BeginModel(model->config_.hidden_size);
  HF_ASSIGN_OR_RETURN(model->layout_,
                      StateLayout::Create(model->config_, options.kv_format, StateSection::kTrunk,
                                          options.page_tokens));
  HF_RETURN_IF_ERROR(model->LoadWeights());
  HF_RETURN_IF_ERROR(model->AllocateScratch());
  HF_RETURN_IF_ERROR(model->CheckReads());
  return model;
}

Model::Model(Backend* backend, const ModelOptions& options)
    : backend_(backend), options_(options) {}

Model::~Model() {
  // Nothing may still run on buffers that go away now; errors have no one left to hear them.
  (void)backend_->Synchronize();
}

Result<const Weight*> Model::LoadWeight(const WeightView& view) {
  if (!view.exists()) return static_cast<const Weight*>(nullptr);
  HF_ASSIGN_OR_RETURN(std::unique_ptr<Weight> weight, backend_->LoadWeight(view));
  weights_.push_back(std::move(weight));
  return static_cast<const Weight*>(weights_.back().get());
}

Result<const Weight*> Model::LoadProduct(const WeightView& view) {
  HF_ASSIGN_OR_RETURN(const Weight* weight, LoadWeight(view));
  if (weight != nullptr) products_.push_back(weights_.back().get());
  return weight;
}

Result<BufferRef> Model::UploadFloats(std::span<const float> values) {
  HF_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> buffer, backend_->Allocate(values.size_bytes()));
  const BufferRef ref{buffer.get(), 0};
  buffers_.push_back(std::move(buffer));
  HF_RETURN_IF_ERROR(backend_->Upload(ref, AsBytes(values)));
  HF_RETURN_IF_ERROR(backend_->Synchronize());  // `values` may be gone after this call
  return ref;
}

Result<BufferRef> Model::LoadFloats(const WeightView& view) {
  if (!view.exists()) return BufferRef{};
  return UploadFloats(ToFloats(view));
}

// From [channels, taps] as files have it to [taps, channels].
Result<BufferRef> Model::LoadConv(const WeightView& view) {
  const std::vector<float> values = ToFloats(view);
  const int64_t taps = view.n_cols, channels = view.n_rows;
  std::vector<float> transposed(values.size());
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t t = 0; t < taps; ++t) transposed[t * channels + c] = values[c * taps + t];
  }
  return UploadFloats(transposed);
}

Status Model::LoadHc(const HcWeights& weights, Hc* hc) {
  HF_ASSIGN_OR_RETURN(hc->norm, LoadFloats(weights.norm));
  HF_ASSIGN_OR_RETURN(hc->down, LoadWeight(weights.down));
  HF_ASSIGN_OR_RETURN(hc->up, LoadWeight(weights.up));
  HF_ASSIGN_OR_RETURN(hc->inject, LoadWeight(weights.inject));
  return OkStatus();
}

Status Model::LoadLayer(int index, const LayerWeights& weights, const StateLayout& layout,
                        Layer* layer) {
  layer->index = index;
  HF_RETURN_IF_ERROR(LoadHc(weights.hc_attn, &layer->hc_attn));
  HF_RETURN_IF_ERROR(LoadHc(weights.hc_ffn, &layer->hc_ffn));
  if (config_.layer_kinds[index] == LayerKind::kGdn) {
    const GdnWeights& w = weights.gdn();
    Layer::Gdn& gdn = layer->gdn.emplace();
    HF_ASSIGN_OR_RETURN(gdn.qkv, LoadProduct(w.qkv));
    HF_ASSIGN_OR_RETURN(gdn.gate, LoadProduct(w.gate));
    HF_ASSIGN_OR_RETURN(gdn.beta, LoadWeight(w.beta));
    HF_ASSIGN_OR_RETURN(gdn.alpha, LoadWeight(w.alpha));
    HF_ASSIGN_OR_RETURN(gdn.out, LoadProduct(w.out));
    HF_ASSIGN_OR_RETURN(gdn.a, LoadFloats(w.a));
    HF_ASSIGN_OR_RETURN(gdn.dt_bias, LoadFloats(w.dt_bias));
    HF_ASSIGN_OR_RETURN(gdn.conv, LoadConv(w.conv));
    HF_ASSIGN_OR_RETURN(gdn.norm, LoadFloats(w.norm));
    gdn.state_offset = layout.FindRunning(index, PartKind::kGdnState)->offset;
    gdn.conv_offset = layout.FindRunning(index, PartKind::kGdnConv)->offset;
  } else {
    const QsaWeights& w = weights.qsa();
    Layer::Qsa& qsa = layer->qsa.emplace();
    HF_ASSIGN_OR_RETURN(qsa.q, LoadProduct(w.q));
    HF_ASSIGN_OR_RETURN(qsa.k, LoadProduct(w.k));
    HF_ASSIGN_OR_RETURN(qsa.v, LoadProduct(w.v));
    HF_ASSIGN_OR_RETURN(qsa.out, LoadProduct(w.out));
    HF_ASSIGN_OR_RETURN(qsa.q_norm, LoadFloats(w.q_norm));
    HF_ASSIGN_OR_RETURN(qsa.k_norm, LoadFloats(w.k_norm));
    HF_ASSIGN_OR_RETURN(qsa.index_q, LoadWeight(w.index_q));
    HF_ASSIGN_OR_RETURN(qsa.index_k, LoadWeight(w.index_k));
    HF_ASSIGN_OR_RETURN(qsa.index_q_norm, LoadFloats(w.index_q_norm));
    HF_ASSIGN_OR_RETURN(qsa.index_k_norm, LoadFloats(w.index_k_norm));
    QsaCells& cells = qsa.cells;
    cells.format = options_.kv_format;
    cells.n_kv_heads = config_.n_kv_heads;
    cells.head_dim = config_.head_dim;
    const Part* tail = layout.FindRunning(index, PartKind::kIndexerTail);
    cells.ratio = tail == nullptr ? 0 : config_.block_ratio[index];
    cells.index_dim = config_.index_dim;
    const auto cell = [&](PartKind kind) {
      const Part* part = layout.FindCell(index, kind);
      return part == nullptr ? size_t{0} : part->offset;
    };
    cells.k_offset = cell(PartKind::kKeys);
    cells.v_offset = cell(PartKind::kValues);
    cells.k_scale_offset = cell(PartKind::kKeyScales);
    cells.v_scale_offset = cell(PartKind::kValueScales);
    cells.pooled_offset = cell(PartKind::kPooledKeys);
    cells.tail_offset = tail == nullptr ? 0 : tail->offset;
  }
  if (weights.ple) {
    const PleWeights& w = *weights.ple;
    Layer::Ple& ple = layer->ple.emplace();
    HF_ASSIGN_OR_RETURN(ple.table, LoadWeight(w.table));
    HF_ASSIGN_OR_RETURN(ple.key, LoadWeight(w.key));
    HF_ASSIGN_OR_RETURN(ple.value, LoadWeight(w.value));
    HF_ASSIGN_OR_RETURN(ple.norm_key, LoadFloats(w.norm_key));
    HF_ASSIGN_OR_RETURN(ple.norm_query, LoadFloats(w.norm_query));
    HF_ASSIGN_OR_RETURN(ple.norm_conv, LoadFloats(w.norm_conv));
    HF_ASSIGN_OR_RETURN(ple.conv, LoadConv(w.conv));
    ple.conv_offset = layout.FindRunning(index, PartKind::kPleConv)->offset;
  }
  HF_ASSIGN_OR_RETURN(layer->router, LoadWeight(weights.moe.router));
  HF_ASSIGN_OR_RETURN(layer->expert_gate, LoadProduct(weights.moe.gate));
  HF_ASSIGN_OR_RETURN(layer->expert_up, LoadProduct(weights.moe.up));
  HF_ASSIGN_OR_RETURN(layer->expert_down, LoadProduct(weights.moe.down));
  HF_ASSIGN_OR_RETURN(layer->shared_gate, LoadProduct(weights.moe.shared_gate_proj));
  HF_ASSIGN_OR_RETURN(layer->shared_up, LoadProduct(weights.moe.shared_up));
  HF_ASSIGN_OR_RETURN(layer->shared_down, LoadProduct(weights.moe.shared_down));
  HF_ASSIGN_OR_RETURN(layer->shared_inject, LoadWeight(weights.moe.shared_gate));
  return OkStatus();
}

Status Model::StreamExperts(const ExpertTierOptions& options) {
  HF_CHECK(tier_ == nullptr);
  HF_ASSIGN_OR_RETURN(tier_, ExpertTier::Create(expert_layers_, options));
  // Reading ahead would bring in the experts beside a tensor, and rows of the n-gram table that
  // nobody asked for.
  for (const ExpertLayer& layer : expert_layers_) {
    for (const WeightView* view : {&layer.gate, &layer.up, &layer.down}) {
      MappedFile::AdviseRandom(view->tensor->data);
    }
  }
  if (ngram_table_.exists()) MappedFile::AdviseRandom(ngram_table_.tensor->data);
  return OkStatus();
}

NgramTable Model::ngram_table() const {
  if (!ngram_table_.exists()) return {};
  return {ngram_table_, file_.get(), options_.max_rows * config_.ple->n_heads};
}

Status Model::StreamNgramRows(const NgramTierOptions& options) {
  HF_CHECK(ngram_tier_ == nullptr);
  HF_ASSIGN_OR_RETURN(ngram_tier_, NgramTier::Create(ngram_table(), options));
  return OkStatus();
}

Status Model::UseExpertFile(const std::string& path) {
  HF_CHECK(tier_ == nullptr);
  HF_ASSIGN_OR_RETURN(expert_file_, ExpertFile::Open(path, *file_, expert_layers_));
  expert_file_->Attach(expert_layers_);
  return OkStatus();
}

Status Model::VerifyWeights(const std::function<void(double)>& progress) const {
  if (expert_file_) {
    HF_RETURN_IF_ERROR(expert_file_->Verify(/*mapped=*/tier_ == nullptr, progress));
  } else {
    HF_RETURN_IF_ERROR(ReadAllTensors(*file_, progress));
  }
  if (mtp_file_) HF_RETURN_IF_ERROR(ReadAllTensors(*mtp_file_, [](double) {}));
  return CheckReads();
}

Status Model::ReadIn(bool table, const std::function<void(double)>& progress) const {
  constexpr size_t kPiece = size_t{16} << 20;
  std::vector<std::span<const std::byte>> parts;
  size_t n_bytes = 0, n_done = 0;
  for (const GgufFile* file : {file_.get(), mtp_file_.get()}) {
    if (file == nullptr) continue;
    for (const GgufTensor& tensor : file->tensors()) {
      const bool streamed = std::ranges::any_of(expert_layers_, [&](const ExpertLayer& layer) {
        return &tensor == layer.gate.tensor || &tensor == layer.up.tensor ||
               &tensor == layer.down.tensor;
      });
      const bool repacked = std::ranges::any_of(products_, [&](const Weight* weight) {
        return weight->view().repacked && weight->view().tensor == &tensor;
      });
      if ((tier_ && streamed) || repacked) continue;
      if (&tensor == ngram_table_.tensor && (ngram_tier_ || !table)) continue;
      parts.push_back(tensor.data);
      n_bytes += tensor.data.size();
    }
  }
  for (const auto& part : parts) {
    for (size_t at = 0; at < part.size(); at += kPiece) {
      MappedFile::ReadIn(part.subspan(at, std::min(kPiece, part.size() - at)));
      n_done += std::min(kPiece, part.size() - at);
      progress(static_cast<double>(n_done) / static_cast<double>(n_bytes));
    }
  }
  return CheckReads();
}

Status Model::LoadWeights() {
  HF_ASSIGN_OR_RETURN(const ModelWeights weights,
                      BindModelWeights(config_, *file_, mtp_file_.get()));
  HF_ASSIGN_OR_RETURN(token_embd_, LoadWeight(weights.token_embd));
  HF_ASSIGN_OR_RETURN(output_, LoadProduct(weights.output));
  output_hc_ = std::make_unique<Hc>();
  HF_RETURN_IF_ERROR(LoadHc(weights.output_hc, output_hc_.get()));
  layers_.resize(config_.n_layers);
  for (int i = 0; i < config_.n_layers; ++i) {
    HF_RETURN_IF_ERROR(LoadLayer(i, weights.layers[i], layout_, &layers_[i]));
  }
  for (const LayerWeights& layer : weights.layers) {
    if (layer.ple) ngram_table_ = layer.ple->table;
  }
  expert_layers_ = ExpertLayersOf(weights, *file_, mtp_file_.get());
  if (weights.mtp) HF_RETURN_IF_ERROR(LoadDraft(*weights.mtp));
  PlanLog();
  return OkStatus();
}

Status Model::LoadDraft(const MtpWeights& weights) {
  HF_ASSIGN_OR_RETURN(
      draft_layout_,
      StateLayout::Create(config_, options_.kv_format, StateSection::kDraft, options_.page_tokens));
  draft_ = std::make_unique<DraftHead>();
  DraftHead& head = *draft_;
  HF_RETURN_IF_ERROR(LoadLayer(config_.n_layers, weights.layer, draft_layout_, &head.layer));
  HF_RETURN_IF_ERROR(LoadHc(weights.output_hc, &head.output_hc));
  HF_ASSIGN_OR_RETURN(head.token_embd, LoadWeight(weights.token_embd));
  WeightView output = weights.output;
  if (options_.draft_vocab > 0) output.n_rows = std::min(output.n_rows, options_.draft_vocab);
  HF_ASSIGN_OR_RETURN(head.output, LoadWeight(output));
  HF_ASSIGN_OR_RETURN(head.proj, LoadWeight(weights.eh_proj));
  HF_ASSIGN_OR_RETURN(head.embed_norm, LoadFloats(weights.embed_norm));
  HF_ASSIGN_OR_RETURN(head.hidden_norm, LoadFloats(weights.hidden_norm));
  head.handover_offset = draft_layout_.FindRunning(config_.n_layers, PartKind::kHandover)->offset;
  Layer::Qsa& qsa = *head.layer.qsa;
  qsa.first_cell = 1;  // token 0 has no row before it
  qsa.window = std::max(config_.index_budget, kMinDraftWindow);
  qsa.rope_shift = -1;  // a pair's position is that of its trunk row
  return OkStatus();
}

// Offsets of everything a row on trial would change, layer by layer.
void Model::PlanLog() {
  size_t end = 0;
  const auto floats = [&](int64_t per_row) {
    const size_t offset = end;
    end += (static_cast<size_t>(kMaxWindow * per_row) * sizeof(float) + 63) / 64 * 64;
    return offset;
  };
  const ModelConfig& c = config_;
  for (Layer& layer : layers_) {
    if (layer.gdn) {
      Layer::Gdn& gdn = *layer.gdn;
      gdn.log = {.qkv_offset = floats(c.gdn_conv_channels()),
                 .k_hat_offset = floats(c.gdn_key_width()),
                 .delta_offset = floats(c.gdn_value_width()),
                 .decay_offset = floats(c.gdn_n_value_heads)};
      commit_gdn_.push_back({.state_offset = gdn.state_offset,
                             .n_key_heads = c.gdn_n_key_heads,
                             .n_value_heads = c.gdn_n_value_heads,
                             .head_dim = c.gdn_head_dim,
                             .log = gdn.log});
      commit_convs_.push_back({.offset = gdn.conv_offset,
                               .n_kept = c.gdn_conv_kernel - 1,
                               .width = c.gdn_conv_channels(),
                               .log_offset = gdn.log.qkv_offset});
    } else if (QsaCells& cells = layer.qsa->cells; cells.ratio != 0) {
      cells.log_offset = floats(cells.index_dim);
      commit_tails_.push_back({.offset = cells.tail_offset,
                               .ratio = cells.ratio,
                               .dim = cells.index_dim,
                               .log_offset = cells.log_offset});
    }
    if (layer.ple) {
      layer.ple->log_offset = floats(c.hc_width());
      commit_convs_.push_back({.offset = layer.ple->conv_offset,
                               .n_kept = int64_t{c.ple->conv_kernel - 1} * c.ple->ngram_size,
                               .width = c.hc_width(),
                               .log_offset = layer.ple->log_offset});
    }
  }
  log_hidden_offset_ = floats(draft_ ? c.hc_width() : 0);
  log_bytes_ = end;
}

}  // namespace holdfast

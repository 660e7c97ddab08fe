#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "model/model_parts.h"
#include "model/ngram_rows.h"

namespace holdfast {
namespace {

// Hands out pieces of one buffer.
class Pieces {
 public:
  explicit Pieces(size_t start) : end_(start) {}
  BufferRef Floats(int64_t n) {
    const BufferRef ref{nullptr, end_};
    end_ += (static_cast<size_t>(n) * sizeof(float) + 63) / 64 * 64;
    return ref;
  }
  size_t end() const { return end_; }

 private:
  size_t end_;
};

}  // namespace

Status Model::AllocateScratch() {
  const ModelConfig& c = config_;
  const int64_t n = options_.max_rows, n_out = max_outputs();
  scratch_ = std::make_unique<Scratch>();
  Scratch& s = *scratch_;
  Pieces pieces(0);
  s.x = pieces.Floats(n * c.hc_width());
  s.u = pieces.Floats(n * c.hidden_size);
  s.inject = pieces.Floats(n * c.hc_streams);
  s.o = pieces.Floats(n * c.hidden_size);
  s.draft_hidden = pieces.Floats(draft_ ? n * c.hc_width() : 0);
  s.x_out = pieces.Floats(n_out * c.hc_width());
  s.mixed = pieces.Floats(n_out * c.hidden_size);
  s.logits = pieces.Floats(n_out * c.vocab_size);
  Pieces gdn(pieces.end()), qsa(pieces.end());
  s.gdn.qkv = gdn.Floats(n * c.gdn_conv_channels());
  s.gdn.z = gdn.Floats(n * c.gdn_value_width());
  s.gdn.b = gdn.Floats(n * c.gdn_n_value_heads);
  s.gdn.a = gdn.Floats(n * c.gdn_n_value_heads);
  s.gdn.out = gdn.Floats(n * c.gdn_value_width());
  s.qsa.q_gate = qsa.Floats(n * c.n_heads * c.head_dim * 2);
  s.qsa.k = qsa.Floats(n * c.n_kv_heads * c.head_dim);
  s.qsa.v = qsa.Floats(n * c.n_kv_heads * c.head_dim);
  s.qsa.index_q = qsa.Floats(n * c.n_index_heads * c.index_dim);
  s.qsa.index_k = qsa.Floats(n * c.index_dim);
  s.qsa.q = qsa.Floats(n * c.n_heads * c.head_dim);
  s.qsa.out = qsa.Floats(n * c.n_heads * c.head_dim);
  Pieces taps(std::max(gdn.end(), qsa.end()));
  s.router_logits = taps.Floats(n * c.n_experts);
  s.router_ids = taps.Floats(n * c.n_experts_used);
  s.router_weights = taps.Floats(n * c.n_experts_used);
  s.selected = taps.Floats(n * c.index_budget);
  s.ple_embedding = taps.Floats(c.ple ? n * c.ple->embedding_width() : 0);
  s.ple_added = taps.Floats(c.ple ? n * c.hc_width() : 0);

  HF_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> buffer, backend_->Allocate(taps.end()));
  for (BufferRef* ref : {&s.x,
                         &s.draft_hidden,
                         &s.u,
                         &s.inject,
                         &s.o,
                         &s.x_out,
                         &s.mixed,
                         &s.logits,
                         &s.gdn.qkv,
                         &s.gdn.z,
                         &s.gdn.b,
                         &s.gdn.a,
                         &s.gdn.out,
                         &s.qsa.q_gate,
                         &s.qsa.k,
                         &s.qsa.v,
                         &s.qsa.index_q,
                         &s.qsa.index_k,
                         &s.qsa.q,
                         &s.qsa.out,
                         &s.router_logits,
                         &s.router_ids,
                         &s.router_weights,
                         &s.selected,
                         &s.ple_embedding,
                         &s.ple_added}) {
    ref->buffer = buffer.get();
  }
  buffers_.push_back(std::move(buffer));
  return OkStatus();
}

size_t Model::buffer_bytes() const {
  size_t sum = 0;
  for (const auto& buffer : buffers_) sum += buffer->bytes();
  return sum;
}

Status Model::CheckBatch(const Batch& batch) const {
  int64_t n_rows = 0;
  for (const SequenceRows& sequence : batch.sequences) {
    HF_CHECK(sequence.n_rows() > 0 && sequence.first_position >= 0);
    HF_CHECK(static_cast<int64_t>(sequence.pages.size()) >= layout_.PagesFor(sequence.n_tokens()));
    HF_CHECK(sequence.log != nullptr ? sequence.n_rows() <= kMaxWindow : sequence.drafts.empty());
    HF_RETURN_IF_ERROR(
        CheckTokens(sequence.tokens.subspan(sequence.first_position), sequence.first_position));
    HF_RETURN_IF_ERROR(CheckTokens(sequence.drafts, static_cast<int64_t>(sequence.tokens.size())));
    n_rows += sequence.n_rows();
  }
  HF_CHECK(n_rows >= 1 && n_rows <= options_.max_rows);
  for (int32_t row : batch.output_rows) HF_CHECK(row >= 0 && row < n_rows);
  for (int32_t row : batch.reduced_rows) HF_CHECK(row >= 0 && row < n_rows);
  return OkStatus();
}

Status Model::CheckTokens(std::span<const int32_t> ids, int64_t first_position) const {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= config_.vocab_size) {
      return InvalidArgumentError(
          fmt::format("token {} at position {}, the vocabulary has ids 0 to {}", ids[i],
                      first_position + i, config_.vocab_size - 1));
    }
  }
  return OkStatus();
}

void Model::AddTableRows(const SequenceRows& sequence) {
  const int64_t n_before = std::min<int64_t>(sequence.first_position, config_.ple->ngram_size - 1);
  std::vector<int32_t> context(sequence.tokens.begin() + sequence.first_position - n_before,
                               sequence.tokens.end());
  context.insert(context.end(), sequence.drafts.begin(), sequence.drafts.end());
  const size_t begin = table_rows_.size();
  table_rows_.resize(begin + sequence.n_rows() * config_.ple->n_heads);
  NgramRows(*config_.ple, context, n_before, std::span(table_rows_).subspan(begin));
}

Status Model::Forward(const Batch& batch, std::span<float> logits, std::span<float> mixed) {
  HF_RETURN_IF_ERROR(CheckBatch(batch));
  HF_CHECK(logits.size() == batch.output_rows.size() * config_.vocab_size);
  HF_CHECK(mixed.empty() || mixed.size() == batch.output_rows.size() * config_.hidden_size);

  std::vector<Segment> segments;
  std::vector<int32_t> tokens;
  table_rows_.clear();
  for (const SequenceRows& sequence : batch.sequences) {
    segments.push_back({.row_begin = static_cast<int64_t>(tokens.size()),
                        .n_rows = sequence.n_rows(),
                        .first_position = sequence.first_position,
                        .running = sequence.running,
                        .pages = sequence.pages,
                        .log = sequence.log});
    tokens.insert(tokens.end(), sequence.tokens.begin() + sequence.first_position,
                  sequence.tokens.end());
    tokens.insert(tokens.end(), sequence.drafts.begin(), sequence.drafts.end());
    if (config_.ple) AddTableRows(sequence);
  }
  // Read while the layers before the one that uses them are computed.
  if (ngram_tier_) ngram_tier_->Begin(table_rows_);
  const StepRows rows{.n_rows = static_cast<int64_t>(tokens.size()),
                      .segments = segments,
                      .page_tokens = layout_.page_tokens()};

  // Queued ops refer to the arrays above: none may outlive this call, also after an error.
  Status queued = RunStep(rows, tokens, batch, logits, mixed);
  if (queued.ok() && row_observer_) queued = EmitRows(batch, logits);
  if (queued.ok() && draft_) queued = FollowWithDraft(batch, segments);
  const Status done = backend_->Synchronize();
  if (!queued.ok() || !done.ok()) return queued.ok() ? done : queued;
  return CheckReads();
}

Status Model::CheckReads() const {
  HF_RETURN_IF_ERROR(file_->CheckReads());
  if (tier_) HF_RETURN_IF_ERROR(tier_->CheckFiles());
  if (ngram_tier_) HF_RETURN_IF_ERROR(ngram_tier_->CheckFile());
  return mtp_file_ ? mtp_file_->CheckReads() : OkStatus();
}

// Rows on trial keep their streams for Commit(); the draft head follows the others at once.
Status Model::FollowWithDraft(const Batch& batch, std::span<const Segment> segments) {
  const size_t row_bytes = config_.hc_width() * sizeof(float);
  std::vector<DraftRows> followers;
  for (size_t i = 0; i < segments.size(); ++i) {
    const SequenceRows& sequence = batch.sequences[i];
    if (sequence.draft_running == nullptr) continue;
    const BufferRef x{scratch_->x.buffer, scratch_->x.offset + segments[i].row_begin * row_bytes};
    if (sequence.log != nullptr) {
      HF_RETURN_IF_ERROR(backend_->Copy({.src = x,
                                         .dst = {sequence.log, log_hidden_offset_},
                                         .bytes = sequence.n_rows() * row_bytes}));
      continue;
    }
    followers.push_back({.tokens = sequence.tokens,
                         .first_position = sequence.first_position,
                         .n_rows = sequence.n_rows(),
                         .running = sequence.draft_running,
                         .pages = sequence.draft_pages,
                         .first_hidden = {sequence.draft_running, draft_->handover_offset},
                         .hidden = x});
  }
  return followers.empty() ? OkStatus() : RunDraftCells(followers);
}

Status Model::RunStep(const StepRows& rows, std::span<const int32_t> tokens, const Batch& batch,
                      std::span<float> logits, std::span<float> mixed) {
  HF_RETURN_IF_ERROR(backend_->Embed(
      {.table = token_embd_, .tokens = tokens, .x = scratch_->x, .n_streams = config_.hc_streams}));
  HF_RETURN_IF_ERROR(EmitTap("embed", -1, scratch_->x, rows.n_rows, config_.hc_width()));
  for (const Layer& layer : layers_) HF_RETURN_IF_ERROR(RunLayer(layer, rows));
  HF_RETURN_IF_ERROR(RunOutput(batch.output_rows, logits, mixed));
  return ReduceOutput(batch);
}

Status Model::RunLayer(const Layer& layer, const StepRows& rows) {
  const Scratch& s = *scratch_;
  const int64_t n = rows.n_rows, dim = config_.hidden_size;
  if (layer.ple) HF_RETURN_IF_ERROR(RunPle(layer, rows));

  HF_RETURN_IF_ERROR(RunHcRead(layer.hc_attn, n));
  HF_RETURN_IF_ERROR(EmitTap("attn_hc", layer.index, s.u, n, dim));
  HF_RETURN_IF_ERROR(EmitTap("attn_hc.inject", layer.index, s.inject, n, config_.hc_streams));
  HF_RETURN_IF_ERROR(layer.gdn ? RunGdn(layer, rows) : RunQsa(layer, rows));
  HF_RETURN_IF_ERROR(EmitTap("attn_out", layer.index, s.o, n, dim));
  const HcWriteArgs write{.x = s.x,
                          .o = s.o,
                          .inject = s.inject,
                          .n_rows = n,
                          .n_streams = config_.hc_streams,
                          .dim = dim};
  HF_RETURN_IF_ERROR(backend_->HcWrite(write));

  HF_RETURN_IF_ERROR(RunHcRead(layer.hc_ffn, n));
  HF_RETURN_IF_ERROR(EmitTap("mlp_hc", layer.index, s.u, n, dim));
  HF_RETURN_IF_ERROR(EmitTap("mlp_hc.inject", layer.index, s.inject, n, config_.hc_streams));
  HF_RETURN_IF_ERROR(RunMoe(layer, rows));
  HF_RETURN_IF_ERROR(EmitTap("mlp_out", layer.index, s.o, n, dim));
  HF_RETURN_IF_ERROR(backend_->HcWrite(write));
  return EmitTap("out", layer.index, s.x, n, config_.hc_width());
}

Status Model::RunHcRead(const Hc& hc, int64_t n_rows) {
  return backend_->HcRead({.x = scratch_->x,
                           .norm = hc.norm,
                           .down = hc.down,
                           .up = hc.up,
                           .inject = hc.inject,
                           .out = scratch_->u,
                           .inject_out = scratch_->inject,
                           .n_rows = n_rows,
                           .n_streams = config_.hc_streams,
                           .dim = config_.hidden_size,
                           .eps = config_.rms_eps});
}

Status Model::RunGdn(const Layer& layer, const StepRows& rows) {
  const Layer::Gdn& w = *layer.gdn;
  const auto& s = scratch_->gdn;
  HF_RETURN_IF_ERROR(backend_->MatMul(
      {.x = scratch_->u,
       .n_rows = rows.n_rows,
       .outputs = {{w.qkv, s.qkv}, {w.gate, s.z}, {w.beta, s.b, true}, {w.alpha, s.a, true}}}));
  HF_RETURN_IF_ERROR(backend_->Gdn({.rows = rows,
                                    .qkv = s.qkv,
                                    .z = s.z,
                                    .b = s.b,
                                    .a = s.a,
                                    .conv = w.conv,
                                    .ssm_a = w.a,
                                    .dt_bias = w.dt_bias,
                                    .norm = w.norm,
                                    .out = s.out,
                                    .n_key_heads = config_.gdn_n_key_heads,
                                    .n_value_heads = config_.gdn_n_value_heads,
                                    .head_dim = config_.gdn_head_dim,
                                    .conv_kernel = config_.gdn_conv_kernel,
                                    .eps = config_.rms_eps,
                                    .state_offset = w.state_offset,
                                    .conv_offset = w.conv_offset,
                                    .log = w.log}));
  HF_RETURN_IF_ERROR(
      EmitTap("gdn_core", layer.index, s.out, rows.n_rows, config_.gdn_value_width()));
  return backend_->MatMul({.x = s.out, .n_rows = rows.n_rows, .outputs = {{w.out, scratch_->o}}});
}

Status Model::RunQsa(const Layer& layer, const StepRows& rows) {
  const Layer::Qsa& w = *layer.qsa;
  const auto& s = scratch_->qsa;
  std::vector<MatMulArgs::Output> outputs = {{w.q, s.q_gate}, {w.k, s.k}, {w.v, s.v}};
  if (w.cells.ratio != 0) {
    outputs.push_back({w.index_q, s.index_q});
    outputs.push_back({w.index_k, s.index_k});
  }
  HF_RETURN_IF_ERROR(
      backend_->MatMul({.x = scratch_->u, .n_rows = rows.n_rows, .outputs = std::move(outputs)}));
  HF_RETURN_IF_ERROR(
      backend_->QsaAppend({.rows = rows,
                           .cells = w.cells,
                           .rope = {.dims = config_.rope_dims, .theta = config_.rope_theta},
                           .eps = config_.rms_eps,
                           .n_heads = config_.n_heads,
                           .n_index_heads = config_.n_index_heads,
                           .q_gate = s.q_gate,
                           .k = s.k,
                           .v = s.v,
                           .index_q = s.index_q,
                           .index_k = s.index_k,
                           .q_norm = w.q_norm,
                           .k_norm = w.k_norm,
                           .index_q_norm = w.index_q_norm,
                           .index_k_norm = w.index_k_norm,
                           .q = s.q,
                           .rope_shift = w.rope_shift}));
  HF_RETURN_IF_ERROR(backend_->QsaAttend({.rows = rows,
                                          .cells = w.cells,
                                          .n_heads = config_.n_heads,
                                          .n_index_heads = config_.n_index_heads,
                                          .budget = config_.index_budget,
                                          .first_cell = w.first_cell,
                                          .window = w.window,
                                          .q = s.q,
                                          .q_gate = s.q_gate,
                                          .index_q = s.index_q,
                                          .out = s.out,
                                          .selected = tap_ ? scratch_->selected : BufferRef{}}));
  if (w.cells.ratio != 0) {
    HF_RETURN_IF_ERROR(EmitTap("qsa_blocks", layer.index, scratch_->selected, rows.n_rows,
                               config_.index_budget / w.cells.ratio, true));
  }
  return backend_->MatMul({.x = s.out, .n_rows = rows.n_rows, .outputs = {{w.out, scratch_->o}}});
}

Status Model::RunMoe(const Layer& layer, const StepRows& rows) {
  const Scratch& s = *scratch_;
  MoeArgs args{.u = s.u,
               .out = s.o,
               .n_rows = rows.n_rows,
               .router = layer.router,
               .gate = layer.expert_gate,
               .up = layer.expert_up,
               .down = layer.expert_down,
               .shared_gate = layer.shared_gate,
               .shared_up = layer.shared_up,
               .shared_down = layer.shared_down,
               .shared_inject = layer.shared_inject,
               .n_used = config_.n_experts_used,
               .tier = tier_.get(),
               .tier_layer = layer.index};
  if (tier_ && tier_->look_ahead() && layer.index + 1 < config_.n_layers) {
    args.next_router = layers_[layer.index + 1].router;
  }
  if (tap_) {
    args.router_logits = s.router_logits;
    args.router_ids = s.router_ids;
    args.router_weights = s.router_weights;
  }
  HF_RETURN_IF_ERROR(backend_->Moe(args));
  HF_RETURN_IF_ERROR(
      EmitTap("router_logits", layer.index, s.router_logits, rows.n_rows, config_.n_experts));
  HF_RETURN_IF_ERROR(
      EmitTap("router_ids", layer.index, s.router_ids, rows.n_rows, config_.n_experts_used, true));
  return EmitTap("router_weights", layer.index, s.router_weights, rows.n_rows,
                 config_.n_experts_used);
}

Status Model::RunPle(const Layer& layer, const StepRows& rows) {
  const Layer::Ple& w = *layer.ple;
  const PleConfig& ple = *config_.ple;
  PleArgs args{.rows = rows,
               .table_rows = table_rows_,
               .n_heads = ple.n_heads,
               .table = w.table,
               .tier = ngram_tier_.get(),
               .key = w.key,
               .value = w.value,
               .norm_key = w.norm_key,
               .norm_query = w.norm_query,
               .norm_conv = w.norm_conv,
               .conv = w.conv,
               .conv_kernel = ple.conv_kernel,
               .dilation = ple.ngram_size,
               .x = scratch_->x,
               .n_streams = config_.hc_streams,
               .dim = config_.hidden_size,
               .eps = config_.rms_eps,
               .conv_offset = w.conv_offset,
               .log_offset = w.log_offset};
  if (tap_) {
    args.embedding = scratch_->ple_embedding;
    args.added = scratch_->ple_added;
  }
  HF_RETURN_IF_ERROR(backend_->Ple(args));
  HF_RETURN_IF_ERROR(EmitTap("ple_embd", layer.index, scratch_->ple_embedding, rows.n_rows,
                             ple.embedding_width()));
  return EmitTap("ple_out", layer.index, scratch_->ple_added, rows.n_rows, config_.hc_width());
}

Status Model::RunOutputRound(std::span<const int32_t> rows) {
  const Scratch& s = *scratch_;
  const int64_t n = static_cast<int64_t>(rows.size());
  HF_RETURN_IF_ERROR(backend_->GatherRows(
      {.src = s.x, .dst = s.x_out, .rows = rows, .row_bytes = config_.hc_width() * sizeof(float)}));
  HF_RETURN_IF_ERROR(backend_->HcRead({.x = s.x_out,
                                       .norm = output_hc_->norm,
                                       .down = output_hc_->down,
                                       .up = output_hc_->up,
                                       .out = s.mixed,
                                       .n_rows = n,
                                       .n_streams = config_.hc_streams,
                                       .dim = config_.hidden_size,
                                       .eps = config_.rms_eps}));
  return backend_->MatMul({.x = s.mixed, .n_rows = n, .outputs = {{output_, s.logits}}});
}

Status Model::RunOutput(std::span<const int32_t> rows, std::span<float> logits,
                        std::span<float> mixed) {
  const Scratch& s = *scratch_;
  const int64_t dim = config_.hidden_size, vocab = config_.vocab_size;
  const int64_t n_out = static_cast<int64_t>(rows.size());
  const int64_t step = max_outputs();
  for (int64_t begin = 0; begin < n_out; begin += step) {
    const int64_t n = std::min(step, n_out - begin);
    HF_RETURN_IF_ERROR(RunOutputRound(rows.subspan(begin, n)));
    HF_RETURN_IF_ERROR(backend_->Download(
        s.logits, std::as_writable_bytes(logits.subspan(begin * vocab, n * vocab))));
    if (!mixed.empty()) {
      HF_RETURN_IF_ERROR(
          backend_->Download(s.mixed, std::as_writable_bytes(mixed.subspan(begin * dim, n * dim))));
    }
  }
  return OkStatus();
}

Status Model::ReduceOutput(const Batch& batch) {
  if (batch.reduced_rows.empty()) return OkStatus();
  const std::span<const int32_t> rows(batch.reduced_rows);
  const size_t step = static_cast<size_t>(max_outputs());
  std::vector<float> row(static_cast<size_t>(config_.vocab_size));
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(row));
  for (size_t begin = 0; begin < rows.size(); begin += step) {
    const size_t n = std::min(step, rows.size() - begin);
    HF_RETURN_IF_ERROR(RunOutputRound(rows.subspan(begin, n)));
    for (size_t i = 0; i < n; ++i) {
      const BufferRef from{scratch_->logits.buffer, scratch_->logits.offset + i * bytes.size()};
      HF_RETURN_IF_ERROR(backend_->Download(from, bytes));
      HF_RETURN_IF_ERROR(backend_->Synchronize());
      batch.reduce(begin + i, row);
    }
  }
  return OkStatus();
}

Status Model::EmitRows(const Batch& batch, std::span<const float> logits) {
  const int64_t vocab = config_.vocab_size;
  std::vector<std::pair<const SequenceRows*, int64_t>> rows;  // whose, and at which position
  for (const SequenceRows& sequence : batch.sequences) {
    for (int64_t i = 0; i < sequence.n_rows(); ++i) {
      rows.emplace_back(&sequence, sequence.first_position + i);
    }
  }
  const int64_t n_rows = static_cast<int64_t>(rows.size());
  std::vector<int32_t> indices(std::min(max_outputs(), n_rows));
  std::vector<float> some(indices.size() * vocab);
  for (int64_t begin = 0; begin < n_rows; begin += max_outputs()) {
    const int64_t n = std::min(max_outputs(), n_rows - begin);
    std::iota(indices.begin(), indices.end(), static_cast<int32_t>(begin));
    const std::span<float> out = std::span(some).first(n * vocab);
    HF_RETURN_IF_ERROR(RunOutput(std::span(indices).first(n), out, {}));
    HF_RETURN_IF_ERROR(backend_->Synchronize());
    for (int64_t i = 0; i < n; ++i) {
      const auto& [sequence, position] = rows[begin + i];
      row_observer_({*sequence, position, out.subspan(i * vocab, vocab), false});
    }
  }
  for (size_t i = 0; i < batch.output_rows.size(); ++i) {
    const auto& [sequence, position] = rows[batch.output_rows[i]];
    row_observer_({*sequence, position, logits.subspan(i * vocab, vocab), true});
  }
  return OkStatus();
}

Status Model::EmitTap(std::string_view what, int layer, BufferRef ref, int64_t n_rows,
                      int64_t n_cols, bool integers) {
  if (!tap_) return OkStatus();
  std::vector<float> values(n_rows * n_cols);
  HF_RETURN_IF_ERROR(backend_->Download(ref, std::as_writable_bytes(std::span(values))));
  const std::span<const int32_t> as_integers(reinterpret_cast<const int32_t*>(values.data()),
                                             integers ? values.size() : 0);
  tap_({.what = what,
        .layer = layer,
        .n_rows = n_rows,
        .n_cols = n_cols,
        .values = integers ? std::span<const float>() : std::span<const float>(values),
        .integers = as_integers});
  return OkStatus();
}

}  // namespace holdfast

#include <algorithm>
#include <cmath>

#include "model/model_parts.h"

namespace holdfast {
namespace {

struct Guess {
  int32_t token;
  float probability;
};

// The best token and its softmax probability. Only an estimate (it decides how far to draft, never
// what is answered): terms below e^-16 of the best are left out.
Guess BestToken(std::span<const float> logits) {
  const auto best = std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) {
    if (logit > *best - 16.0f) sum += std::exp(static_cast<double>(logit - *best));
  }
  return {static_cast<int32_t>(best - logits.begin()), static_cast<float>(1.0 / sum)};
}

}  // namespace

// Gathers pairs (token, streams of the row before) into the head's input.
Status Model::RunDraftInput(std::span<const DraftRows> sequences, std::vector<int32_t>* tokens,
                            std::vector<Segment>* segments) {
  const size_t row_bytes = config_.hc_width() * sizeof(float);
  for (const DraftRows& sequence : sequences) {
    const size_t row_begin = tokens->size();
    segments->push_back({.row_begin = static_cast<int64_t>(row_begin),
                         .n_rows = sequence.n_rows,
                         .first_position = sequence.first_position,
                         .running = sequence.running,
                         .pages = sequence.pages});
    const auto ids = sequence.tokens.subspan(sequence.first_position, sequence.n_rows);
    tokens->insert(tokens->end(), ids.begin(), ids.end());
    const BufferRef to{scratch_->draft_hidden.buffer,
                       scratch_->draft_hidden.offset + row_begin * row_bytes};
    HF_RETURN_IF_ERROR(
        backend_->Copy({.src = sequence.first_hidden, .dst = to, .bytes = row_bytes}));
    if (sequence.n_rows > 1) {
      HF_RETURN_IF_ERROR(backend_->Copy({.src = sequence.hidden,
                                         .dst = {to.buffer, to.offset + row_bytes},
                                         .bytes = (sequence.n_rows - 1) * row_bytes}));
    }
    if (sequence.hidden.buffer != nullptr) {
      HF_RETURN_IF_ERROR(
          backend_->Copy({.src = {sequence.hidden.buffer,
                                  sequence.hidden.offset + (sequence.n_rows - 1) * row_bytes},
                          .dst = {sequence.running, draft_->handover_offset},
                          .bytes = row_bytes}));
    }
  }
  return backend_->DraftInput({.table = draft_->token_embd,
                               .proj = draft_->proj,
                               .tokens = *tokens,
                               .hidden = scratch_->draft_hidden,
                               .embed_norm = draft_->embed_norm,
                               .hidden_norm = draft_->hidden_norm,
                               .norm_per_stream = options_.draft_norm_per_stream,
                               .x = scratch_->x,
                               .n_rows = static_cast<int64_t>(tokens->size()),
                               .n_streams = config_.hc_streams,
                               .dim = config_.hidden_size,
                               .eps = config_.rms_eps});
}

Status Model::RunDraftCells(std::span<const DraftRows> sequences) {
  std::vector<int32_t> tokens;
  std::vector<Segment> segments;
  const auto run = [&]() -> Status {
    HF_RETURN_IF_ERROR(RunDraftInput(sequences, &tokens, &segments));
    const StepRows rows{.n_rows = static_cast<int64_t>(tokens.size()),
                        .segments = segments,
                        .page_tokens = draft_layout_.page_tokens()};
    HF_RETURN_IF_ERROR(RunHcRead(draft_->layer.hc_attn, rows.n_rows));
    const Layer::Qsa& w = *draft_->layer.qsa;
    const auto& s = scratch_->qsa;
    HF_RETURN_IF_ERROR(backend_->MatMul(
        {.x = scratch_->u, .n_rows = rows.n_rows, .outputs = {{w.k, s.k}, {w.v, s.v}}}));
    return backend_->QsaAppend({.rows = rows,
                                .cells = w.cells,
                                .rope = {.dims = config_.rope_dims, .theta = config_.rope_theta},
                                .eps = config_.rms_eps,
                                .k = s.k,
                                .v = s.v,
                                .k_norm = w.k_norm,
                                .rope_shift = w.rope_shift});
  };
  const Status queued = run();
  const Status done = backend_->Synchronize();  // before `tokens` and `segments` go away
  return queued.ok() ? done : queued;
}

Status Model::Commit(std::span<const SequenceRows> sequences, std::span<const int64_t> n_rows) {
  HF_CHECK(sequences.size() == n_rows.size());
  std::vector<CommitSegment> segments;
  std::vector<DraftRows> followers;
  std::vector<std::vector<int32_t>> tokens(sequences.size());
  for (size_t i = 0; i < sequences.size(); ++i) {
    const SequenceRows& sequence = sequences[i];
    HF_CHECK(n_rows[i] >= 1 && n_rows[i] <= sequence.n_rows());
    segments.push_back({.running = sequence.running,
                        .log = sequence.log,
                        .first_position = sequence.first_position,
                        .n_rows = n_rows[i]});
    if (sequence.draft_running == nullptr) continue;
    // Only the tokens of the rows are looked at.
    tokens[i].assign(sequence.tokens.begin(), sequence.tokens.end());
    tokens[i].insert(tokens[i].end(), sequence.drafts.begin(), sequence.drafts.end());
    followers.push_back({.tokens = tokens[i],
                         .first_position = sequence.first_position,
                         .n_rows = n_rows[i],
                         .running = sequence.draft_running,
                         .pages = sequence.draft_pages,
                         .first_hidden = {sequence.draft_running, draft_->handover_offset},
                         .hidden = {sequence.log, log_hidden_offset_}});
  }
  const Status queued = backend_->Commit(
      {.segments = segments, .gdn = commit_gdn_, .convs = commit_convs_, .tails = commit_tails_});
  const Status done = backend_->Synchronize();
  if (!queued.ok() || !done.ok()) return queued.ok() ? done : queued;
  if (!followers.empty()) HF_RETURN_IF_ERROR(RunDraftCells(followers));
  return CheckReads();
}

// One guess for each sequence (one row each).
Status Model::RunDraftStep(std::span<const DraftRows> sequences, std::span<float> logits) {
  std::vector<int32_t> tokens;
  std::vector<Segment> segments;
  const auto run = [&]() -> Status {
    HF_RETURN_IF_ERROR(RunDraftInput(sequences, &tokens, &segments));
    const StepRows rows{.n_rows = static_cast<int64_t>(tokens.size()),
                        .segments = segments,
                        .page_tokens = draft_layout_.page_tokens()};
    const int layer = draft_->layer.index;
    HF_RETURN_IF_ERROR(EmitTap("draft.fused", layer, scratch_->x, rows.n_rows, config_.hc_width()));
    HF_RETURN_IF_ERROR(RunLayer(draft_->layer, rows));
    HF_RETURN_IF_ERROR(backend_->HcRead({.x = scratch_->x,
                                         .norm = draft_->output_hc.norm,
                                         .down = draft_->output_hc.down,
                                         .up = draft_->output_hc.up,
                                         .out = scratch_->mixed,
                                         .n_rows = rows.n_rows,
                                         .n_streams = config_.hc_streams,
                                         .dim = config_.hidden_size,
                                         .eps = config_.rms_eps}));
    HF_RETURN_IF_ERROR(backend_->MatMul({.x = scratch_->mixed,
                                         .n_rows = rows.n_rows,
                                         .outputs = {{draft_->output, scratch_->logits}}}));
    HF_RETURN_IF_ERROR(
        EmitTap("draft.logits", layer, scratch_->logits, rows.n_rows, draft_->output->n_rows()));
    return backend_->Download(scratch_->logits, std::as_writable_bytes(logits));
  };
  const Status queued = run();
  const Status done = backend_->Synchronize();
  return queued.ok() ? done : queued;
}

Result<std::vector<std::vector<int32_t>>> Model::Draft(std::span<const DraftSequence> sequences,
                                                       float min_probability) {
  HF_CHECK(draft_ != nullptr);
  const size_t row_bytes = config_.hc_width() * sizeof(float);
  const int64_t vocab = draft_->output->n_rows();
  std::vector<std::vector<int32_t>> drafts(sequences.size());
  std::vector<std::vector<int32_t>> tokens;
  struct Chain {
    size_t sequence;
    BufferRef hidden;          // streams that the next guess starts from
    float probability = 1.0f;  // that all of its guesses are right, as the head sees it
  };
  std::vector<Chain> chains;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const DraftSequence& sequence = sequences[i];
    tokens.emplace_back(sequence.tokens.begin(), sequence.tokens.end());
    if (sequence.max_drafts > 0) {
      chains.push_back({i, {sequence.draft_running, draft_->handover_offset}});
    }
  }
  while (!chains.empty()) {
    const size_t n = std::min<size_t>(chains.size(), max_outputs());
    std::vector<DraftRows> rows;
    for (const Chain& chain : std::span(chains).first(n)) {
      const DraftSequence& sequence = sequences[chain.sequence];
      const auto& ids = tokens[chain.sequence];
      rows.push_back({.tokens = ids,
                      .first_position = static_cast<int64_t>(ids.size()) - 1,
                      .n_rows = 1,
                      .running = sequence.draft_running,
                      .pages = sequence.draft_pages,
                      .first_hidden = chain.hidden});
    }
    std::vector<float> logits(n * vocab);
    HF_RETURN_IF_ERROR(RunDraftStep(rows, logits));
    std::vector<Chain> next(chains.begin() + n, chains.end());
    const bool more_waiting = !next.empty();
    for (size_t r = 0; r < n; ++r) {
      const Guess guess = BestToken(std::span(logits).subspan(r * vocab, vocab));
      const size_t i = chains[r].sequence;
      const float probability = chains[r].probability * guess.probability;
      if (!(probability >= min_probability)) continue;
      drafts[i].push_back(guess.token);
      tokens[i].push_back(guess.token);
      // The head's own streams go on from here; they last until the next step overwrites x.
      if (static_cast<int64_t>(drafts[i].size()) < sequences[i].max_drafts && !more_waiting) {
        next.push_back({i, {scratch_->x.buffer, scratch_->x.offset + r * row_bytes}, probability});
      }
    }
    chains = std::move(next);
  }
  return drafts;
}

}  // namespace holdfast

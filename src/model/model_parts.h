#ifndef HOLDFAST_MODEL_MODEL_PARTS_H_
#define HOLDFAST_MODEL_MODEL_PARTS_H_

// What model.h keeps hidden: weights of a layer as the backend knows them, and scratch.

#include <optional>

#include "model/model.h"

namespace holdfast {

struct Model::Hc {
  BufferRef norm;
  const Weight* down = nullptr;
  const Weight* up = nullptr;
  const Weight* inject = nullptr;  // null: the final mixer
};

struct Model::GdnLayer {
  const Weight *qkv, *gate, *beta, *alpha, *out;
  BufferRef a, dt_bias, conv, norm;
  size_t state_offset, conv_offset;
  GdnLog log;
};

struct Model::QsaLayer {
  const Weight *q, *k, *v, *out, *index_q, *index_k;
  BufferRef q_norm, k_norm, index_q_norm, index_k_norm;
  QsaCells cells;
  int64_t first_cell = 0, window = 0, rope_shift = 0;
};

struct Model::PleLayer {
  const Weight *table, *key, *value;
  BufferRef norm_key, norm_query, norm_conv, conv;
  size_t conv_offset, log_offset = 0;
};

struct Model::Layer {
  using Gdn = GdnLayer;
  using Qsa = QsaLayer;
  using Ple = PleLayer;

  int index = 0;
  Hc hc_attn, hc_ffn;
  std::optional<Gdn> gdn;
  std::optional<Qsa> qsa;
  std::optional<Ple> ple;
  const Weight *router, *expert_gate, *expert_up, *expert_down;
  const Weight *shared_gate, *shared_up, *shared_down, *shared_inject;
};

struct Model::DraftHead {
  Layer layer;
  Hc output_hc;
  const Weight *token_embd, *output, *proj;
  BufferRef embed_norm, hidden_norm;
  size_t handover_offset;
};

// Rows [first_position, tokens.size()) of one conversation in the draft head. Slot j pairs the
// trunk's streams of row j - 1 with token j: the first row's are the handed-over ones (or what the
// head itself gave for the row before), the others follow at `hidden`.
struct Model::DraftRows {
  std::span<const int32_t> tokens;
  int64_t first_position = 0;
  int64_t n_rows = 0;
  Buffer* running = nullptr;
  std::span<Buffer* const> pages;
  BufferRef first_hidden;  // [streams, hidden] of the first row
  BufferRef hidden;  // [n_rows, streams, hidden] of the rows themselves; the last is handed over
};

// Buffers of one step, sized for max_rows. GDN and QSA layers use the same memory in turn.
struct Model::Scratch {
  BufferRef x;       // [rows, streams, hidden]
  BufferRef u;       // [rows, hidden] input of a sub-block
  BufferRef inject;  // [rows, streams]
  BufferRef o;       // [rows, hidden] output of a sub-block
  struct {
    BufferRef qkv, z, b, a, out;
  } gdn;
  struct {
    BufferRef q_gate, k, v, index_q, index_k, q, out;
  } qsa;
  BufferRef draft_hidden;  // [rows, streams, hidden]
  // Output rows, max_outputs() at a time.
  BufferRef x_out, mixed, logits;
  // Only written while a tap is set.
  BufferRef router_logits, router_ids, router_weights, selected, ple_embedding, ple_added;
};

}  // namespace holdfast

#endif  // HOLDFAST_MODEL_MODEL_PARTS_H_

#ifndef HOLDFAST_STATE_TESTING_TOY_MODEL_H_
#define HOLDFAST_STATE_TESTING_TOY_MODEL_H_

// A stand-in for the model in tests: it has a running state, writes one cell per token and attends
// to every cell, so that a page or a running state that is not the right one changes its answer.

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"
#include "ops/cpu/cpu_backend.h"
#include "state/layout.h"
#include "state/state_cache.h"

namespace holdfast::testing {

inline ModelConfig ToyConfig() {
  ModelConfig c;
  c.n_layers = 2;
  c.n_mtp_layers = 1;
  c.hidden_size = 16;
  c.layer_kinds = {LayerKind::kGdn, LayerKind::kQsa, LayerKind::kQsa};
  c.block_ratio = {0, 4, 4};
  c.n_heads = 2, c.n_kv_heads = 1, c.head_dim = 16;
  c.n_index_heads = 1, c.index_dim = 8, c.index_budget = 64;
  c.gdn_conv_kernel = 4, c.gdn_n_key_heads = 1, c.gdn_n_value_heads = 1, c.gdn_head_dim = 8;
  c.hc_streams = 2;
  return c;
}

inline uint64_t Mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15ull;
  return h ^ (h >> 29);
}

// What a conversation of these tokens must answer, computed from nothing else.
inline uint64_t ExpectedAnswer(TokenView tokens, int64_t n) {
  uint64_t h = 0, answer = 0;
  for (int64_t i = 0; i < n; ++i) {
    h = Mix(h, static_cast<uint64_t>(tokens.key(i).id) + 1);
    answer = Mix(answer, h);
  }
  return Mix(answer, h);
}

class ToyModel {
 public:
  ToyModel(Backend* backend, const StateLayout* layout) : backend_(backend), layout_(layout) {}

  // Computes tokens [n_computed, end) of a conversation that PrepareWrite got ready, and fills the
  // cells of `n_rejected` more with what a rejected draft would leave there.
  void Step(Conversation* c, int64_t end, int64_t n_rejected = 0) {
    uint64_t h = Load(c->running(), 0);
    for (int64_t p = c->n_computed(); p < end; ++p) {
      h = Mix(h, static_cast<uint64_t>(c->tokens().key(p).id) + 1);
      StoreCell(*c, p, h);
      ++n_rows_;
    }
    for (int64_t p = end; p < end + n_rejected; ++p) StoreCell(*c, p, Mix(h, 0xBAD));
    Store(c->running(), 0, h);
    Store(c->running(), c->running()->bytes() - 8, h);
    if (c->draft_running() != nullptr) Store(c->draft_running(), 0, ~h);
  }

  // The row after n_computed tokens, from the cells and the running state.
  uint64_t Answer(const Conversation& c) {
    uint64_t answer = 0;
    for (int64_t p = 0; p < c.n_computed(); ++p) answer = Mix(answer, LoadCell(c, p));
    const uint64_t h = Load(c.running(), 0);
    HF_CHECK(Load(c.running(), c.running()->bytes() - 8) == h);
    if (c.has_draft()) HF_CHECK(Load(c.draft_running(), 0) == ~h);
    return Mix(answer, h);
  }

  int64_t n_rows() const { return n_rows_; }

 private:
  size_t CellOffset(int64_t p) const {
    const int64_t size = layout_->page_tokens();
    return static_cast<size_t>(p % size) * (layout_->page_bytes() / size / 8 * 8);
  }
  void StoreCell(const Conversation& c, int64_t p, uint64_t v) {
    const int64_t page = p / layout_->page_tokens();
    Store(c.page_buffers()[page], CellOffset(p), v);
    if (c.has_draft()) Store(c.draft_page_buffers()[page], p % layout_->page_tokens() * 8, ~v);
  }
  uint64_t LoadCell(const Conversation& c, int64_t p) {
    const int64_t page = p / layout_->page_tokens();
    const uint64_t v = Load(c.page_buffers()[page], CellOffset(p));
    if (c.has_draft()) {
      HF_CHECK(Load(c.draft_page_buffers()[page], p % layout_->page_tokens() * 8) == ~v);
    }
    return v;
  }
  void Store(Buffer* buffer, size_t offset, uint64_t v) {
    HF_CHECK(backend_->Upload({buffer, offset}, std::as_bytes(std::span(&v, 1))).ok());
  }
  uint64_t Load(Buffer* buffer, size_t offset) {
    uint64_t v = 0;
    HF_CHECK(backend_->Download({buffer, offset}, std::as_writable_bytes(std::span(&v, 1))).ok());
    return v;
  }

  Backend* backend_;
  const StateLayout* layout_;
  int64_t n_rows_ = 0;
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_STATE_TESTING_TOY_MODEL_H_

#include <algorithm>
#include <cstring>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/indexer_tail.h"
#include "ops/cpu/kv_cells.h"
#include "ops/rope.h"

namespace holdfast {
namespace {

// Where position p's cells of one KV head start.
struct CellPlace {
  std::byte* codes;
  std::byte* scales;
};

CellPlace PlaceOf(const Segment& segment, int page_tokens, const QsaCells& cells, bool key,
                  int64_t head, int64_t position) {
  Buffer* page = segment.pages[position / page_tokens];
  const int64_t vector = head * page_tokens + position % page_tokens;
  return {HostBytes({page, key ? cells.k_offset : cells.v_offset}) +
              vector * CellCodeBytes(cells.format, cells.head_dim),
          HostBytes({page, key ? cells.k_scale_offset : cells.v_scale_offset}) +
              vector * CellScaleBytes(cells.format, cells.head_dim)};
}

// The mean of a completed block's raw keys, in ascending position. Keys from before this step come
// from the tail, where the key of position p has slot p % ratio.
void MeanRawKey(const QsaCells& cells, const float* tail, const float* rows, int64_t last_row,
                int64_t last_position, float* mean) {
  const int64_t dim = cells.index_dim;
  for (int64_t j = 0; j < cells.ratio; ++j) {
    const int64_t row = last_row - (cells.ratio - 1) + j;
    const float* raw = row < 0 ? tail + (last_position - (cells.ratio - 1) + j) % cells.ratio * dim
                               : rows + row * dim;
    for (int64_t d = 0; d < dim; ++d) mean[d] = j == 0 ? raw[d] : mean[d] + raw[d];
  }
  for (int64_t d = 0; d < dim; ++d) mean[d] /= static_cast<float>(cells.ratio);
}

}  // namespace

Status CpuBackend::QsaAppend(const QsaAppendArgs& args) {
  scratch_.Reset();
  const QsaCells& cells = args.cells;
  const Rope rope(args.rope.dims, args.rope.theta);
  const int64_t dim = cells.head_dim, half = args.rope.dims / 2;
  const int page_tokens = args.rows.page_tokens;
  float* q = args.q.buffer == nullptr ? nullptr : HostData(args.q);
  float* k = HostData(args.k);
  float* v = HostData(args.v);
  const float* q_gate = q == nullptr ? nullptr : HostData(args.q_gate);
  float* angles = scratch_.Get<float>(args.rows.n_rows * 2 * half);

  for (const Segment& segment : args.rows.segments) {
    pool_.For(segment.n_rows, [&](int64_t i, int) {
      const int64_t row = segment.row_begin + i, position = segment.first_position + i;
      float* cos = angles + row * 2 * half;
      float* sin = cos + half;
      rope.Angles(position + args.rope_shift, cos, sin);
      for (int64_t h = 0; q != nullptr && h < args.n_heads; ++h) {
        float* out = q + (row * args.n_heads + h) * dim;
        kernels_->rms_norm(q_gate + (row * args.n_heads + h) * 2 * dim, HostData(args.q_norm), dim,
                           args.eps, out);
        Rope::Rotate(cos, sin, args.rope.dims, out);
      }
      for (int64_t h = 0; h < cells.n_kv_heads; ++h) {
        float* key = k + (row * cells.n_kv_heads + h) * dim;
        kernels_->rms_norm(key, HostData(args.k_norm), dim, args.eps, key);
        Rope::Rotate(cos, sin, args.rope.dims, key);
        const CellPlace k_place = PlaceOf(segment, page_tokens, cells, true, h, position);
        WriteCell(cells.format, key, dim, k_place.codes, k_place.scales);
        const CellPlace v_place = PlaceOf(segment, page_tokens, cells, false, h, position);
        WriteCell(cells.format, v + (row * cells.n_kv_heads + h) * dim, dim, v_place.codes,
                  v_place.scales);
      }
      if (cells.ratio == 0) return;
      for (int64_t h = 0; h < args.n_index_heads; ++h) {
        float* iq = HostData(args.index_q) + (row * args.n_index_heads + h) * cells.index_dim;
        kernels_->rms_norm(iq, HostData(args.index_q_norm), cells.index_dim, args.eps, iq);
        Rope::Rotate(cos, sin, args.rope.dims, iq);
      }
    });
    if (cells.ratio == 0) continue;

    const float* raw = HostData(args.index_k) + segment.row_begin * cells.index_dim;
    float* tail = HostData({segment.running, cells.tail_offset});
    const int64_t blocks_per_page = page_tokens / cells.ratio;
    pool_.For(segment.n_rows, [&](int64_t i, int thread) {
      const int64_t position = segment.first_position + i;
      if ((position + 1) % cells.ratio != 0) return;
      Scratch& local = thread_scratch_[thread];
      local.Reset();
      float* key = local.Get<float>(cells.index_dim);
      float* cos = local.Get<float>(2 * half);
      MeanRawKey(cells, tail, raw, i, position, key);
      kernels_->rms_norm(key, HostData(args.index_k_norm), cells.index_dim, args.eps, key);
      rope.Angles(position - (cells.ratio - 1) + args.rope_shift, cos, cos + half);
      Rope::Rotate(cos, cos + half, args.rope.dims, key);
      float* pooled = HostData({segment.pages[position / page_tokens], cells.pooled_offset}) +
                      position % page_tokens / cells.ratio;
      for (int64_t d = 0; d < cells.index_dim; ++d) pooled[d * blocks_per_page] = key[d];
    });
    if (segment.log != nullptr) {
      std::memcpy(HostData({segment.log, cells.log_offset}), raw,
                  segment.n_rows * cells.index_dim * sizeof(float));
      continue;
    }
    UpdateIndexerTail(cells.ratio, cells.index_dim, segment.first_position, segment.n_rows, raw,
                      tail);
  }
  return OkStatus();
}

}  // namespace holdfast

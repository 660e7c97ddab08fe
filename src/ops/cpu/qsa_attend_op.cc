#include <algorithm>
#include <cmath>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/kv_cells.h"
#include "ops/cpu/top_blocks.h"

namespace holdfast {
namespace {

// Rows that are scored together; bounds the scratch for scores to kRowGroup * n_blocks floats.
constexpr int64_t kRowGroup = 16;

// One query row of a step and what it sees.
struct Query {
  const Segment* segment;
  int64_t row;  // in the step
  int64_t first_visible;
  int64_t n_visible;  // its position + 1
  int64_t n_blocks;   // complete ones
  bool scored;        // more blocks than the budget: some are left out
  float* scores;      // [n_blocks] when scored
  int32_t* chosen;    // [n_chosen] ascending
  int64_t n_chosen;
};

// Selected cells as runs inside pages, ascending: (page, first cell in it, cells).
struct PageRun {
  int64_t page, first, n;
};

int64_t FirstVisible(const QsaAttendArgs& args, int64_t n_visible) {
  if (args.cells.ratio != 0) return 0;
  return std::max(args.first_cell, args.window == 0 ? 0 : n_visible - args.window);
}

void AddRun(int64_t position, int64_t n, int page_tokens, std::vector<PageRun>* runs) {
  while (n > 0) {
    const int64_t page = position / page_tokens, first = position % page_tokens;
    const int64_t here = std::min<int64_t>(n, page_tokens - first);
    if (!runs->empty() && runs->back().page == page &&
        runs->back().first + runs->back().n == first) {
      runs->back().n += here;
    } else {
      runs->push_back({page, first, here});
    }
    position += here;
    n -= here;
  }
}

int64_t BuildRuns(const Query& query, int ratio, int page_tokens, std::vector<PageRun>* runs) {
  runs->clear();
  if (!query.scored) {
    const int64_t n = query.n_visible - query.first_visible;
    AddRun(query.first_visible, n, page_tokens, runs);
    return n;
  }
  for (int64_t i = 0; i < query.n_chosen; ++i) {
    AddRun(int64_t{query.chosen[i]} * ratio, ratio, page_tokens, runs);
  }
  const int64_t tail = query.n_blocks * ratio;
  AddRun(tail, query.n_visible - tail, page_tokens, runs);
  return query.n_chosen * ratio + query.n_visible - tail;
}

// The same runs as addresses of one KV head's cells.
void PlaceRuns(const std::vector<PageRun>& runs, const Segment& segment, const QsaCells& cells,
               int page_tokens, int64_t kv_head, CellRun* out) {
  const int64_t code_bytes = CellCodeBytes(cells.format, cells.head_dim);
  const int64_t scale_bytes = CellScaleBytes(cells.format, cells.head_dim);
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::byte* page = HostBytes({segment.pages[runs[i].page], 0});
    const int64_t vector = kv_head * page_tokens + runs[i].first;
    out[i] = {.k = page + cells.k_offset + vector * code_bytes,
              .v = page + cells.v_offset + vector * code_bytes,
              .k_scales = page + cells.k_scale_offset + vector * scale_bytes,
              .v_scales = page + cells.v_scale_offset + vector * scale_bytes,
              .n = runs[i].n};
  }
}

}  // namespace

Status CpuBackend::QsaAttend(const QsaAttendArgs& args) {
  const QsaCells& cells = args.cells;
  const int page_tokens = args.rows.page_tokens;
  const int64_t dim = cells.head_dim;
  const int64_t group = args.n_heads / cells.n_kv_heads;
  const int64_t budget = cells.ratio == 0 ? 0 : args.budget / cells.ratio;
  const int64_t blocks_per_page = cells.ratio == 0 ? 0 : page_tokens / cells.ratio;
  const bool integer_scores =
      cells.format == KvFormat::kInt8 && activations_ != ActivationFormat::kF32;
  // Few rows: heads of a group are split further so that every thread has work.
  int64_t n_splits = 1;
  while (kRowGroup * cells.n_kv_heads * n_splits < 2 * pool_.n_threads() && n_splits * 2 <= group &&
         group % (n_splits * 2) == 0) {
    n_splits *= 2;
  }
  const int64_t heads = group / n_splits;
  const float* q = HostData(args.q);
  const float* q_gate = HostData(args.q_gate);
  const float* index_q = cells.ratio == 0 ? nullptr : HostData(args.index_q);
  float* out = HostData(args.out);
  const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)));

  std::vector<Query> queries;
  for (const Segment& segment : args.rows.segments) {
    for (int64_t i = 0; i < segment.n_rows; ++i) {
      const int64_t n_visible = segment.first_position + i + 1;
      const int64_t n_blocks = cells.ratio == 0 ? 0 : n_visible / cells.ratio;
      queries.push_back({.segment = &segment,
                         .row = segment.row_begin + i,
                         .first_visible = FirstVisible(args, n_visible),
                         .n_visible = n_visible,
                         .n_blocks = n_blocks,
                         .scored = cells.ratio != 0 && n_blocks > budget,
                         .n_chosen = std::min(n_blocks, budget)});
    }
  }

  for (size_t begin = 0; begin < queries.size(); begin += kRowGroup) {
    const std::span<Query> some(&queries[begin],
                                std::min<size_t>(kRowGroup, queries.size() - begin));
    scratch_.Reset();
    int64_t max_pages = 0;
    for (Query& query : some) {
      if (!query.scored) continue;
      query.scores = scratch_.Get<float>(query.n_blocks);
      query.chosen = scratch_.Get<int32_t>(budget);
      max_pages = std::max(max_pages, (query.n_blocks + blocks_per_page - 1) / blocks_per_page);
    }
    if (max_pages > 0) {
      pool_.For(static_cast<int64_t>(some.size()) * max_pages, [&](int64_t task, int) {
        const Query& query = some[task % some.size()];
        const int64_t page = task / static_cast<int64_t>(some.size());
        const int64_t first = page * blocks_per_page;
        if (!query.scored || first >= query.n_blocks) return;
        kernels_->index_scores(index_q + query.row * args.n_index_heads * cells.index_dim,
                               args.n_index_heads, cells.index_dim,
                               HostData({query.segment->pages[page], cells.pooled_offset}),
                               blocks_per_page, std::min(blocks_per_page, query.n_blocks - first),
                               query.scores + first);
      });
      pool_.For(static_cast<int64_t>(some.size()), [&](int64_t task, int thread) {
        const Query& query = some[task];
        if (!query.scored) return;
        Scratch& local = thread_scratch_[thread];
        local.Reset();
        TopBlocks(query.scores, query.n_blocks, query.n_chosen, local.Get<uint32_t>(query.n_blocks),
                  query.chosen);
      });
    }

    const int64_t tasks_per_row = cells.n_kv_heads * n_splits;
    pool_.For(static_cast<int64_t>(some.size()) * tasks_per_row, [&](int64_t task, int thread) {
      const Query& query = some[task / tasks_per_row];
      const int64_t kv_head = task % tasks_per_row / n_splits;
      const int64_t first_head = kv_head * group + task % n_splits * heads;
      thread_local std::vector<PageRun> page_runs;
      const int64_t n_cells = BuildRuns(query, cells.ratio, page_tokens, &page_runs);
      Scratch& local = thread_scratch_[thread];
      local.Reset();
      auto* runs = local.Get<CellRun>(static_cast<int64_t>(page_runs.size()));
      PlaceRuns(page_runs, *query.segment, cells, page_tokens, kv_head, runs);
      const float* head_q = q + (query.row * args.n_heads + first_head) * dim;
      float* head_out = out + (query.row * args.n_heads + first_head) * dim;
      AttentionSlice slice{.format = cells.format,
                           .head_dim = dim,
                           .n_heads = heads,
                           .q = head_q,
                           .scale = scale,
                           .runs = runs,
                           .n_runs = static_cast<int64_t>(page_runs.size()),
                           .n_cells = n_cells,
                           .scores = local.Get<float>(heads * n_cells),
                           .out = head_out};
      if (integer_scores) {
        const int64_t g = CellGroup(dim);
        auto* codes = local.Get<int8_t>(heads * dim);
        auto* scales = local.Get<float>(heads * dim / g);
        for (int64_t i = 0; i < heads * dim / g; ++i) {
          QuantizeGroup(head_q + i * g, g, codes + i * g, scales + i);
        }
        slice.q_codes = codes;
        slice.q_scales = scales;
      }
      kernels_->attention(slice);
      for (int64_t h = 0; h < heads; ++h) {
        const float* gate = q_gate + ((query.row * args.n_heads + first_head + h) * 2 + 1) * dim;
        kernels_->sigmoid_mul(head_out + h * dim, gate, dim, head_out + h * dim);
      }
    });

    if (args.selected.buffer != nullptr) {
      for (const Query& query : some) {
        int32_t* selected = HostData<int32_t>(args.selected) + query.row * budget;
        for (int64_t i = 0; i < budget; ++i) {
          selected[i] = i >= query.n_chosen ? -1
                        : query.scored      ? query.chosen[i]
                                            : static_cast<int32_t>(i);
        }
      }
    }
  }
  return OkStatus();
}

}  // namespace holdfast

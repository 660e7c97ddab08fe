#include <algorithm>
#include <cstring>

#include "ops/cpu/conv_history.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/indexer_tail.h"
#include "weights/dequantize.h"

namespace holdfast {

Status CpuBackend::DraftInput(const DraftInputArgs& args) {
  scratch_.Reset();
  const WeightView& table = args.table->view();
  const int64_t dim = args.dim, width = args.n_streams * dim;
  const float* hidden = HostData(args.hidden);
  // One row [embedding ; hidden] of the product for each stream.
  float* input = scratch_.Get<float>(args.n_rows * args.n_streams * 2 * dim);
  pool_.For(args.n_rows, [&](int64_t row, int thread) {
    Scratch& local = thread_scratch_[thread];
    local.Reset();
    float* embedding = local.Get<float>(dim);
    float* normed = local.Get<float>(width);
    DequantizeRow(table.type, table.Row(args.tokens[row]), dim, embedding);
    kernels_->rms_norm(embedding, HostData(args.embed_norm), dim, args.eps, embedding);
    const int64_t n_norms = args.norm_per_stream ? args.n_streams : 1;
    const int64_t n = width / n_norms;
    for (int64_t i = 0; i < n_norms; ++i) {
      kernels_->rms_norm(hidden + row * width + i * n, HostData(args.hidden_norm) + i * n, n,
                         args.eps, normed + i * n);
    }
    for (int64_t s = 0; s < args.n_streams; ++s) {
      float* out = input + (row * args.n_streams + s) * 2 * dim;
      std::memcpy(out, embedding, dim * sizeof(float));
      std::memcpy(out + dim, normed + s * dim, dim * sizeof(float));
    }
  });
  const Product product[] = {
      {.weight = &args.proj->view(), .y = HostData(args.x), .y_stride = dim}};
  RunProducts(Prepare(input, args.n_rows * args.n_streams, 2 * dim, product), product);
  return OkStatus();
}

Status CpuBackend::Commit(const CommitArgs& args) {
  // Heads are independent; a task is one head of one layer of one segment.
  struct Head {
    const CommitSegment* segment;
    const CommitArgs::Gdn* gdn;
    int64_t head;
  };
  std::vector<Head> heads;
  for (const CommitSegment& segment : args.segments) {
    for (const CommitArgs::Gdn& gdn : args.gdn) {
      for (int64_t h = 0; h < gdn.n_value_heads; ++h) heads.push_back({&segment, &gdn, h});
    }
  }
  pool_.For(static_cast<int64_t>(heads.size()), [&](int64_t task, int) {
    const Head& t = heads[task];
    const CommitArgs::Gdn& gdn = *t.gdn;
    const int64_t dim = gdn.head_dim, key_head = t.head % gdn.n_key_heads;
    Buffer* log = t.segment->log;
    kernels_->gdn_commit(
        {.state = HostData({t.segment->running, gdn.state_offset}) + t.head * dim * dim,
         .state_stride = dim,
         .dk = dim,
         .n_v = dim,
         .n_tokens = t.segment->n_rows,
         .k_hat = HostData({log, gdn.log.k_hat_offset}) + key_head * dim,
         .k_stride = gdn.n_key_heads * dim,
         .delta = HostData({log, gdn.log.delta_offset}) + t.head * dim,
         .delta_stride = gdn.n_value_heads * dim,
         .decay = HostData({log, gdn.log.decay_offset}) + t.head,
         .gate_stride = gdn.n_value_heads});
  });
  for (const CommitSegment& segment : args.segments) {
    for (const CommitArgs::Conv& conv : args.convs) {
      ConvHistory(HostData({segment.running, conv.offset}), conv.n_kept, conv.width,
                  HostData({segment.log, conv.log_offset}))
          .Advance(segment.n_rows);
    }
    for (const CommitArgs::Tail& tail : args.tails) {
      UpdateIndexerTail(tail.ratio, tail.dim, segment.first_position, segment.n_rows,
                        HostData({segment.log, tail.log_offset}),
                        HostData({segment.running, tail.offset}));
    }
  }
  return OkStatus();
}

}  // namespace holdfast

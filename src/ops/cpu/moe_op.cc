#include <algorithm>
#include <cstring>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/scalar_math.h"

namespace holdfast {
namespace {

// One row's use of one expert. Pairs are sorted by expert, then row.
struct Pair {
  int32_t row;
  float weight;
};

// The n_used largest logits, ties to the lower id; best first.
void TopExperts(const float* logits, int64_t n_experts, int n_used, int32_t* ids) {
  int n = 0;
  for (int32_t e = 0; e < n_experts; ++e) {
    if (n == n_used && !(logits[e] > logits[ids[n - 1]])) continue;
    int place = n < n_used ? n++ : n - 1;
    for (; place > 0 && logits[e] > logits[ids[place - 1]]; --place) ids[place] = ids[place - 1];
    ids[place] = e;
  }
}

// softmax over the chosen ones: the sum over all experts cancels. Summed in ascending expert id.
void ExpertWeights(const float* logits, int n_used, const int32_t* ids, float* weights) {
  float e[kMaxExpertsUsed];
  int32_t order[kMaxExpertsUsed];
  for (int i = 0; i < n_used; ++i) {
    e[i] = Exp(logits[ids[i]] - logits[ids[0]]);
    order[i] = i;
  }
  std::sort(order, order + n_used, [&](int32_t a, int32_t b) { return ids[a] < ids[b]; });
  float sum = 0.0f;
  for (int i = 0; i < n_used; ++i) sum += e[order[i]];
  for (int i = 0; i < n_used; ++i) weights[i] = e[i] / sum;
}

// The two halves of a fused gate-and-up stack.
WeightView RowsOf(const WeightView& fused, int64_t first_row, int64_t n_rows) {
  WeightView half = fused;
  half.data = fused.Row(first_row);
  half.n_rows = n_rows;
  return half;
}

}  // namespace

void CpuBackend::ReadAheadExperts(const MoeArgs& args, const PreparedRows& rows) {
  constexpr int64_t kMaxRows = 16;  // a guess for each; of many rows all experts are wanted anyway
  if (args.n_rows > kMaxRows) return;
  const int64_t n_experts = args.next_router->n_rows();
  float* logits = scratch_.Get<float>(args.n_rows * n_experts);
  const Product products[] = {{&args.next_router->view(), true, logits, n_experts}};
  RunProducts(rows, products);
  auto* ids = scratch_.Get<int32_t>(args.n_rows * args.n_used);
  for (int64_t row = 0; row < args.n_rows; ++row) {
    TopExperts(logits + row * n_experts, n_experts, args.n_used, ids + row * args.n_used);
  }
  args.tier->Prefetch(args.tier_layer + 1, std::span(ids, args.n_rows * args.n_used));
}

Status CpuBackend::Moe(const MoeArgs& args) {
  scratch_.Reset();
  const WeightView& down = args.down->view();
  const int64_t dim = down.n_rows, ffn = down.n_cols, n_rows = args.n_rows;
  const int64_t n_experts = args.router->n_rows();
  const int n_used = args.n_used;
  const float* u = HostData(args.u);
  float* out = HostData(args.out);
  const WeightView gate = args.up ? args.gate->view() : RowsOf(args.gate->view(), 0, ffn);
  const WeightView up = args.up ? args.up->view() : RowsOf(args.gate->view(), ffn, ffn);

  // Router, the shared expert's first half, and its scalar gate, all from u.
  const int64_t shared_ffn = args.shared_down->n_cols();
  float* logits = args.router_logits.buffer ? HostData(args.router_logits)
                                            : scratch_.Get<float>(n_rows * n_experts);
  float* shared_gate = scratch_.Get<float>(n_rows * shared_ffn);
  float* shared_up = scratch_.Get<float>(n_rows * shared_ffn);
  float* shared_weight = scratch_.Get<float>(n_rows);
  const Product products[] = {
      {&args.router->view(), true, logits, n_experts},
      {&args.shared_inject->view(), true, shared_weight, 1},
      {&args.shared_gate->view(), false, shared_gate, shared_ffn},
      {&args.shared_up->view(), false, shared_up, shared_ffn},
      // Only so that the activations they need are prepared with the others.
      {&gate, false, nullptr, 0},
      {&up, false, nullptr, 0},
  };
  const PreparedRows rows = Prepare(u, n_rows, dim, products);
  RunProducts(rows, std::span(products, 4));

  int32_t* ids = args.router_ids.buffer ? HostData<int32_t>(args.router_ids)
                                        : scratch_.Get<int32_t>(n_rows * n_used);
  float* weights = args.router_weights.buffer ? HostData(args.router_weights)
                                              : scratch_.Get<float>(n_rows * n_used);
  pool_.For(n_rows, [&](int64_t row, int) {
    const float* row_logits = logits + row * n_experts;
    TopExperts(row_logits, n_experts, n_used, ids + row * n_used);
    ExpertWeights(row_logits, n_used, ids + row * n_used, weights + row * n_used);
    float* sg = shared_gate + row * shared_ffn;
    kernels_->swiglu(sg, shared_up + row * shared_ffn, shared_ffn, sg);
    kernels_->sigmoid(shared_weight + row, 1, shared_weight + row);
  });

  // Pairs by expert.
  const int64_t n_pairs = n_rows * n_used;
  auto* first = scratch_.Get<int64_t>(n_experts + 1);
  std::memset(first, 0, (n_experts + 1) * sizeof(int64_t));
  for (int64_t i = 0; i < n_pairs; ++i) ++first[ids[i] + 1];
  for (int64_t e = 0; e < n_experts; ++e) first[e + 1] += first[e];
  auto* pairs = scratch_.Get<Pair>(n_pairs);
  auto* pair_rows = scratch_.Get<int32_t>(n_pairs);
  auto* fill = scratch_.Get<int64_t>(n_experts);
  std::copy(first, first + n_experts, fill);
  for (int64_t row = 0; row < n_rows; ++row) {
    for (int j = 0; j < n_used; ++j) {
      const int64_t slot = fill[ids[row * n_used + j]]++;
      pairs[slot] = {static_cast<int32_t>(row), weights[row * n_used + j]};
      pair_rows[slot] = static_cast<int32_t>(row);
    }
  }
  auto* active = scratch_.Get<int32_t>(n_experts);
  int64_t n_active = 0;
  for (int32_t e = 0; e < n_experts; ++e) {
    if (first[e + 1] > first[e]) active[n_active++] = e;
  }

  // All experts at once, or as many as a tier has slots for; the order of the sum is the same.
  float* expert_gate = scratch_.Get<float>(n_pairs * ffn);
  float* expert_up = scratch_.Get<float>(n_pairs * ffn);
  const Product shared_down[] = {{.weight = &args.shared_down->view()}};
  const PreparedRows shared_hidden = Prepare(shared_gate, n_rows, shared_ffn, shared_down);
  int64_t n_group = n_active;
  for (int64_t group = 0; group < n_active; group += n_group) {
    if (args.tier) {
      n_group = args.tier->Pin(args.tier_layer, std::span(active + group, n_active - group));
      if (group == 0 && args.next_router) ReadAheadExperts(args, rows);
    }
    // Expert active[group + i] of a stack.
    const auto matrix = [&](const WeightView& stack, const std::byte* ExpertBytes::*part,
                            int64_t i) {
      WeightView one = stack.Mat(active[group + i]);
      if (args.tier) one.data = args.tier->Wait(i).*part;
      return one;
    };

    // Gate and up of every expert in use: each is read once for all of its rows.
    const int64_t slice = std::max<int64_t>(SliceRows(ffn * n_group * 2) / 32 * 32, 32);
    const int64_t n_slices = (ffn + slice - 1) / slice;
    pool_.For(n_group * n_slices * 2, [&](int64_t task, int) {
      int64_t i = task / (n_slices * 2);
      if (args.tier) i = args.tier->ready_first()[i];
      const int32_t e = active[group + i];
      const bool is_up = task / n_slices % 2 == 1;
      const WeightView one =
          is_up ? matrix(up, &ExpertBytes::up, i) : matrix(gate, &ExpertBytes::gate, i);
      const int64_t begin = task % n_slices * slice, end = std::min(begin + slice, ffn);
      RunSlice(one, 0, false, rows, pair_rows + first[e], 0, first[e + 1] - first[e], begin, end,
               (is_up ? expert_up : expert_gate) + first[e] * ffn + begin, ffn);
    });
    const int64_t first_pair = first[active[group]];
    const int64_t n_group_pairs = first[active[group + n_group - 1] + 1] - first_pair;
    pool_.For(n_group_pairs, [&](int64_t i, int) {
      float* pair_gate = expert_gate + (first_pair + i) * ffn;
      kernels_->swiglu(pair_gate, expert_up + (first_pair + i) * ffn, ffn, pair_gate);
    });

    const Product routed_down[] = {{.weight = &down}};
    const PreparedRows hidden =
        Prepare(expert_gate + first_pair * ffn, n_group_pairs, ffn, routed_down);
    // A task owns a slice of the output for all rows and adds its experts in ascending id.
    const int64_t out_slice = std::min<int64_t>(SliceRows(dim), 64);
    const int64_t n_out_slices = (dim + out_slice - 1) / out_slice;
    pool_.For(n_out_slices, [&](int64_t task, int thread) {
      const int64_t begin = task * out_slice, end = std::min(begin + out_slice, dim);
      Scratch& local = thread_scratch_[thread];
      local.Reset();
      float* part = local.Get<float>(n_rows * out_slice);
      for (int64_t row = 0; group == 0 && row < n_rows; ++row) {
        std::memset(out + row * dim + begin, 0, (end - begin) * sizeof(float));
      }
      for (int64_t i = 0; i < n_group; ++i) {
        const int32_t e = active[group + i];
        const int64_t n = first[e + 1] - first[e];
        RunSlice(matrix(down, &ExpertBytes::down, i), 0, false, hidden, nullptr,
                 first[e] - first_pair, n, begin, end, part, out_slice);
        for (int64_t j = 0; j < n; ++j) {
          const Pair& pair = pairs[first[e] + j];
          kernels_->axpy(pair.weight, part + j * out_slice, end - begin,
                         out + pair.row * dim + begin);
        }
      }
      if (group + n_group < n_active) return;
      RunSlice(args.shared_down->view(), 0, false, shared_hidden, nullptr, 0, n_rows, begin, end,
               part, out_slice);
      for (int64_t row = 0; row < n_rows; ++row) {
        kernels_->axpy(shared_weight[row], part + row * out_slice, end - begin,
                       out + row * dim + begin);
      }
    });
    if (args.tier) HF_RETURN_IF_ERROR(args.tier->Unpin());
  }
  return OkStatus();
}

}  // namespace holdfast

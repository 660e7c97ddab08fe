#ifndef HOLDFAST_OPS_BACKEND_H_
#define HOLDFAST_OPS_BACKEND_H_

// The seam between the model and what computes it. Ops are row-wise: a row's result never depends
// on other rows of the step, except through its own conversation's earlier rows.
//
// Memory: buffers belong to the backend; nothing above ops/ reads or writes them outside a backend
// call. Order: ops run in the order they were called, possibly later; Synchronize() waits for all
// of them and gives the first error. Host arrays named by arguments must stay unchanged until then.
// Threads: one caller at a time.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ops/kv_format.h"
#include "weights/expert_tier.h"
#include "weights/model_weights.h"
#include "weights/ngram_tier.h"

namespace holdfast {

// A run of bytes where the backend wants it. Zero when allocated, 4 KiB-aligned.
class Buffer {
 public:
  virtual ~Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  size_t bytes() const { return bytes_; }

 protected:
  explicit Buffer(size_t bytes) : bytes_(bytes) {}

 private:
  size_t bytes_;
};

struct BufferRef {
  Buffer* buffer = nullptr;
  size_t offset = 0;  // bytes
};

// A weight matrix (or stack of them) made ready for the backend. Lives as long as its file mapping.
class Weight {
 public:
  explicit Weight(const WeightView& view) : view_(view) {}
  virtual ~Weight() = default;
  const WeightView& view() const { return view_; }
  int64_t n_cols() const { return view_.n_cols; }
  int64_t n_rows() const { return view_.n_rows; }

 protected:
  WeightView view_;
};

// Rows [row_begin, row_begin + n_rows) of a step are positions [first_position, ...) of one
// conversation. `pages[i]` holds cells [i * page_tokens, ...); `running` its running state.
struct Segment {
  int64_t row_begin = 0;
  int64_t n_rows = 0;
  int64_t first_position = 0;
  Buffer* running = nullptr;
  std::span<Buffer* const> pages;
  // Not null: the rows are not accepted yet. `running` stays as it was, and what the rows would do
  // to it is written here, row after row, for Commit(). Cells are written all the same.
  Buffer* log = nullptr;
};
struct StepRows {
  int64_t n_rows = 0;
  std::span<const Segment> segments;  // ascending row_begin, together all rows
  int page_tokens = 0;
};

// X[row, s, :] = table[tokens[row], :] for every stream s.
struct EmbedArgs {
  const Weight* table = nullptr;
  std::span<const int32_t> tokens;  // [n_rows], each in [0, table rows)
  BufferRef x;                      // [n_rows, n_streams, dim] f32
  int64_t n_streams = 1;
};

// HCread / HCmix (spec: qwen4exp, section 3).
struct HcReadArgs {
  BufferRef x;                     // [n_rows, n_streams, dim] f32
  BufferRef norm;                  // [n_streams, dim] f32
  const Weight* down = nullptr;    // [low_rank, n_streams * dim]
  const Weight* up = nullptr;      // [n_streams * dim, low_rank]
  const Weight* inject = nullptr;  // [n_streams, n_streams * dim], null for the final mixer
  BufferRef out;                   // [n_rows, dim] f32
  BufferRef inject_out;            // [n_rows, n_streams] f32
  int64_t n_rows = 0, n_streams = 0, dim = 0;
  float eps = 1e-6f;
};

// x[row, s, d] = fma(inject[row, s], o[row, d], x[row, s, d])
struct HcWriteArgs {
  BufferRef x, o, inject;
  int64_t n_rows = 0, n_streams = 0, dim = 0;
};

// y_i = W_i x for several W that share x.
struct MatMulArgs {
  struct Output {
    const Weight* weight = nullptr;
    BufferRef y;              // [n_rows, weight rows] f32
    bool float_form = false;  // never quantise the activations (gates, routers)
  };
  BufferRef x;  // [n_rows, n_cols] f32
  int64_t n_rows = 0;
  std::vector<Output> outputs;
};

// Where one GDN layer's rows are in a segment's log, each [log rows, ...] f32.
struct GdnLog {
  size_t qkv_offset = 0;    // [channels], raw
  size_t k_hat_offset = 0;  // [n_key_heads * head_dim]
  size_t delta_offset = 0;  // [n_value_heads * head_dim]
  size_t decay_offset = 0;  // [n_value_heads]
};

// Gated delta net between its projections (spec: qwen4exp, 4.2 to 4.5 without ssm_out).
struct GdnArgs {
  StepRows rows;
  BufferRef qkv;             // [n_rows, channels] f32
  BufferRef z;               // [n_rows, n_value_heads * head_dim]
  BufferRef b, a;            // [n_rows, n_value_heads]
  BufferRef conv;            // [conv_kernel, channels] f32 (tap-major)
  BufferRef ssm_a, dt_bias;  // [n_value_heads]
  BufferRef norm;            // [head_dim]
  BufferRef out;             // [n_rows, n_value_heads * head_dim]
  int n_key_heads = 0, n_value_heads = 0, head_dim = 0, conv_kernel = 0;
  float eps = 1e-6f;
  size_t state_offset = 0;  // in running: [n_value_heads, head_dim (k), head_dim (v)] f32
  size_t conv_offset = 0;   // in running: [conv_kernel - 1, channels] f32, oldest first
  GdnLog log;
};

struct RopeArgs {
  int dims = 0;  // rotated leading values of a vector, pairs (i, i + dims / 2)
  float theta = 0.0f;
};

// Where one QSA layer's cells are in a page and in the running state. Codes are
// [n_kv_heads, page_tokens, head_dim] (f32, f16 or int8), scales [n_kv_heads, page_tokens,
// head_dim / group] fp16, pooled keys [index_dim, page_tokens / ratio] f32.
struct QsaCells {
  KvFormat format = KvFormat::kInt8;
  int n_kv_heads = 0, head_dim = 0;
  size_t k_offset = 0, v_offset = 0, k_scale_offset = 0, v_scale_offset = 0;  // in a page
  int ratio = 0;  // tokens per block, 0: no indexer, dense attention
  int index_dim = 0;
  size_t pooled_offset = 0;  // in a page
  size_t tail_offset = 0;    // in running: [ratio - 1, index_dim] f32, raw keys of the open block
  size_t log_offset = 0;     // in a segment's log: [log rows, index_dim] f32, raw keys
};

// Norms and rotates queries and keys, appends the cells, pools completed blocks
// (spec: qwen4exp, 5.1 to 5.3).
struct QsaAppendArgs {
  StepRows rows;
  QsaCells cells;
  RopeArgs rope;
  float eps = 1e-6f;
  int n_heads = 0, n_index_heads = 0;
  BufferRef q_gate;          // [n_rows, n_heads, 2 * head_dim]
  BufferRef k, v;            // [n_rows, n_kv_heads * head_dim]
  BufferRef index_q;         // [n_rows, n_index_heads * index_dim]; normed and rotated in place
  BufferRef index_k;         // [n_rows, index_dim]
  BufferRef q_norm, k_norm;  // [head_dim]
  BufferRef index_q_norm, index_k_norm;  // [index_dim]
  BufferRef q;             // out [n_rows, n_heads * head_dim]; no buffer: only the cells are wanted
  int64_t rope_shift = 0;  // added to a row's position for the rotation
};

// Chooses blocks and attends (spec: qwen4exp, 5.1 and 5.4). out = o * Sigmoid(gate).
struct QsaAttendArgs {
  StepRows rows;
  QsaCells cells;
  int n_heads = 0, n_index_heads = 0;
  int64_t budget = 0;  // tokens; blocks chosen = budget / ratio
  // Without an indexer: cells from first_cell on, and of them the last `window` (0: all).
  int64_t first_cell = 0, window = 0;
  BufferRef q, q_gate, index_q;
  BufferRef out;       // [n_rows, n_heads * head_dim]
  BufferRef selected;  // optional [n_rows, budget / ratio] i32: chosen blocks ascending, then -1
};

// Largest MoeArgs::n_used.
inline constexpr int kMaxExpertsUsed = 64;

// Mixture of experts with one shared expert (spec: qwen4exp, section 6).
struct MoeArgs {
  BufferRef u;    // [n_rows, dim]
  BufferRef out;  // [n_rows, dim]
  int64_t n_rows = 0;
  const Weight* router = nullptr;  // [n_experts, dim]
  const Weight* gate = nullptr;    // n_experts x [ffn, dim]; the fused form when up is null
  const Weight* up = nullptr;
  const Weight* down = nullptr;  // n_experts x [dim, ffn]
  const Weight *shared_gate = nullptr, *shared_up = nullptr, *shared_down = nullptr;
  const Weight* shared_inject = nullptr;  // [1, dim]
  int n_used = 0;
  // Not null: the experts' bytes come from here, as `tier_layer`, and never from the mapping.
  ExpertTier* tier = nullptr;
  int tier_layer = 0;
  // With a tier, optional: the router of layer tier_layer + 1. What it makes of `u` is read ahead.
  const Weight* next_router = nullptr;
  BufferRef router_logits;   // optional [n_rows, n_experts] f32
  BufferRef router_ids;      // optional [n_rows, n_used] i32, best first
  BufferRef router_weights;  // optional [n_rows, n_used] f32
};

// Hashed n-gram embedding block (spec: qwen4exp, 7.2): x += v + d.
struct PleArgs {
  StepRows rows;
  std::span<const int64_t> table_rows;  // [n_rows, n_heads]
  int n_heads = 0;
  const Weight* table = nullptr;  // [table rows, row_width]
  // Not null: the rows' bytes come from here, where table_rows have begun to be gathered, and never
  // from the mapping.
  NgramTier* tier = nullptr;
  const Weight* key = nullptr;                // [n_streams * dim, n_heads * row_width]
  const Weight* value = nullptr;              // [dim, n_heads * row_width]
  BufferRef norm_key, norm_query, norm_conv;  // [n_streams, dim]
  BufferRef conv;                             // [conv_kernel, n_streams * dim] f32 (tap-major)
  int conv_kernel = 0, dilation = 0;
  BufferRef x;  // [n_rows, n_streams, dim]
  int64_t n_streams = 0, dim = 0;
  float eps = 1e-6f;
  size_t conv_offset =
      0;  // in running: [(conv_kernel - 1) * dilation, n_streams * dim], oldest first
  size_t log_offset = 0;  // in a segment's log: [log rows, n_streams * dim] f32
  BufferRef embedding;    // optional [n_rows, n_heads * row_width]
  BufferRef added;        // optional [n_rows, n_streams * dim]: v + d
};

// Input of the draft head (spec: mtp, section 2): for every stream s
//   x[row, s] = proj [ rms(table[tokens[row]]) * embed_norm ; h[row, s] ]
// h = rms(hidden[row]) * hidden_norm, with one mean square over all streams, or one for each.
struct DraftInputArgs {
  const Weight* table = nullptr;
  const Weight* proj = nullptr;     // [dim, 2 * dim], embedding half first
  std::span<const int32_t> tokens;  // [n_rows]
  BufferRef hidden;                 // [n_rows, n_streams, dim]
  BufferRef embed_norm;             // [dim]
  BufferRef hidden_norm;            // [n_streams, dim]
  bool norm_per_stream = false;
  BufferRef x;  // [n_rows, n_streams, dim]
  int64_t n_rows = 0, n_streams = 0, dim = 0;
  float eps = 1e-6f;
};

// Takes the first n_rows logged rows of a segment into its running state: afterwards it is, bit for
// bit, what running those rows without a log would have left.
struct CommitSegment {
  Buffer* running = nullptr;
  Buffer* log = nullptr;
  int64_t first_position = 0;
  int64_t n_rows = 0;
};
struct CommitArgs {
  struct Gdn {
    size_t state_offset = 0;
    int n_key_heads = 0, n_value_heads = 0, head_dim = 0;
    GdnLog log;
  };
  struct Conv {  // a history of n_kept columns
    size_t offset = 0;
    int64_t n_kept = 0, width = 0;
    size_t log_offset = 0;
  };
  struct Tail {
    size_t offset = 0;
    int ratio = 0, dim = 0;
    size_t log_offset = 0;
  };
  std::span<const CommitSegment> segments;
  std::span<const Gdn> gdn;
  std::span<const Conv> convs;
  std::span<const Tail> tails;
};

// dst[i, :] = src[rows[i], :]
struct GatherRowsArgs {
  BufferRef src, dst;
  std::span<const int32_t> rows;
  size_t row_bytes = 0;
};

struct CopyArgs {
  BufferRef src, dst;
  size_t bytes = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;

  // Called before a model's weights are loaded. A backend runs one model at a time.
  virtual void BeginModel(int64_t hidden_size) = 0;

  // kResourceExhausted when there is no memory.
  virtual Result<std::unique_ptr<Buffer>> Allocate(size_t bytes) = 0;
  virtual Result<std::unique_ptr<Weight>> LoadWeight(const WeightView& view) = 0;
  // Bytes of a copy of `weight` that products read faster; 0: there is none to be had.
  virtual uint64_t RepackedBytes(const Weight& weight) const = 0;
  // Makes that copy, which is what products use from then on, with the same results. Only for
  // weights whose products may quantise their activations and that serve nothing else.
  // kResourceExhausted when there is no memory.
  virtual Status Repack(Weight* weight) = 0;
  // Makes a whole buffer read-only, or writable again. A write while read-only is a fault in debug
  // builds and on backends that can tell; otherwise nothing happens.
  virtual Status SetReadOnly(Buffer* buffer, bool read_only) = 0;

  virtual Status Upload(BufferRef dst, std::span<const std::byte> src) = 0;
  // Waits for all earlier ops.
  virtual Status Download(BufferRef src, std::span<std::byte> dst) = 0;
  // Waits for all earlier ops, then runs `fn` on the buffer's bytes as the host sees them.
  virtual Status WithHostBytes(Buffer* buffer,
                               const std::function<Status(std::span<std::byte>)>& fn) = 0;
  virtual Status Copy(const CopyArgs& args) = 0;
  virtual Status GatherRows(const GatherRowsArgs& args) = 0;

  virtual Status Embed(const EmbedArgs& args) = 0;
  virtual Status HcRead(const HcReadArgs& args) = 0;
  virtual Status HcWrite(const HcWriteArgs& args) = 0;
  virtual Status MatMul(const MatMulArgs& args) = 0;
  virtual Status Gdn(const GdnArgs& args) = 0;
  virtual Status QsaAppend(const QsaAppendArgs& args) = 0;
  virtual Status QsaAttend(const QsaAttendArgs& args) = 0;
  virtual Status Moe(const MoeArgs& args) = 0;
  virtual Status Ple(const PleArgs& args) = 0;
  virtual Status DraftInput(const DraftInputArgs& args) = 0;
  virtual Status Commit(const CommitArgs& args) = 0;

  virtual Status Synchronize() = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_OPS_BACKEND_H_

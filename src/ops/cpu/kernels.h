#ifndef HOLDFAST_OPS_CPU_KERNELS_H_
#define HOLDFAST_OPS_CPU_KERNELS_H_

// The inner loops of the CPU backend, one table per kernel set (scalar, avx2, avx512, avx512vnni,
// neon). All tables give the same bits: the formulas below and scalar_math.h are the contract, the
// scalar table is their plain reading, and tests compare every other table with it by ==.
//
// Kernels work on a slice of the outputs, never split a reduction, allocate nothing and may be
// called from many threads at once. Pointers need no alignment.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "ops/kv_format.h"
#include "weights/quant_type.h"

namespace holdfast {

// Rows of activations quantised to int8 in groups of 32 or 256 values (64 for attention queries).
// With two terms a row is followed by the quantised row of what its codes left (residual()).
//   bits = max over the group of the absolute value's bits as an integer (so NaN > inf > finite)
//   amax < 1e-30: scale 0, codes 0.   amax inf or NaN: scale NaN, codes 0 (the row is poisoned).
//   else scale = amax / 127; code = round_half_even(x * (127 / amax))
// sums16[j] = sum of the 16 codes from 16 j (exact).
struct QuantizedRows {
  const int8_t* codes = nullptr;    // [n_rows, n_terms, n_cols]
  const float* scales = nullptr;    // [n_rows, n_terms, n_cols / group]
  const int16_t* sums16 = nullptr;  // [n_rows, n_terms, n_cols / 16]
  int group = 32;
  int n_terms = 1;  // or 2
};

// y[j, r] = sum_c W[r, c] * x[x_index ? x_index[j] : j, c], r in [row_begin, row_end), j in [0,
// n_x).
//
// Float form (x != nullptr): W's row is decoded to f32 as weights/dequantize.h says and
//   y = Dot16(W_row, x_row).
// Integer form (types with HasIntegerKernel(type), x == nullptr): for group b of `group` columns,
// in ascending b, with lane = lanes[b % 16], da = scale of the activation group:
//   I = sum of (integer weight * code), exact in int32; d = the block's scale in f32
//   lane = fma(float(I), d * da, lane)
//   types with a minimum, then: lane = fma(float(M), m * da, lane)
// and y = TreeSum(lanes), or with two terms the sum of both terms' TreeSum(lanes), each with lanes
// of its own. Integer weights, d, M and m per type:
//   Q8_0 q; Q4_0 nibble-8; Q5_0 x-16; IQ4_NL T[nibble]; Q2_0 code-1 (two groups share a block's d)
//   Q4_1, Q5_1: code; M = sum of the group's codes, m as stored
//   Q2_K: (sc_G & 15) * code; M = sum_G (sc_G >> 4) * sums16[G], m = -dmin
//   Q3_K: (S_G - 32) * code;  Q6_K: sc_G * (x - 32);  IQ4_XS: (ls - 32) * T[nibble]
//   Q4_K, Q5_K: c_g * code; M = sum_g m_g * (sums of the 32), m = -dmin
//   IQ2_XXS, IQ2_XS, IQ2_S: (2 s + 1) * signed grid, d = d * 0.125
//   IQ3_XXS: (2 s + 1) * signed grid, d = d * 0.25;  IQ3_S: (1 + 2 nib) * signed grid
// Group is 32 for types of block size 32 and 64, else 256.
struct MatMulSlice {
  QuantType type = QuantType::kF32;
  bool repacked = false;               // a grid type as grid_blocks.h lays it out
  const std::byte* weights = nullptr;  // row 0
  int64_t row_bytes = 0;
  int64_t n_cols = 0;
  int64_t row_begin = 0, row_end = 0;
  const float* x = nullptr;  // [*, n_cols], or null for the integer form
  QuantizedRows quantized;
  const int32_t* x_index = nullptr;  // [n_x] or null
  int64_t n_x = 0;
  float* y = nullptr;  // [n_x, y_stride]
  int64_t y_stride = 0;
};

bool HasIntegerKernel(QuantType type);
// 32 or 256: the activation group of the integer form.
int ActivationGroup(QuantType type);

// One run of cells of one KV head that lie one after the other in a page, in ascending position.
// int8: codes [n, head_dim] with one fp16 scale per group of min(64, head_dim).
struct CellRun {
  const std::byte* k = nullptr;
  const std::byte* v = nullptr;
  const std::byte* k_scales = nullptr;
  const std::byte* v_scales = nullptr;
  int64_t n = 0;
};

// Attention of one row's query heads that share one KV head over selected cells.
//   s_i = (q . k_i) * scale;  e_i = Exp(s_i - max s);  o = sum_i e_i v_i / sum_i e_i
// q . k: f32 and f16 cells: Dot16. int8 cells with q codes: s = 0; per group g ascending
//   s = fma(float(I_g), q_scale_g * k_scale_g, s), I_g exact. int8 cells with float q: per group
//   s = fma(Dot16(q_g, float(codes_g)), k_scale_g, s).
// sum e: lane i % 16 over the selected cells, then the tree.
// o[d] = acc / sum, acc = fma(w, v, acc) in ascending i; w = e_i (f32, f16), or e_i * v_scale for
// int8 with v the code.
struct AttentionSlice {
  KvFormat format = KvFormat::kInt8;
  int64_t head_dim = 0;
  int64_t n_heads = 0;              // query heads of this KV head
  const float* q = nullptr;         // [n_heads, head_dim]
  const int8_t* q_codes = nullptr;  // [n_heads, head_dim] or null
  const float* q_scales = nullptr;  // [n_heads, head_dim / min(64, head_dim)] or null
  float scale = 1.0f;
  const CellRun* runs = nullptr;
  int64_t n_runs = 0;
  int64_t n_cells = 0;      // sum of the runs
  float* scores = nullptr;  // scratch [n_heads, n_cells]
  float* out = nullptr;     // [n_heads, head_dim]
};

// One head's gated delta rule, columns [0, n_v) of the state S [dk, state_stride] (value index
// contiguous), over n_tokens tokens in order:
//   u_v = decay * ((p0 + p2) + (p1 + p3)), p_j = sum over k = j mod 4 ascending of fma(S[k,v],
//   k_hat[k], .) delta_v = beta * (value_v - u_v) S[k,v] = fma(k_hat[k], delta_v, decay * S[k,v])
//   out_v = (o0 + o2) + (o1 + o3), o_j likewise with q_hat and the updated S
struct GdnSlice {
  float* state = nullptr;
  int64_t state_stride = 0;
  int64_t dk = 0, n_v = 0, n_tokens = 0;
  const float* q_hat = nullptr;  // [n_tokens, qk_stride], this head's dk values
  const float* k_hat = nullptr;
  int64_t qk_stride = 0;
  const float* value = nullptr;  // [n_tokens, value_stride], this head's columns
  int64_t value_stride = 0;
  const float* decay = nullptr;  // [n_tokens, gate_stride]
  const float* beta = nullptr;
  int64_t gate_stride = 0;
  float* out = nullptr;  // [n_tokens, out_stride]
  int64_t out_stride = 0;
  float* delta = nullptr;  // [n_tokens, delta_stride] or null: delta_v of every token
  int64_t delta_stride = 0;
  bool keep_state = true;    // false: S is only read; out and delta are as if it were updated
  float* scratch = nullptr;  // [dk, n_v] when !keep_state
};

// What gdn() would leave of columns [0, n_v) of one head's state after n_tokens tokens whose
// delta_v are known: S[k,v] = fma(k_hat[k], delta_v, decay * S[k,v]), token after token.
struct GdnCommitSlice {
  float* state = nullptr;
  int64_t state_stride = 0;
  int64_t dk = 0, n_v = 0, n_tokens = 0;
  const float* k_hat = nullptr;  // [n_tokens, k_stride], this head's dk values
  int64_t k_stride = 0;
  const float* delta = nullptr;  // [n_tokens, delta_stride], this head's columns
  int64_t delta_stride = 0;
  const float* decay = nullptr;  // [n_tokens, gate_stride]
  int64_t gate_stride = 0;
};

struct KernelTable {
  std::string_view name;

  // inv = 1 / sqrt(Dot16(x, x) / n + eps); out[i] = (x[i] * inv) * gain[i]. gain may be null (1).
  // out may be x.
  void (*rms_norm)(const float* x, const float* gain, int64_t n, float eps, float* out);
  float (*dot)(const float* a, const float* b, int64_t n);  // Dot16
  void (*quantize)(const float* x, int64_t n, int group, int8_t* codes, float* scales,
                   int16_t* sums16 /* may be null */);
  // out[i] = fma(-code, scale, x[i]): what quantize() left of a row.
  void (*residual)(const float* x, const int8_t* codes, const float* scales, int64_t n, int group,
                   float* out);
  void (*matmul)(const MatMulSlice& slice);

  void (*sigmoid)(const float* x, int64_t n, float* out);
  // out[i] = Silu(x[i] / divisor)
  void (*silu)(const float* x, float divisor, int64_t n, float* out);
  // out[i] = Silu(gate[i]) * up[i]
  void (*swiglu)(const float* gate, const float* up, int64_t n, float* out);
  // out[i] = x[i] * Sigmoid(gate[i])
  void (*sigmoid_mul)(const float* x, const float* gate, int64_t n, float* out);
  // y[i] = fma(a, x[i], y[i])
  void (*axpy)(float a, const float* x, int64_t n, float* y);
  // out[d] = acc / n_streams: acc = s_0 * n_0[d], then fma(s_k, n_k[d], acc), where
  // s_k = Sigmoid(m[k * dim + d]) and n_k[d] = normed[k * dim + d].
  void (*hc_mix)(const float* m, const float* normed, int64_t n_streams, int64_t dim, float* out);
  // Depthwise causal convolution of one token over channels: acc = w[0, c] * x_0[c], then
  // fma(w[i, c], x_i[c], acc) for i = 1 .. n_taps-1; out[c] = Silu(acc). w is [n_taps, w_stride].
  void (*conv_silu)(const float* const* x, const float* w, int64_t w_stride, int n_taps, int64_t n,
                    float* out);
  void (*gdn)(const GdnSlice& slice);
  void (*gdn_commit)(const GdnCommitSlice& slice);
  void (*attention)(const AttentionSlice& slice);
  // scores[b] = sum over heads a ascending of relu(c_a), starting from relu(c_0);
  // c_a = fma(q[a, d], keys[d, b], c_a) in ascending d from 0; relu(c) = c > 0 ? c : 0.
  // keys is [dim, key_stride] (block index contiguous), b in [0, n_blocks).
  void (*index_scores)(const float* q, int64_t n_heads, int64_t dim, const float* keys,
                       int64_t key_stride, int64_t n_blocks, float* scores);
  // Sum over i of exp terms for softmax: x[i] = Exp(x[i] - max); returns the Sum16 of them.
  float (*exp_sum)(float* x, float max, int64_t n);
};

const KernelTable& ScalarKernels();
// The named set; kInvalidArgument when the name is unknown, kFailedPrecondition when this CPU
// cannot run it. "auto" gives the fastest one.
Result<const KernelTable*> FindKernels(std::string_view name);
// Names of the sets this CPU can run, slowest first.
std::string_view const* AvailableKernels(int* n);

}  // namespace holdfast

#endif  // HOLDFAST_OPS_CPU_KERNELS_H_

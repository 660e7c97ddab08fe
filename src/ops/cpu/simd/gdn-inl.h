// Gated delta rule: lanes are value columns, which do not touch each other. A slice of columns of
// the state (dk rows, 64-128 bytes each) stays in L1 while all tokens pass over it.
#ifndef HOLDFAST_OPS_CPU_SIMD_GDN_INL_H_
#define HOLDFAST_OPS_CPU_SIMD_GDN_INL_H_

#include "ops/cpu/simd/simd-inl.h"

namespace holdfast::HF_KERNEL_SET {
namespace {

// One step of the four interleaved partial sums over kVectors vectors of columns.
template <int kVectors>
struct ColumnSums {
  VF32 p[4][kVectors];
  HF_INLINE void Clear() {
    HF_UNROLL for (int j = 0; j < 4; ++j) {
      HF_UNROLL for (int i = 0; i < kVectors; ++i) p[j][i] = hn::Zero(kF32);
    }
  }
  HF_INLINE VF32 Total(int i) const {
    return hn::Add(hn::Add(p[0][i], p[2][i]), hn::Add(p[1][i], p[3][i]));
  }
};

template <int kVectors>
HF_INLINE void GdnTile(const GdnSlice& s, float* state, int64_t stride, int64_t v0) {
  for (int64_t t = 0; t < s.n_tokens; ++t) {
    const float* k_hat = s.k_hat + t * s.qk_stride;
    const float* q_hat = s.q_hat + t * s.qk_stride;
    const VF32 decay = hn::Set(kF32, s.decay[t * s.gate_stride]);
    const VF32 beta = hn::Set(kF32, s.beta[t * s.gate_stride]);

    ColumnSums<kVectors> u;
    u.Clear();
    int64_t k = 0;
    for (; k + 4 <= s.dk; k += 4) {
      HF_UNROLL for (int j = 0; j < 4; ++j) {
        const VF32 weight = hn::Set(kF32, k_hat[k + j]);
        const float* row = state + (k + j) * stride + v0;
        HF_UNROLL for (int i = 0; i < kVectors; ++i) {
          u.p[j][i] = hn::MulAdd(hn::LoadU(kF32, row + i * kN), weight, u.p[j][i]);
        }
      }
    }
    HF_UNROLL for (int j = 0; j < 3; ++j) {
      if (k + j >= s.dk) continue;
      const VF32 weight = hn::Set(kF32, k_hat[k + j]);
      const float* row = state + (k + j) * stride + v0;
      HF_UNROLL for (int i = 0; i < kVectors; ++i) {
        u.p[j][i] = hn::MulAdd(hn::LoadU(kF32, row + i * kN), weight, u.p[j][i]);
      }
    }

    VF32 delta[kVectors];
    HF_UNROLL for (int i = 0; i < kVectors; ++i) {
      const VF32 value = hn::LoadU(kF32, s.value + t * s.value_stride + v0 + i * kN);
      delta[i] = hn::Mul(beta, hn::Sub(value, hn::Mul(decay, u.Total(i))));
      if (s.delta != nullptr)
        hn::StoreU(delta[i], kF32, s.delta + t * s.delta_stride + v0 + i * kN);
    }

    ColumnSums<kVectors> o;
    o.Clear();
    const auto update = [&](int64_t at, int j) {
      const VF32 weight = hn::Set(kF32, k_hat[at]), query = hn::Set(kF32, q_hat[at]);
      float* row = state + at * stride + v0;
      HF_UNROLL for (int i = 0; i < kVectors; ++i) {
        const VF32 cell =
            hn::MulAdd(weight, delta[i], hn::Mul(decay, hn::LoadU(kF32, row + i * kN)));
        hn::StoreU(cell, kF32, row + i * kN);
        o.p[j][i] = hn::MulAdd(cell, query, o.p[j][i]);
      }
    };
    for (k = 0; k + 4 <= s.dk; k += 4) {
      HF_UNROLL for (int j = 0; j < 4; ++j) update(k + j, j);
    }
    HF_UNROLL for (int j = 0; j < 3; ++j) {
      if (k + j < s.dk) update(k + j, j);
    }
    HF_UNROLL for (int i = 0; i < kVectors; ++i) {
      hn::StoreU(o.Total(i), kF32, s.out + t * s.out_stride + v0 + i * kN);
    }
  }
}

// The last columns, fewer than a vector: one at a time.
void GdnColumn(const GdnSlice& s, float* state, int64_t stride, int64_t v) {
  for (int64_t t = 0; t < s.n_tokens; ++t) {
    const float* k_hat = s.k_hat + t * s.qk_stride;
    const float* q_hat = s.q_hat + t * s.qk_stride;
    const float decay = s.decay[t * s.gate_stride];
    float p[4] = {}, o[4] = {};
    for (int64_t k = 0; k < s.dk; ++k) {
      p[k % 4] = __builtin_fmaf(state[k * stride + v], k_hat[k], p[k % 4]);
    }
    const float u = decay * ((p[0] + p[2]) + (p[1] + p[3]));
    const float delta = s.beta[t * s.gate_stride] * (s.value[t * s.value_stride + v] - u);
    for (int64_t k = 0; k < s.dk; ++k) {
      float& cell = state[k * stride + v];
      cell = __builtin_fmaf(k_hat[k], delta, decay * cell);
      o[k % 4] = __builtin_fmaf(cell, q_hat[k], o[k % 4]);
    }
    if (s.delta != nullptr) s.delta[t * s.delta_stride + v] = delta;
    s.out[t * s.out_stride + v] = (o[0] + o[2]) + (o[1] + o[3]);
  }
}

void Gdn(const GdnSlice& s) {
  if (s.n_v == 0) return;
  float* state = s.state;
  int64_t stride = s.state_stride;
  if (!s.keep_state) {
    state = s.scratch;
    stride = s.n_v;
    for (int64_t k = 0; k < s.dk; ++k) {
      memcpy(state + k * stride, s.state + k * s.state_stride,
             static_cast<size_t>(s.n_v) * sizeof(float));
    }
  }
  int64_t v = 0;
  for (; v + 2 * kN <= s.n_v; v += 2 * kN) GdnTile<2>(s, state, stride, v);
  for (; v + kN <= s.n_v; v += kN) GdnTile<1>(s, state, stride, v);
  for (; v < s.n_v; ++v) GdnColumn(s, state, stride, v);
}

// A cell stays in its register while all tokens pass over it: the state is read and written once.
template <int kVectors>
HF_INLINE void GdnCommitTile(const GdnCommitSlice& s, int64_t v0) {
  for (int64_t k = 0; k < s.dk; ++k) {
    float* row = s.state + k * s.state_stride + v0;
    VF32 cell[kVectors];
    HF_UNROLL for (int i = 0; i < kVectors; ++i) cell[i] = hn::LoadU(kF32, row + i * kN);
    for (int64_t t = 0; t < s.n_tokens; ++t) {
      const VF32 weight = hn::Set(kF32, s.k_hat[t * s.k_stride + k]);
      const VF32 decay = hn::Set(kF32, s.decay[t * s.gate_stride]);
      const float* delta = s.delta + t * s.delta_stride + v0;
      HF_UNROLL for (int i = 0; i < kVectors; ++i) {
        cell[i] = hn::MulAdd(weight, hn::LoadU(kF32, delta + i * kN), hn::Mul(decay, cell[i]));
      }
    }
    HF_UNROLL for (int i = 0; i < kVectors; ++i) hn::StoreU(cell[i], kF32, row + i * kN);
  }
}

void GdnCommit(const GdnCommitSlice& s) {
  int64_t v = 0;
  for (; v + 4 * kN <= s.n_v; v += 4 * kN) GdnCommitTile<4>(s, v);
  for (; v + kN <= s.n_v; v += kN) GdnCommitTile<1>(s, v);
  for (; v < s.n_v; ++v) {
    for (int64_t k = 0; k < s.dk; ++k) {
      float& cell = s.state[k * s.state_stride + v];
      for (int64_t t = 0; t < s.n_tokens; ++t) {
        cell = __builtin_fmaf(s.k_hat[t * s.k_stride + k], s.delta[t * s.delta_stride + v],
                              s.decay[t * s.gate_stride] * cell);
      }
    }
  }
}

}  // namespace
}  // namespace holdfast::HF_KERNEL_SET

#endif  // HOLDFAST_OPS_CPU_SIMD_GDN_INL_H_

// Float form: Dot16 of decoded weight rows with f32 activation rows, several of both at a time.
#ifndef HOLDFAST_OPS_CPU_SIMD_MATMUL_FLOAT_INL_H_
#define HOLDFAST_OPS_CPU_SIMD_MATMUL_FLOAT_INL_H_

#include "ops/cpu/simd/matmul_rows-inl.h"
#include "weights/dequantize.h"

namespace holdfast::HF_KERNEL_SET {
namespace {

// Weight rows x activation rows in registers, 16 lanes each.
constexpr int kFloatRows = HWY_MAX_BYTES == 64 ? 4 : 2;
constexpr int kFloatX = HWY_MAX_BYTES == 64 ? 4 : 2;
// Columns of quantised weights decoded at a time: whole blocks of every type, whole lanes.
constexpr int kFloatCols = 1024;
// Activation rows whose lanes are kept while the decoded columns pass.
constexpr int kFloatBlockX = 32;

// 16 weights from a stored row; `p` is the row, `i` the column.
struct LoadF32 {
  static HF_INLINE F32x16 Load(const uint8_t* p, int64_t i) {
    return Load16(reinterpret_cast<const float*>(p) + i);
  }
};
struct LoadF16 {
  static HF_INLINE F32x16 Load(const uint8_t* p, int64_t i) {
    F32x16 r;
    HF_UNROLL for (int k = 0; k < kV; ++k) r.v[k] = LoadHalves(p + 2 * (i + k * kN));
    return r;
  }
};
struct LoadBF16 {
  static HF_INLINE F32x16 Load(const uint8_t* p, int64_t i) {
    const hn::Rebind<uint16_t, TagF32> d16;
    F32x16 r;
    HF_UNROLL for (int k = 0; k < kV; ++k) {
      const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p + 2 * (i + k * kN)));
      r.v[k] = hn::BitCast(kF32, hn::ShiftLeft<16>(hn::PromoteTo(kU32, bits)));
    }
    return r;
  }
};

// lanes[r][x] += w[r] . x[x] over n columns (a multiple of 16).
template <class W, int kR, int kX>
HF_INLINE void FloatColumns(const uint8_t* const* w, const float* const* x, int64_t n,
                            F32x16 (*lanes)[kX]) {
  F32x16 acc[kR][kX];
  HF_UNROLL for (int r = 0; r < kR; ++r) {
    HF_UNROLL for (int j = 0; j < kX; ++j) acc[r][j] = lanes[r][j];
  }
  for (int64_t i = 0; i < n; i += 16) {
    F32x16 activation[kX];
    HF_UNROLL for (int j = 0; j < kX; ++j) activation[j] = Load16(x[j] + i);
    HF_UNROLL for (int r = 0; r < kR; ++r) {
      const F32x16 weight = W::Load(w[r], i);
      HF_UNROLL for (int j = 0; j < kX; ++j) {
        acc[r][j] = MulAdd16(weight, activation[j], acc[r][j]);
      }
    }
  }
  HF_UNROLL for (int r = 0; r < kR; ++r) {
    HF_UNROLL for (int j = 0; j < kX; ++j) lanes[r][j] = acc[r][j];
  }
}

// Plain types: whole rows of kR weights and kX activations.
template <class W, int kR, int kX>
HF_INLINE void PlainTile(const MatMulSlice& s, int64_t r0, int64_t j0) {
  const uint8_t* w[kR];
  const float* x[kX];
  for (int r = 0; r < kR; ++r) w[r] = WeightRow(s, r0 + r);
  for (int j = 0; j < kX; ++j) x[j] = s.x + XRow(s, j0 + j) * s.n_cols;
  F32x16 lanes[kR][kX];
  HF_UNROLL for (int r = 0; r < kR; ++r) {
    HF_UNROLL for (int j = 0; j < kX; ++j) lanes[r][j] = Zero16();
  }
  const int64_t whole = s.n_cols / 16 * 16;
  FloatColumns<W, kR, kX>(w, x, whole, lanes);
  float tail[16];
  for (int r = 0; r < kR; ++r) {
    if (whole < s.n_cols) {
      const int64_t bytes = s.row_bytes / s.n_cols;
      DequantizeRow(s.type, reinterpret_cast<const std::byte*>(w[r] + whole * bytes),
                    s.n_cols - whole, tail);
      for (int j = 0; j < kX; ++j) {
        lanes[r][j] = MulAddTail(tail, x[j] + whole, s.n_cols - whole, lanes[r][j]);
      }
    }
    for (int j = 0; j < kX; ++j) s.y[(j0 + j) * s.y_stride + r0 + r] = TreeSum(lanes[r][j]);
  }
}

template <class W, int kR>
void PlainRows(const MatMulSlice& s, int64_t r0) {
  int64_t j = 0;
  for (; j + kFloatX <= s.n_x; j += kFloatX) PlainTile<W, kR, kFloatX>(s, r0, j);
  for (; j < s.n_x; ++j) PlainTile<W, kR, 1>(s, r0, j);
}

template <class W>
void MatMulPlain(const MatMulSlice& s) {
  int64_t r = s.row_begin;
  for (; r + kFloatRows <= s.row_end; r += kFloatRows) PlainRows<W, kFloatRows>(s, r);
  for (; r < s.row_end; ++r) PlainRows<W, 1>(s, r);
}

// Quantised types: row r, decoded in pieces, with activation rows j0 .. j0 + n_x.
void DecodedRow(const MatMulSlice& s, int64_t r, int64_t j0, int n_x) {
  const QuantTypeInfo& info = InfoOf(s.type);
  F32x16 lanes[kFloatBlockX][1];
  for (int j = 0; j < n_x; ++j) lanes[j][0] = Zero16();
  alignas(64) float decoded[kFloatCols];
  const uint8_t* w = reinterpret_cast<const uint8_t*>(decoded);
  for (int64_t column = 0; column < s.n_cols; column += kFloatCols) {
    const int64_t n = Min(kFloatCols, s.n_cols - column);  // whole blocks, so whole lanes
    const uint8_t* blocks = WeightRow(s, r) + column / info.block_size * info.block_bytes;
    DequantizeRow(s.type, reinterpret_cast<const std::byte*>(blocks), n, decoded);
    int j = 0;
    const float* x[4];
    for (; j + 4 <= n_x; j += 4) {
      for (int k = 0; k < 4; ++k) x[k] = s.x + XRow(s, j0 + j + k) * s.n_cols + column;
      F32x16 four[1][4] = {{lanes[j][0], lanes[j + 1][0], lanes[j + 2][0], lanes[j + 3][0]}};
      FloatColumns<LoadF32, 1, 4>(&w, x, n, four);
      for (int k = 0; k < 4; ++k) lanes[j + k][0] = four[0][k];
    }
    for (; j < n_x; ++j) {
      x[0] = s.x + XRow(s, j0 + j) * s.n_cols + column;
      FloatColumns<LoadF32, 1, 1>(&w, x, n, lanes + j);
    }
  }
  for (int j = 0; j < n_x; ++j) s.y[(j0 + j) * s.y_stride + r] = TreeSum(lanes[j][0]);
}

void MatMulDecoded(const MatMulSlice& s) {
  for (int64_t r = s.row_begin; r < s.row_end; ++r) {
    for (int64_t j = 0; j < s.n_x; j += kFloatBlockX) {
      DecodedRow(s, r, j, static_cast<int>(Min(kFloatBlockX, s.n_x - j)));
    }
  }
}

void MatMulFloat(const MatMulSlice& s) {
  switch (s.type) {
    case QuantType::kF32:
      return MatMulPlain<LoadF32>(s);
    case QuantType::kF16:
      return MatMulPlain<LoadF16>(s);
    case QuantType::kBF16:
      return MatMulPlain<LoadBF16>(s);
    default:
      return MatMulDecoded(s);
  }
}

}  // namespace
}  // namespace holdfast::HF_KERNEL_SET

#endif  // HOLDFAST_OPS_CPU_SIMD_MATMUL_FLOAT_INL_H_

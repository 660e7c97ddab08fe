#include "weights/random_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/half.h"
#include "weights/dequantize.h"

namespace holdfast {
namespace {

// splitmix64 of a counter: random access, and plain enough to vectorise.
uint64_t Random(uint64_t seed, uint64_t counter) {
  uint64_t x = seed + counter * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

void RandomBytes(uint64_t seed, std::byte* out, int64_t n) {
  for (int64_t i = 0; i + 8 <= n; i += 8) {
    const uint64_t bits = Random(seed, static_cast<uint64_t>(i / 8));
    std::memcpy(out + i, &bits, 8);
  }
  if (n % 8 != 0) {
    const uint64_t bits = Random(seed, static_cast<uint64_t>(n / 8));
    std::memcpy(out + n / 8 * 8, &bits, static_cast<size_t>(n % 8));
  }
}

// About Gaussian: the sum of four uniform 16-bit numbers, of variance 4 * 2^32 / 12.
float Noise(uint64_t bits) {
  const int64_t sum =
      static_cast<int64_t>(bits & 0xffff) + static_cast<int64_t>((bits >> 16) & 0xffff) +
      static_cast<int64_t>((bits >> 32) & 0xffff) + static_cast<int64_t>(bits >> 48);
  return static_cast<float>(sum - 2 * 65535) * (1.0f / 37837.2f);
}

void PutHalf(std::byte* p, float value) {
  const uint16_t bits = FloatToHalf(value);
  std::memcpy(p, &bits, sizeof bits);
}

// 2-bit codes mean -1, 0, 1, 2: without the 2 they are symmetric.
void DropCodeThree(std::byte* p, int n) {
  for (int i = 0; i < n; ++i) {
    const auto b = static_cast<unsigned>(p[i]);
    p[i] = static_cast<std::byte>(b & ~((b & (b << 1)) & 0xaau));
  }
}

// Q4_K and Q5_K: gives each group of 32 a minimum that equals its scale, so that
// dmin = d * (middle code) centres the values.
void EqualScalesAndMins(std::byte* scales) {
  for (int g = 0; g < 4; ++g) {
    scales[g + 4] = scales[g];
    scales[g + 8] = static_cast<std::byte>((static_cast<unsigned>(scales[g + 8]) & 15u) * 17u);
  }
}

// Turns a block of random bytes into a sane one with scale `d`. For MXFP4 and NVFP4 `d` is rounded
// to what their scales can hold.
void SetScale(QuantType type, float d, std::byte* b) {
  switch (type) {
    case QuantType::kQ4_0:
    case QuantType::kQ5_0:
    case QuantType::kQ8_0:
    case QuantType::kQ1_0:
    case QuantType::kIQ4_NL:
    case QuantType::kIQ4_XS:
    case QuantType::kIQ1_S:
    case QuantType::kIQ2_XXS:
    case QuantType::kIQ2_XS:
    case QuantType::kIQ2_S:
    case QuantType::kIQ3_XXS:
    case QuantType::kIQ3_S:
      return PutHalf(b, d);
    case QuantType::kQ2_0:
      DropCodeThree(b + 2, 16);
      return PutHalf(b, d);
    case QuantType::kTQ2_0:
      DropCodeThree(b, 64);
      return PutHalf(b + 64, d);
    case QuantType::kTQ1_0:
      return PutHalf(b + 52, d);
    case QuantType::kQ4_1:
      PutHalf(b + 2, -7.5f * d);
      return PutHalf(b, d);
    case QuantType::kQ5_1:
      PutHalf(b + 2, -15.5f * d);
      return PutHalf(b, d);
    case QuantType::kQ2_K:
      for (int g = 0; g < 16; ++g) {
        b[g] = static_cast<std::byte>(((static_cast<unsigned>(b[g]) & 7u) | 8u) * 17u);
      }
      PutHalf(b + 82, 1.5f * d);
      return PutHalf(b + 80, d);
    case QuantType::kQ3_K:
      return PutHalf(b + 108, d);
    case QuantType::kQ4_K:
      EqualScalesAndMins(b + 4);
      PutHalf(b + 2, 7.5f * d);
      return PutHalf(b, d);
    case QuantType::kQ5_K:
      EqualScalesAndMins(b + 4);
      PutHalf(b + 2, 15.5f * d);
      return PutHalf(b, d);
    case QuantType::kQ6_K:
      return PutHalf(b + 208, d);
    case QuantType::kQ8_K: {
      std::memcpy(b, &d, sizeof d);
      for (int g = 0; g < 16; ++g) {
        int16_t sum = 0;
        for (int j = 0; j < 16; ++j)
          sum = static_cast<int16_t>(sum + static_cast<int8_t>(b[4 + 16 * g + j]));
        std::memcpy(b + 260 + 2 * g, &sum, sizeof sum);
      }
      return;
    }
    case QuantType::kIQ1_M: {
      const uint16_t bits = FloatToHalf(d);
      for (int a = 0; a < 4; ++a) {
        b[49 + 2 * a] = static_cast<std::byte>((static_cast<unsigned>(b[49 + 2 * a]) & 15u) |
                                               ((bits >> (4 * a)) & 15u) << 4);
      }
      return;
    }
    case QuantType::kMXFP4:
      b[0] = static_cast<std::byte>(std::clamp(128L + std::lround(std::log2(d)), 0L, 254L));
      return;
    case QuantType::kNVFP4: {
      // E4M3, nearest at or below; the halving is the format's.
      int exponent = 0;
      const float mantissa = std::frexp(2.0f * d, &exponent);  // 2d = mantissa * 2^exponent
      const int field = exponent - 1 + 7;
      const int code = field >= 1
                           ? std::min(field * 8 + static_cast<int>((2 * mantissa - 1) * 8), 126)
                           : std::clamp(static_cast<int>(2.0f * d * 512.0f), 1, 7);
      std::fill(b, b + 4, static_cast<std::byte>(code));
      return;
    }
    default:
      break;
  }
  HF_CHECK(!"RandomRows: a type without blocks");
}

bool IsPlain(QuantType type) {
  return type == QuantType::kF32 || type == QuantType::kF16 || type == QuantType::kBF16;
}

// The standard deviation of values with block scale 1, measured.
double UnitSigma(QuantType type) {
  const QuantTypeInfo& info = InfoOf(type);
  constexpr int kBlocks = 64;
  std::vector<std::byte> block(static_cast<size_t>(info.block_bytes));
  std::vector<float> values(static_cast<size_t>(info.block_size));
  double squares = 0;
  for (int i = 0; i < kBlocks; ++i) {
    RandomBytes(Random(1, static_cast<uint64_t>(i)), block.data(), info.block_bytes);
    SetScale(type, 1.0f, block.data());
    DequantizeRow(type, block.data(), info.block_size, values.data());
    for (float value : values) squares += double{value} * value;
  }
  return std::sqrt(squares / (kBlocks * static_cast<double>(info.block_size)));
}

}  // namespace

RandomRows::RandomRows(QuantType type, int64_t n_cols, float sigma, uint64_t seed, float mean)
    : type_(type),
      n_cols_(n_cols),
      row_bytes_(RowBytes(type, n_cols).value()),
      sigma_(sigma),
      seed_(seed),
      mean_(mean) {
  if (IsPlain(type)) return;
  HF_CHECK(mean == 0.0f);
  scale_ = static_cast<float>(sigma / UnitSigma(type));
}

void RandomRows::Fill(int64_t first_row, int64_t n_rows, std::span<std::byte> out) const {
  HF_CHECK(static_cast<int64_t>(out.size()) == n_rows * row_bytes_);
  for (int64_t i = 0; i < n_rows; ++i) FillRow(first_row + i, out.data() + i * row_bytes_);
}

void RandomRows::FillRow(int64_t row, std::byte* out) const {
  const uint64_t seed = Random(seed_, static_cast<uint64_t>(row));
  if (!IsPlain(type_)) {
    RandomBytes(seed, out, row_bytes_);
    const int64_t block_bytes = InfoOf(type_).block_bytes;
    for (int64_t at = 0; at < row_bytes_; at += block_bytes) SetScale(type_, scale_, out + at);
    return;
  }
  for (int64_t i = 0; i < n_cols_; ++i) {
    const float value = mean_ + sigma_ * Noise(Random(seed, static_cast<uint64_t>(i)));
    if (type_ == QuantType::kF32) {
      std::memcpy(out + 4 * i, &value, sizeof value);
    } else {
      const uint16_t bits = type_ == QuantType::kF16 ? FloatToHalf(value) : FloatToBFloat16(value);
      std::memcpy(out + 2 * i, &bits, sizeof bits);
    }
  }
}

}  // namespace holdfast

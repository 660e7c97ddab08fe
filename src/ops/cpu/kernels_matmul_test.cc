// Every vector set's matmul against the scalar one, bit for bit.

#include <algorithm>
#include <cstring>

#include "base/half.h"
#include "ops/cpu/grid_blocks.h"
#include "ops/cpu/kernels_test_util.h"

namespace holdfast {
namespace {

constexpr QuantType kIntegerTypes[] = {QuantType::kQ8_0,   QuantType::kQ4_0,    QuantType::kQ4_1,
                                       QuantType::kQ5_0,   QuantType::kQ5_1,    QuantType::kQ2_0,
                                       QuantType::kIQ4_NL, QuantType::kQ2_K,    QuantType::kQ3_K,
                                       QuantType::kQ4_K,   QuantType::kQ5_K,    QuantType::kQ6_K,
                                       QuantType::kIQ4_XS, QuantType::kIQ2_XXS, QuantType::kIQ2_XS,
                                       QuantType::kIQ2_S,  QuantType::kIQ3_XXS, QuantType::kIQ3_S};
constexpr QuantType kFloatTypes[] = {
    QuantType::kF32,   QuantType::kF16,  QuantType::kBF16,  QuantType::kQ8_0,  QuantType::kQ4_K,
    QuantType::kMXFP4, QuantType::kQ1_0, QuantType::kIQ1_M, QuantType::kNVFP4, QuantType::kTQ1_0};

// Offsets of the half scales of a block, -1 for none.
struct ScaleOffsets {
  int d, m;
};
ScaleOffsets ScalesOf(QuantType type) {
  switch (type) {
    case QuantType::kQ4_1:
    case QuantType::kQ5_1:
    case QuantType::kQ4_K:
    case QuantType::kQ5_K:
      return {0, 2};
    case QuantType::kQ2_K:
      return {80, 82};
    case QuantType::kQ3_K:
      return {108, -1};
    case QuantType::kQ6_K:
      return {208, -1};
    case QuantType::kTQ1_0:
      return {52, -1};
    case QuantType::kMXFP4:
    case QuantType::kNVFP4:
    case QuantType::kIQ1_M:
      return {-1, -1};
    default:
      return {0, -1};
  }
}

void SetHalf(std::byte* p, float value) {
  const uint16_t half = FloatToHalf(value);
  std::memcpy(p, &half, sizeof half);
}

// Random codes; scales of a plausible size, or (hostile) any bits at all.
std::vector<std::byte> RandomWeights(QuantType type, int64_t n_rows, int64_t n_cols, bool hostile,
                                     Random& random) {
  const QuantTypeInfo& info = InfoOf(type);
  const int64_t row_bytes = RowBytes(type, n_cols).value();
  std::vector<std::byte> w(static_cast<size_t>(n_rows * row_bytes));
  for (std::byte& b : w) b = random.Byte();
  if (hostile) return w;
  for (size_t at = 0; at < w.size(); at += static_cast<size_t>(info.block_bytes)) {
    std::byte* b = w.data() + at;
    if (type == QuantType::kF32) {
      const float value = random.Gaussian(0.05f);
      std::memcpy(b, &value, sizeof value);
    } else if (type == QuantType::kF16) {
      SetHalf(b, random.Gaussian(0.05f));
    } else if (type == QuantType::kBF16) {
      const uint16_t bits = FloatToBFloat16(random.Gaussian(0.05f));
      std::memcpy(b, &bits, sizeof bits);
    } else if (type == QuantType::kMXFP4) {
      b[0] = static_cast<std::byte>(120 + random.Below(8));
    } else {
      const ScaleOffsets scales = ScalesOf(type);
      if (scales.d >= 0) SetHalf(b + scales.d, random.Gaussian(0.01f));
      if (scales.m >= 0) SetHalf(b + scales.m, random.Gaussian(0.01f));
    }
  }
  return w;
}

struct Shape {
  int64_t n_rows, n_cols, n_x;
};

struct Product {
  QuantType type;
  Shape shape;
  bool integer = true;
  bool hostile = false;
  bool indexed = false;
  bool poisoned = false;
  int n_terms = 1;
};

// y of both tables for one random product.
void ExpectSameProduct(const KernelTable& kernels, const Product& p, Random& random) {
  const Shape& shape = p.shape;
  SCOPED_TRACE(std::string(QuantTypeName(p.type)) + " rows " + std::to_string(shape.n_rows) +
               " cols " + std::to_string(shape.n_cols) + " x " + std::to_string(shape.n_x));
  const auto weights = RandomWeights(p.type, shape.n_rows, shape.n_cols, p.hostile, random);
  const int64_t n_source = p.indexed ? shape.n_x + 3 : shape.n_x;
  std::vector<float> x = random.Floats(n_source * shape.n_cols);
  if (p.poisoned) {
    x[0] = kNan;
    x[x.size() / 2] = kInf;
  }
  std::vector<int32_t> index;
  for (int64_t j = 0; j < shape.n_x; ++j) index.push_back(random.Below(static_cast<int>(n_source)));

  MatMulSlice s;
  s.type = p.type;
  s.weights = weights.data();
  s.row_bytes = RowBytes(p.type, shape.n_cols).value();
  s.n_cols = shape.n_cols;
  s.row_begin = shape.n_rows > 2 ? 1 : 0;  // not from a tile's start
  s.row_end = shape.n_rows;
  s.n_x = shape.n_x;
  s.y_stride = shape.n_rows + 2;
  if (p.indexed) s.x_index = index.data();

  QuantizedActivations quantized;
  if (p.integer) {
    quantized = QuantizeRows(x, shape.n_cols, ActivationGroup(p.type), p.n_terms);
    s.quantized = quantized.View();
  } else {
    s.x = x.data();
  }

  // What lies outside the slice must stay.
  std::vector<float> expected(static_cast<size_t>(shape.n_x * s.y_stride), 7.0f);
  std::vector<float> actual = expected;
  s.y = expected.data();
  ScalarKernels().matmul(s);
  s.y = actual.data();
  kernels.matmul(s);
  EXPECT_TRUE(SameBits(actual, expected));
  if (!p.integer || !IsGridType(p.type)) return;

  const int64_t n_blocks = shape.n_rows * shape.n_cols / 256;
  std::vector<std::byte> repacked(static_cast<size_t>(n_blocks * RepackedBlockBytes(p.type)));
  RepackBlocks(p.type, weights.data(), n_blocks, repacked.data());
  s.repacked = true;
  s.weights = repacked.data();
  s.row_bytes = shape.n_cols / 256 * RepackedBlockBytes(p.type);
  for (const KernelTable* table : {&ScalarKernels(), &kernels}) {
    std::ranges::fill(actual, 7.0f);
    table->matmul(s);
    EXPECT_TRUE(SameBits(actual, expected)) << "repacked, " << table->name;
  }
}

using MatMulTest = KernelSetTest;

TEST_P(MatMulTest, IntegerTypesEqualTheScalarTable) {
  Random random(11);
  for (const QuantType type : kIntegerTypes) {
    const int64_t block = InfoOf(type).block_size;
    for (const int64_t n_x : {0, 1, 2, 3, 4, 5, 7, 8, 9, 17, 33}) {
      for (const int64_t n_rows : {1, 18}) {
        for (const int64_t n_blocks : {1, 3}) {
          ExpectSameProduct(*GetParam(), {type, {n_rows, n_blocks * block, n_x}}, random);
        }
      }
    }
  }
}

TEST_P(MatMulTest, LanesWrapAroundAfterSixteenGroups) {
  Random random(12);
  for (const QuantType type : kIntegerTypes) {
    const int64_t block = InfoOf(type).block_size;
    for (const int64_t n_x : {1, 3, 9}) {
      ExpectSameProduct(*GetParam(), {type, {5, 16 * block, n_x}}, random);
      ExpectSameProduct(*GetParam(), {type, {5, 33 * block, n_x}}, random);
    }
  }
}

TEST_P(MatMulTest, ShapesOfTheModel) {
  Random random(13);
  for (const int64_t n_cols : {2560, 10240, 6144}) {
    for (const int64_t n_x : {1, 2, 12, 130}) {
      ExpectSameProduct(*GetParam(), {QuantType::kQ4_K, {17, n_cols, n_x}}, random);
      ExpectSameProduct(*GetParam(), {QuantType::kQ6_K, {17, n_cols, n_x}}, random);
      ExpectSameProduct(*GetParam(), {QuantType::kQ8_0, {17, n_cols, n_x}}, random);
    }
  }
  for (const int64_t n_cols : {640, 320, 256, 64}) {
    for (const int64_t n_x : {1, 10}) {
      ExpectSameProduct(*GetParam(), {QuantType::kQ5_0, {40, n_cols, n_x}}, random);
      ExpectSameProduct(*GetParam(), {QuantType::kQ8_0, {40, n_cols, n_x}}, random);
    }
  }
}

TEST_P(MatMulTest, HostileWeightsGiveTheSameBitsAndTheSameNaNs) {
  Random random(14);
  for (const QuantType type : kIntegerTypes) {
    for (const int64_t n_x : {1, 2, 11}) {
      const Shape shape = {20, 3 * InfoOf(type).block_size, n_x};
      ExpectSameProduct(*GetParam(), {.type = type, .shape = shape, .hostile = true}, random);
    }
  }
}

TEST_P(MatMulTest, IndexedAndPoisonedActivations) {
  Random random(15);
  for (const QuantType type : kIntegerTypes) {
    for (const int64_t n_x : {1, 3, 7, 20}) {
      const Shape shape = {9, 2 * InfoOf(type).block_size, n_x};
      ExpectSameProduct(*GetParam(), {.type = type, .shape = shape, .indexed = true}, random);
      ExpectSameProduct(*GetParam(), {.type = type, .shape = shape, .poisoned = true}, random);
    }
  }
}

TEST_P(MatMulTest, TwoTermsEqualTheScalarTable) {
  Random random(17);
  for (const QuantType type : kIntegerTypes) {
    const int64_t block = InfoOf(type).block_size;
    for (const int64_t n_x : {0, 1, 2, 3, 4, 6, 70}) {
      for (const int64_t n_blocks : {1, 2, 3, 7, 20}) {
        const Shape shape = {n_x == 70 ? 3 : 18, n_blocks * block, n_x};
        ExpectSameProduct(*GetParam(),
                          {.type = type, .shape = shape, .indexed = n_blocks == 2, .n_terms = 2},
                          random);
      }
    }
  }
}

TEST_P(MatMulTest, FloatFormEqualsTheScalarTable) {
  Random random(16);
  for (const QuantType type : kFloatTypes) {
    const int64_t block = InfoOf(type).block_size;
    std::vector<int64_t> widths = {block, 2 * block, 2560};
    if (block == 1) widths = {1, 4, 15, 16, 17, 320, 2560};
    for (const int64_t n_cols : widths) {
      for (const int64_t n_x : {0, 1, 2, 3, 4, 5, 9, 33}) {
        for (const bool hostile : {false, true}) {
          ExpectSameProduct(*GetParam(),
                            {.type = type,
                             .shape = {7, n_cols, n_x},
                             .integer = false,
                             .hostile = hostile,
                             .indexed = n_x == 5},
                            random);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, MatMulTest, ::testing::ValuesIn(VectorKernels()), KernelSetName);

}  // namespace
}  // namespace holdfast

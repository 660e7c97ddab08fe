#include "weights/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace holdfast {
namespace {

std::vector<std::byte> FromHex(const std::string& hex) {
  std::vector<std::byte> bytes(hex.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  return bytes;
}

nlohmann::json Vectors(std::string_view type) {
  std::ifstream in(std::string(HOLDFAST_SOURCE_DIR "/tests/vectors/") + std::string(type) +
                   ".json");
  return nlohmann::json::parse(in);
}

class DequantizeVectorTest : public testing::TestWithParam<QuantTypeInfo> {};

TEST_P(DequantizeVectorTest, EqualsGgmlBitForBit) {
  const QuantTypeInfo& info = GetParam();
  const nlohmann::json file = Vectors(info.name);
  ASSERT_EQ(file["ggml_type_id"], static_cast<int32_t>(info.type));
  ASSERT_EQ(file["block_elems"], info.block_size);
  ASSERT_EQ(file["block_bytes"], info.block_bytes);
  ASSERT_FALSE(file["vectors"].empty());
  for (const nlohmann::json& vector : file["vectors"]) {
    const std::vector<std::byte> block = FromHex(vector["hex"]);
    const std::vector<std::string> want = vector["f32_bits"];
    const auto n = static_cast<int64_t>(want.size());
    ASSERT_EQ(RowBytes(info.type, n).value(), static_cast<int64_t>(block.size()));
    // Twice in a row, at an odd address: rows have any number of blocks and any alignment.
    std::vector<std::byte> row(1);
    row.insert(row.end(), block.begin(), block.end());
    row.insert(row.end(), block.begin(), block.end());
    std::vector<float> got(2 * want.size(), -1.0f);
    DequantizeRow(info.type, row.data() + 1, 2 * n, got.data());
    for (size_t j = 0; j < got.size(); ++j) {
      const auto bits = static_cast<uint32_t>(std::stoul(want[j % want.size()], nullptr, 16));
      ASSERT_EQ(std::bit_cast<uint32_t>(got[j]), bits)
          << info.name << " " << vector["kind"] << " value " << j << " is " << got[j];
    }
  }
}

std::vector<QuantTypeInfo> DecodableTypes() {
  std::vector<QuantTypeInfo> types;
  for (const QuantTypeInfo& info : AllQuantTypes()) {
    if (info.decodes) types.push_back(info);
  }
  return types;
}

INSTANTIATE_TEST_SUITE_P(AllTypes, DequantizeVectorTest, testing::ValuesIn(DecodableTypes()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(DequantizeTest, All29TypesOfTheSpecDecode) { EXPECT_EQ(DecodableTypes().size(), 29u); }

TEST(DequantizeTest, AnEmptyRowWritesNothing) {
  DequantizeRow(QuantType::kF32, nullptr, 0, nullptr);
  DequantizeRow(QuantType::kQ4_K, nullptr, 0, nullptr);
}

TEST(DequantizeTest, NvFp4ScalesFollowUnsignedE4M3) {
  // exp 0: man * 2^-9; else (1 + man/8) * 2^(exp - 7); 0x7f is zero. Code 1 is 1/2 of a doubled 1.
  for (int s = 0; s < 128; ++s) {
    std::vector<std::byte> block(36, std::byte{0x11});
    block[0] = static_cast<std::byte>(s);
    std::vector<float> values(64);
    DequantizeRow(QuantType::kNVFP4, block.data(), 64, values.data());
    const int exponent = s >> 3, mantissa = s & 7;
    double scale =
        exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(1 + mantissa / 8.0, exponent - 7);
    if (s == 0x7f) scale = 0;
    ASSERT_EQ(values[0], scale / 2) << s;
  }
}

TEST(DequantizeTest, MxFp4ScalesArePowersOfTwoDownToDenormals) {
  for (int e = 0; e < 255; ++e) {
    std::vector<std::byte> block(17, std::byte{0x22});
    block[0] = static_cast<std::byte>(e);
    std::vector<float> values(32);
    DequantizeRow(QuantType::kMXFP4, block.data(), 32, values.data());
    ASSERT_EQ(values[0], static_cast<float>(std::ldexp(2.0, e - 128))) << e;
  }
}

TEST(QuantTypeTest, IdsAndNamesFindTheSameType) {
  for (const QuantTypeInfo& info : AllQuantTypes()) {
    EXPECT_EQ(FindQuantType(static_cast<int32_t>(info.type)), FindQuantType(info.name));
  }
  EXPECT_EQ(FindQuantType("q4_k"), FindQuantType(12));
}

TEST(QuantTypeTest, RemovedAndForeignIdsAreNotFound) {
  for (int32_t id : {-1, 4, 5, 31, 32, 33, 36, 37, 38, 43, std::numeric_limits<int32_t>::max(),
                     std::numeric_limits<int32_t>::min()}) {
    EXPECT_EQ(FindQuantType(id), nullptr) << id;
  }
}

TEST(QuantTypeTest, RowBytesRefusesPartBlocksAndOverflow) {
  EXPECT_EQ(RowBytes(QuantType::kQ4_K, 2560).value(), 1440);
  EXPECT_EQ(RowBytes(QuantType::kQ5_1, 640).value(), 480);
  EXPECT_EQ(RowBytes(QuantType::kQ4_K, 0).value(), 0);
  EXPECT_EQ(RowBytes(QuantType::kQ4_K, 640).status().message(),
            "a row of 640 values cannot be Q4_K: it needs a multiple of 256");
  EXPECT_FALSE(RowBytes(QuantType::kF16, -2).ok());
  EXPECT_FALSE(RowBytes(QuantType::kF32, int64_t{1} << 62).ok());
}

}  // namespace
}  // namespace holdfast

// The same numbers stored as BF16 and as F32 must give the same bits: every product decodes a row
// and then does the same arithmetic.

#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "tests/parity/parity_fixture.h"
#include "weights/dequantize.h"
#include "weights/gguf_writer.h"

namespace holdfast {
namespace {

// A file like `path` with every tensor as F32.
void Expand(const std::string& path, const std::string& out) {
  const auto file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  GgufWriter writer;
  for (const GgufValue& value : (*file)->values()) writer.SetValue(value);
  for (const GgufTensor& tensor : (*file)->tensors()) {
    const int64_t n_cols = tensor.ne[0], row_bytes = *RowBytes(tensor.type, n_cols);
    const auto rows = [&tensor, n_cols, row_bytes](int64_t first, int64_t n,
                                                   std::span<std::byte> bytes) {
      for (int64_t row = 0; row < n; ++row) {
        std::vector<float> values(n_cols);
        DequantizeRow(tensor.type, tensor.data.data() + (first + row) * row_bytes, n_cols,
                      values.data());
        std::memcpy(bytes.data() + row * n_cols * sizeof(float), values.data(),
                    n_cols * sizeof(float));
      }
    };
    writer.AddTensor(tensor.name, QuantType::kF32,
                     {tensor.ne.begin(), tensor.ne.begin() + tensor.n_dims}, rows);
  }
  const Status status = writer.WriteFile(out);
  ASSERT_TRUE(status.ok()) << status.ToString();
}

struct ExpansionCase {
  std::string model, file;
  ActivationFormat activations;
};

class F32ExpansionTest : public ::testing::TestWithParam<ExpansionCase> {};

TEST_P(F32ExpansionTest, LogitsAreTheSameBits) {
  const std::string expanded =
      ::testing::TempDir() + "/holdfast_f32_" + std::to_string(getpid()) + ".gguf";
  Expand(FixturePath(GetParam().file), expanded);
  const auto ids =
      ReadJson(FixturePath(GetParam().model + ".expected.json"))["prompts"]["mid"]["ids"]
          .get<std::vector<int32_t>>();
  std::vector<std::vector<float>> logits;
  for (const std::string& path : {FixturePath(GetParam().file), expanded}) {
    auto m = TestModel::OnCpu(path, {.n_threads = 2, .activations = GetParam().activations}, {});
    ASSERT_NE(m.model, nullptr);
    logits.push_back(m.Logits(ids));
  }
  std::filesystem::remove(expanded);
  ASSERT_EQ(logits[0].size(), ids.size() * 2048);
  EXPECT_EQ(std::memcmp(logits[0].data(), logits[1].data(), logits[0].size() * sizeof(float)), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Bf16Files, F32ExpansionTest,
    ::testing::Values(ExpansionCase{"tinyA", "tinyA-bf16.gguf", ActivationFormat::kF32},
                      ExpansionCase{"tinyA", "tinyA-bf16.gguf", ActivationFormat::kAuto},
                      ExpansionCase{"tinyC", "tinyC-mtp-bf16.gguf", ActivationFormat::kF32}),
    [](const auto& info) {
      return info.param.model + "_" + std::string(ActivationFormatName(info.param.activations));
    });

}  // namespace
}  // namespace holdfast

// Rows of the n-gram table against three independent lists: the reference models', those computed
// with the released model's constants, and the specification's worked example.

#include "model/ngram_rows.h"
#include "tests/parity/parity_fixture.h"

namespace holdfast {
namespace {

PleConfig ConfigOf(const nlohmann::json& json, const std::string& eos_key,
                   const std::string& multipliers_key) {
  PleConfig ple;
  ple.ngram_size = json["ngram_size"];
  ple.heads_per_ngram = json["heads_per_ngram"];
  ple.n_heads = (ple.ngram_size - 1) * ple.heads_per_ngram;
  ple.eos_token_id = json[eos_key];
  ple.multipliers = json[multipliers_key].get<std::vector<uint64_t>>();
  ple.head_offsets = json["head_offsets"].get<std::vector<uint64_t>>();
  ple.head_vocab_sizes = json["head_vocab_sizes"].get<std::vector<uint64_t>>();
  return ple;
}

// In one go, and every suffix as it would be computed when a conversation goes on.
void ExpectRows(const PleConfig& ple, const std::vector<int32_t>& tokens,
                const std::vector<int64_t>& want) {
  ASSERT_EQ(want.size(), tokens.size() * ple.n_heads);
  for (size_t first = 0; first < tokens.size(); ++first) {
    std::vector<int64_t> got((tokens.size() - first) * ple.n_heads);
    NgramRows(ple, tokens, static_cast<int64_t>(first), got);
    ASSERT_TRUE(std::ranges::equal(got, std::span(want).subspan(first * ple.n_heads)))
        << "from position " << first;
  }
}

std::vector<int64_t> Flatten(const nlohmann::json& rows) {
  std::vector<int64_t> all;
  for (const auto& row : rows) {
    for (const int64_t value : row) all.push_back(value);
  }
  return all;
}

TEST(NgramParityTest, ConstantsOfTheReleasedModel) {
  const nlohmann::json cases = ReadJson(FixturePath("ple_hash_published.json"));
  ASSERT_EQ(cases.size(), 2u);
  for (const nlohmann::json& one : cases) {
    ExpectRows(ConfigOf(one, "eos_token_id", "layer_multipliers"),
               one["tokens"].get<std::vector<int32_t>>(), Flatten(one["rows"]));
  }
}

TEST(NgramParityTest, WorkedExample) {
  const nlohmann::json one = ReadJson(SourcePath("tests/vectors/ple_hash.json"));
  ExpectRows(ConfigOf(one, "eos", "multipliers"), one["tokens"].get<std::vector<int32_t>>(),
             Flatten(one["rows"]));
}

using NgramModelParityTest = ParityTest;

TEST_P(NgramModelParityTest, RowsOfThePrompts) {
  const PleConfig& ple = *m_.model->config().ple;
  for (const std::string prompt : {"short", "mid"}) {
    const auto want =
        expected_.Get(prompt + ".l" + std::to_string(ple.layer) + ".ple_rows").integers;
    ExpectRows(ple, Ids(prompt), std::vector<int64_t>(want.begin(), want.end()));
  }
}

TEST_P(NgramModelParityTest, HashCases) {
  const PleConfig& ple = *m_.model->config().ple;
  ASSERT_FALSE(manifest_["ple_hash"].empty());
  for (const nlohmann::json& one : manifest_["ple_hash"]) {
    const PleConfig want = ConfigOf(one, "eos_token_id", "layer_multipliers");
    EXPECT_EQ(ple.multipliers, want.multipliers);
    EXPECT_EQ(ple.head_offsets, want.head_offsets);
    EXPECT_EQ(ple.head_vocab_sizes, want.head_vocab_sizes);
    ExpectRows(ple, one["tokens"].get<std::vector<int32_t>>(), Flatten(one["rows"]));
  }
}

INSTANTIATE_TEST_SUITE_P(Full, NgramModelParityTest,
                         ::testing::Values(ParityCase{"tinyA", "tinyA-bf16.gguf", "cpu"},
                                           ParityCase{"tinyC", "tinyC-mtp-bf16.gguf", "cpu"}),
                         ParityCaseName);

}  // namespace
}  // namespace holdfast

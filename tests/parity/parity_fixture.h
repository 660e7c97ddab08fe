#ifndef HOLDFAST_TESTS_PARITY_PARITY_FIXTURE_H_
#define HOLDFAST_TESTS_PARITY_PARITY_FIXTURE_H_

// A reference model, its expected values and our model of it on one backend.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "tests/support/fixtures.h"
#include "tests/support/test_model.h"

namespace holdfast {

// float32 noise of the reference itself reaches 1e-4 on logits of standard deviation 3; its README
// asks 3e-4 of another implementation.
inline constexpr float kLogitTolerance = 3e-4f;

struct ParityCase {
  std::string model;  // name of the expected files
  std::string file;
  std::string backend;
};

class ParityTest : public ::testing::TestWithParam<ParityCase> {
 protected:
  ParityTest()
      : manifest_(ReadJson(FixturePath(GetParam().model + ".expected.json"))),
        expected_(FixturePath(GetParam().model + ".expected.safetensors")),
        m_(TestModel::On(GetParam().backend, FixturePath(GetParam().file),
                         {.n_threads = 2, .activations = ActivationFormat::kF32},
                         {.kv_format = KvFormat::kF32})) {}

  std::vector<int32_t> Ids(const std::string& prompt) const {
    return manifest_["prompts"][prompt]["ids"].get<std::vector<int32_t>>();
  }

  nlohmann::json manifest_;
  ExpectedTensors expected_;
  TestModel m_;
};

inline std::string ParityCaseName(const ::testing::TestParamInfo<ParityCase>& info) {
  std::string name = info.param.model + "_" + info.param.backend;
  std::erase(name, '-');
  return name;
}

// The two models with every intermediate value, and the one with logits only.
inline auto FullCases() {
  return ::testing::Values(ParityCase{"tinyA", "tinyA-bf16.gguf", "cpu"},
                           ParityCase{"tinyC", "tinyC-mtp-bf16.gguf", "cpu"},
                           ParityCase{"tinyA", "tinyA-bf16.gguf", "deferred"},
                           ParityCase{"tinyC", "tinyC-mtp-bf16.gguf", "deferred"});
}
inline auto LogitCases() {
  return ::testing::Values(ParityCase{"tinyA-mix", "tinyA-mix.gguf", "cpu"},
                           ParityCase{"tinyA-mix", "tinyA-mix.gguf", "deferred"});
}

inline float MaxDifference(std::span<const float> got, std::span<const float> want) {
  EXPECT_EQ(got.size(), want.size());
  float max = 0;
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    const float difference = std::fabs(got[i] - want[i]);
    if (!(difference <= max)) max = difference;  // NaN sticks
  }
  return max;
}

inline int Argmax(std::span<const float> row) {
  return static_cast<int>(std::max_element(row.begin(), row.end()) - row.begin());
}

// transformers' index of GGUF value head `head` (fixtures/README.md).
inline int ReferenceValueHead(int head, int n_key_heads, int n_value_heads) {
  return n_value_heads / n_key_heads * (head % n_key_heads) + head / n_key_heads;
}

}  // namespace holdfast

#endif  // HOLDFAST_TESTS_PARITY_PARITY_FIXTURE_H_

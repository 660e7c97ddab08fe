// Repacked weights give the bits of weights as files have them (docs/exactness.md).

#include <cstring>
#include <random>

#include "tests/support/fixtures.h"
#include "tests/support/slow_build.h"
#include "tests/support/test_model.h"

namespace holdfast {
namespace {

constexpr int64_t kTokens = kSlowBuild ? 12 : 40;

// 25 types of tensors, grid types among them.
std::string Path() { return FixturePath("tinyA-mix.gguf"); }

std::vector<int32_t> Tokens(int64_t vocab_size) {
  std::mt19937 rng(12);
  std::vector<int32_t> tokens(kTokens);
  for (int32_t& token : tokens) token = static_cast<int32_t>(rng() % vocab_size);
  return tokens;
}

TEST(RepackParityTest, RepackedWeightsGiveTheSameBits) {
  TestModel mapped = TestModel::OnCpu(Path(), {.n_threads = 2}, {});
  const std::vector<int32_t> tokens = Tokens(mapped.model->config().vocab_size);
  const std::vector<float> want = mapped.Logits(tokens);
  struct Setting {
    std::string backend;
    CpuBackendOptions cpu;
    int64_t chunk;  // rows of a step
  };
  const Setting settings[] = {{"cpu", {.n_threads = 2}, 0},
                              {"cpu", {.n_threads = 3}, 1},
                              {"cpu", {.n_threads = 1, .kernels = "scalar"}, 7},
                              {"deferred", {.n_threads = 2}, 5}};
  for (const Setting& s : settings) {
    TestModel m = TestModel::On(s.backend, Path(), s.cpu, {});
    const Model::RepackSizes sizes = m.model->repack_sizes();
    ASSERT_GT(sizes.copy_bytes, sizes.file_bytes);
    double told = 0;
    ASSERT_TRUE(m.model
                    ->RepackWeights([&](double fraction) {
                      EXPECT_GT(fraction, told);
                      told = fraction;
                    })
                    .ok());
    EXPECT_EQ(told, 1.0);
    EXPECT_EQ(m.model->repack_sizes().copy_bytes, 0u);  // all of them are
    const std::vector<float> got = m.Logits(tokens, s.chunk);
    ASSERT_EQ(got.size(), want.size());
    EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0)
        << s.backend << ", steps of " << s.chunk;
  }
}

TEST(RepackParityTest, ActivationsThatAreNotQuantisedHaveNoUseForIt) {
  const TestModel m = TestModel::OnCpu(Path(), {.activations = ActivationFormat::kF32}, {});
  EXPECT_EQ(m.model->repack_sizes().copy_bytes, 0u);
}

}  // namespace
}  // namespace holdfast

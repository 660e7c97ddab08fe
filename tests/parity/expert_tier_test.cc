// Experts that are read into an arena of any size, by any reader, give the bits of experts that are
// used where the file is mapped (docs/exactness.md).

#include <cstring>
#include <filesystem>
#include <random>

#include "tests/support/fixtures.h"
#include "tests/support/slow_build.h"
#include "tests/support/test_model.h"

namespace holdfast {
namespace {

constexpr int64_t kTokens = kSlowBuild ? 12 : 40;

struct TierCase {
  std::string file, mtp;
};

class ExpertTierParityTest : public testing::TestWithParam<TierCase> {
 protected:
  std::string Path(const std::string& file) const {
    const std::string demo = SourcePath("models/demo/" + file);
    return std::filesystem::exists(demo) ? demo : FixturePath(file);
  }
  ModelOptions Options() const {
    ModelOptions options{.max_rows = 64};
    if (!GetParam().mtp.empty()) options.mtp_path = Path(GetParam().mtp);
    return options;
  }
  std::vector<float> Resident(const std::vector<int32_t>& tokens) const {
    return TestModel::OnCpu(Path(GetParam().file), {.n_threads = 2}, Options()).Logits(tokens);
  }
  static std::vector<int32_t> Tokens(int64_t vocab_size) {
    std::mt19937 rng(11);
    std::vector<int32_t> tokens(kTokens);
    for (int32_t& token : tokens) token = static_cast<int32_t>(rng() % vocab_size);
    return tokens;
  }
};

TEST_P(ExpertTierParityTest, AnyArenaAndReaderGiveTheSameBits) {
  const std::string path = Path(GetParam().file);
  const int64_t vocab = TestModel::OnCpu(path, {}, Options()).model->config().vocab_size;
  const std::vector<int32_t> tokens = Tokens(vocab);
  const std::vector<float> want = Resident(tokens);
  struct Setting {
    std::string backend;
    int n_slots, n_threads;
    ReaderKind reader;
    int64_t chunk;  // rows of a step
  };
  const Setting settings[] = {
      {"cpu", 1, 3, ReaderKind::kPread, 0},     {"cpu", 2, 1, ReaderKind::kAuto, 1},
      {"cpu", 3, 4, ReaderKind::kAuto, 7},      {"deferred", 5, 2, ReaderKind::kPread, 0},
      {"deferred", 7, 3, ReaderKind::kAuto, 1}, {"cpu", 11, 2, ReaderKind::kPread, 1},
      {"cpu", 1000, 2, ReaderKind::kAuto, 5}};
  for (const Setting& s : settings) {
    TestModel m = TestModel::On(s.backend, path, {.n_threads = s.n_threads}, Options());
    const uint64_t slot_bytes = SizesOf(m.model->expert_layers()).slot_bytes;
    ASSERT_TRUE(m.model
                    ->StreamExperts({.arena_bytes = slot_bytes * static_cast<uint64_t>(s.n_slots),
                                     .reader = s.reader})
                    .ok());
    const std::vector<float> got = m.Logits(tokens, s.chunk);
    ASSERT_EQ(got.size(), want.size());
    EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0)
        << s.backend << ", " << s.n_slots << " slots, steps of " << s.chunk;
    EXPECT_GT(m.model->expert_tier()->stats().layers[0].n_misses, 0);
  }
}

TEST_P(ExpertTierParityTest, ReadingAheadSparesMissesAndChangesNoBit) {
  const std::string path = Path(GetParam().file);
  int64_t n_misses[2] = {};
  std::vector<float> logits[2];
  for (const bool look_ahead : {false, true}) {
    TestModel m = TestModel::OnCpu(path, {.n_threads = 2}, Options());
    const ExpertSizes sizes = SizesOf(m.model->expert_layers());
    const uint64_t arena_bytes = sizes.slot_bytes * static_cast<uint64_t>(sizes.n_experts) / 2;
    ASSERT_TRUE(
        m.model->StreamExperts({.arena_bytes = arena_bytes, .look_ahead = look_ahead}).ok());
    logits[look_ahead] = m.Logits(Tokens(m.model->config().vocab_size), /*chunk=*/1);
    for (const auto& layer : m.model->expert_tier()->stats().layers) {
      n_misses[look_ahead] += layer.n_misses;
    }
  }
  EXPECT_EQ(std::memcmp(logits[0].data(), logits[1].data(), logits[0].size() * sizeof(float)), 0);
  EXPECT_LT(n_misses[1], n_misses[0]);
}

INSTANTIATE_TEST_SUITE_P(
    Models, ExpertTierParityTest,
    testing::Values(TierCase{"tinyA-mix.gguf", ""}, TierCase{"tinyA-bf16.gguf", ""},
                    TierCase{"tinyC-mtp-bf16.gguf", ""},
                    TierCase{"holdfast-demo-Q4_K_M.gguf", "holdfast-demo-mtp.gguf"}),
    [](const auto& info) {
      std::string name = info.param.file.substr(0, info.param.file.find('.'));
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

}  // namespace
}  // namespace holdfast

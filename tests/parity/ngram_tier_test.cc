// Rows of the n-gram table that are read when a step needs them, with any memory and by any reader,
// give the bits of a table that is used where the file is mapped (docs/exactness.md).

#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "base/temp_folder.h"
#include "tests/support/fixtures.h"
#include "tests/support/slow_build.h"
#include "tests/support/test_conversation.h"
#include "tests/support/test_model.h"
#include "weights/gguf_writer.h"
#include "weights/testing/unreliable_reader.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kTokens = kSlowBuild ? 30 : 60;

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class NgramTierParityTest : public testing::TestWithParam<std::string> {
 protected:
  static TestModel Load(const std::string& path, const std::string& backend = "cpu",
                        int n_threads = 2) {
    TestModel m = TestModel::On(backend, path, {.n_threads = n_threads}, {.max_rows = 64});
    EXPECT_TRUE(m.model->ngram_table().exists());
    return m;
  }
  static NgramTierOptions WithSlots(const Model& model, uint64_t n_slots) {
    const NgramSizes sizes = SizesOf(model.ngram_table());
    return {.memory_bytes = sizes.buffer_bytes + n_slots * sizes.slot_bytes};
  }
  // Few different ones, so that n-grams come again.
  std::vector<int32_t> Tokens() const {
    const int64_t vocab = Load(path_).model->config().vocab_size;
    std::mt19937 rng(11);
    std::vector<int32_t> tokens(kTokens);
    for (int32_t& token : tokens) {
      token = static_cast<int32_t>(rng() % 8 == 0 ? rng() % vocab : rng() % 3);
    }
    return tokens;
  }
  // Logits of a window of guesses of which three rows count, and of what follows them.
  static std::vector<float> Window(Model* model, const std::vector<int32_t>& tokens) {
    const int64_t vocab = model->config().vocab_size;
    TestConversation conversation(model, tokens);
    const std::unique_ptr<Buffer> log = model->backend()->Allocate(model->log_bytes()).value();
    EXPECT_TRUE(model->Forward({.sequences = {conversation.Next(20)}}, {}).ok());
    SequenceRows window = conversation.Next(1);
    window.drafts = std::span(tokens).subspan(21, 5);
    window.log = log.get();
    std::vector<float> logits(10 * vocab);
    const std::span<float> all(logits);
    EXPECT_TRUE(model
                    ->Forward({.sequences = {window}, .output_rows = {0, 1, 2, 3, 4, 5}},
                              all.first(6 * vocab))
                    .ok());
    const int64_t n_right = 3;
    EXPECT_TRUE(model->Commit(std::span(&window, 1), std::span(&n_right, 1)).ok());
    conversation.Next(2);
    EXPECT_TRUE(model
                    ->Forward({.sequences = {conversation.Next(4)}, .output_rows = {0, 1, 2, 3}},
                              all.last(4 * vocab))
                    .ok());
    return logits;
  }

  const std::string path_ = std::filesystem::exists(SourcePath("models/demo/" + GetParam()))
                                ? SourcePath("models/demo/" + GetParam())
                                : FixturePath(GetParam());
};

TEST_P(NgramTierParityTest, AnyMemoryAndReaderGiveTheSameBits) {
  const std::vector<int32_t> tokens = Tokens();
  const std::vector<float> want = Load(path_).Logits(tokens);
  struct Setting {
    std::string backend;
    uint64_t n_slots;
    int n_threads;
    ReaderKind reader;
    int64_t chunk;  // rows of a step
  };
  const Setting settings[] = {
      {"cpu", 1, 3, ReaderKind::kPread, 0},        {"cpu", 2, 1, ReaderKind::kAuto, 1},
      {"cpu", 30, 4, ReaderKind::kAuto, 7},        {"deferred", 5, 2, ReaderKind::kPread, 0},
      {"deferred", 100, 3, ReaderKind::kAuto, 1},  {"cpu", 100, 2, ReaderKind::kPread, 1},
      {"cpu", 1000000000, 2, ReaderKind::kAuto, 5}};
  for (const Setting& s : settings) {
    TestModel m = Load(path_, s.backend, s.n_threads);
    NgramTierOptions options = WithSlots(*m.model, s.n_slots);
    options.reader = s.reader;
    ASSERT_TRUE(m.model->StreamNgramRows(options).ok());
    EXPECT_TRUE(SameBits(m.Logits(tokens, s.chunk), want))
        << s.backend << ", " << s.n_slots << " slots, steps of " << s.chunk;
    const NgramTierStats stats = m.model->ngram_tier()->stats();
    EXPECT_EQ(stats.n_asked, kTokens * m.model->config().ple->n_heads);
    EXPECT_EQ(stats.n_asked, stats.n_repeated + stats.n_hits + stats.n_read);
    EXPECT_GT(stats.n_read, 0);
    EXPECT_TRUE(stats.n_hits > 0 || s.chunk != 5);
  }
}

TEST_P(NgramTierParityTest, GuessesThatAreCheckedGetTheSameBits) {
  const std::vector<int32_t> tokens = Tokens();
  TestModel mapped = Load(path_);
  const std::vector<float> want = Window(mapped.model.get(), tokens);
  for (const uint64_t n_slots : {1, 100, 100000}) {
    TestModel m = Load(path_);
    ASSERT_TRUE(m.model->StreamNgramRows(WithSlots(*m.model, n_slots)).ok());
    EXPECT_TRUE(SameBits(Window(m.model.get(), tokens), want)) << n_slots;
  }
}

TEST_P(NgramTierParityTest, ExpertsAndRowsMayBothBeRead) {
  const std::vector<int32_t> tokens = Tokens();
  TestModel m = Load(path_);
  const uint64_t slot_bytes = SizesOf(m.model->expert_layers()).slot_bytes;
  ASSERT_TRUE(m.model->StreamExperts({.arena_bytes = 3 * slot_bytes}).ok());
  ASSERT_TRUE(m.model->StreamNgramRows(WithSlots(*m.model, 10)).ok());
  EXPECT_TRUE(SameBits(m.Logits(tokens, 9), Load(path_).Logits(tokens)));
}

// As published: the table alone in the second part.
TEST_P(NgramTierParityTest, ATableInAnotherPartGivesTheSameBits) {
  const TempFolder folder = TempFolder::Create("ngram_split").value();
  const auto file = GgufFile::Open(path_).value();
  GgufWriter writer;
  for (const GgufValue& value : file->values()) writer.SetValue(value);
  const auto add = [&](const GgufTensor& t) {
    writer.AddTensor(t.name, t.type, {t.ne.begin(), t.ne.begin() + t.n_dims}, t.data);
  };
  const GgufTensor* const table = file->FindTensor("per_layer_token_embd.weight");
  for (const GgufTensor& tensor : file->tensors()) {
    if (&tensor != table) add(tensor);
  }
  add(*table);
  const int n_tensors = writer.n_tensors();
  const auto path =
      writer.WriteSplitFiles(folder.path() + "/split", std::vector<int>{n_tensors - 1, 1});
  ASSERT_TRUE(path.ok()) << path.status().ToString();

  const std::vector<int32_t> tokens = Tokens();
  TestModel m = Load(*path);
  ASSERT_TRUE(m.model->StreamNgramRows(WithSlots(*m.model, 50)).ok());
  EXPECT_TRUE(SameBits(m.Logits(tokens, 8), Load(path_).Logits(tokens)));
}

TEST_P(NgramTierParityTest, AReadErrorFailsTheStepByNameAndTheNextOneIsRight) {
  const std::vector<int32_t> tokens = Tokens();
  TestModel m = Load(path_);
  UnreliableReader::Faults faults;
  faults.failing = {3};
  NgramTierOptions options = WithSlots(*m.model, 50);
  options.make_reader = [&](AsyncReader::Done done) -> Result<std::unique_ptr<AsyncReader>> {
    return std::unique_ptr<AsyncReader>(
        std::make_unique<UnreliableReader>(&faults, std::move(done)));
  };
  ASSERT_TRUE(m.model->StreamNgramRows(options).ok());
  auto sequence = Sequence::Create(m.model.get());
  ASSERT_TRUE(sequence.ok());
  const Status status = sequence->Read(tokens, 0, kTokens, [](int64_t, std::span<const float>) {});
  EXPECT_THAT(status.message(), HasSubstr(path_));
  EXPECT_THAT(status.message(), HasSubstr("per_layer_token_embd.weight"));
  EXPECT_TRUE(SameBits(m.Logits(tokens), Load(path_).Logits(tokens)));
}

INSTANTIATE_TEST_SUITE_P(Models, NgramTierParityTest,
                         testing::Values("tinyA-mix.gguf", "tinyA-bf16.gguf", "tinyC-mtp-bf16.gguf",
                                         "holdfast-demo-Q4_K_M.gguf"),
                         [](const auto& info) {
                           std::string name = info.param.substr(0, info.param.find('.'));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace holdfast

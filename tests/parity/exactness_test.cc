// The numerics contract (docs/exactness.md): logits and state are a function of the tokens, the
// model, the KV format and the activation format. How the tokens are cut into steps, what else is
// in a step, the number of threads and the kernel set change no bit.

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "ops/cpu/kernels.h"
#include "tests/support/fixtures.h"
#include "tests/support/slow_build.h"
#include "tests/support/test_conversation.h"
#include "tests/support/test_model.h"

namespace holdfast {
namespace {

constexpr int64_t kMaxRows = 512;
// Three pages, and enough blocks that most of them are not chosen (the fixtures' budget is 8).
constexpr int64_t kTokens = kSlowBuild ? 45 : 70;
constexpr int kPageTokens = 32;

struct ExactnessCase {
  std::string file;
  KvFormat kv_format;
  ActivationFormat activations;
};

std::vector<std::string> KernelNames() {
  int n = 0;
  const std::string_view* names = AvailableKernels(&n);
  return {names, names + n};
}

// What must not depend on how it was computed.
struct Outcome {
  std::vector<float> logits;  // of every position
  std::vector<std::pair<std::string, std::vector<std::byte>>> parts;
};

void ExpectSameLogits(const Outcome& got, const Outcome& want, const std::string& how) {
  ASSERT_EQ(got.logits.size(), want.logits.size()) << how;
  if (std::memcmp(got.logits.data(), want.logits.data(), got.logits.size() * sizeof(float)) == 0) {
    return;
  }
  const auto first =
      std::mismatch(got.logits.begin(), got.logits.end(), want.logits.begin(),
                    [](float a, float b) { return std::memcmp(&a, &b, sizeof(float)) == 0; });
  FAIL() << how << ": logit " << first.first - got.logits.begin() << " of " << got.logits.size()
         << " is " << *first.first << ", want " << *first.second;
}

void ExpectSame(const Outcome& got, const Outcome& want, const std::string& how) {
  ExpectSameLogits(got, want, how);
  ASSERT_EQ(got.parts.size(), want.parts.size()) << how;
  for (size_t i = 0; i < got.parts.size(); ++i) {
    EXPECT_EQ(got.parts[i].first, want.parts[i].first) << how;
    EXPECT_TRUE(got.parts[i].second == want.parts[i].second) << how << ": " << got.parts[i].first;
  }
}

// Runs one step of some conversations; each gets its rows' logits added to its outcome.
void RunStep(Model* model, const std::vector<std::pair<TestConversation*, int64_t>>& rows,
             std::map<const TestConversation*, Outcome>* outcomes) {
  Batch batch;
  int64_t n_rows = 0;
  for (const auto& [conversation, n] : rows) {
    batch.sequences.push_back(conversation->Next(n));
    n_rows += n;
  }
  for (int64_t row = 0; row < n_rows; ++row) {
    batch.output_rows.push_back(static_cast<int32_t>(row));
  }
  const int64_t vocab = model->config().vocab_size;
  std::vector<float> logits(n_rows * vocab);
  const Status status = model->Forward(batch, logits);
  ASSERT_TRUE(status.ok()) << status.ToString();
  const float* row = logits.data();
  for (const auto& [conversation, n] : rows) {
    std::vector<float>& all = (*outcomes)[conversation].logits;
    all.insert(all.end(), row, row + n * vocab);
    row += n * vocab;
  }
}

class ExactnessTest : public ::testing::TestWithParam<ExactnessCase> {
 protected:
  ExactnessTest() {
    const auto prompts = ReadJson(FixturePath("tinyA.expected.json"))["prompts"];
    const auto long_ids = prompts["long"]["ids"].get<std::vector<int32_t>>();
    const auto mid_ids = prompts["mid"]["ids"].get<std::vector<int32_t>>();
    tokens_.assign(long_ids.begin(), long_ids.begin() + kTokens);
    others_ = {{mid_ids.begin(), mid_ids.begin() + kTokens / 2},
               {long_ids.rbegin(), long_ids.rbegin() + kTokens / 3}};
  }

  TestModel Load(const std::string& kernels, int n_threads, int page_tokens = kPageTokens) const {
    return TestModel::OnCpu(
        FixturePath(GetParam().file),
        {.n_threads = n_threads, .kernels = kernels, .activations = GetParam().activations},
        {.kv_format = GetParam().kv_format, .page_tokens = page_tokens, .max_rows = kMaxRows});
  }

  // `tokens` alone, in steps of at most `chunk` rows, or of random sizes when `chunk` is 0.
  static Outcome Read(Model* model, const std::vector<int32_t>& tokens, int64_t chunk,
                      std::mt19937_64* random) {
    TestConversation conversation(model, tokens);
    std::map<const TestConversation*, Outcome> outcomes;
    while (conversation.n_left() > 0) {
      const int64_t most = chunk > 0 ? chunk : 1 + static_cast<int64_t>((*random)() % 40);
      RunStep(model, {{&conversation, std::min(most, conversation.n_left())}}, &outcomes);
    }
    outcomes[&conversation].parts = conversation.Parts();
    return outcomes[&conversation];
  }

  // All conversations at once: each step holds a random few of them, in random order, with random
  // numbers of rows.
  static std::vector<Outcome> ReadTogether(Model* model,
                                           const std::vector<std::vector<int32_t>>& tokens,
                                           std::mt19937_64* random) {
    std::vector<std::unique_ptr<TestConversation>> conversations;
    for (const auto& one : tokens) {
      conversations.push_back(std::make_unique<TestConversation>(model, one));
    }
    std::map<const TestConversation*, Outcome> outcomes;
    while (true) {
      std::vector<std::pair<TestConversation*, int64_t>> rows;
      for (const auto& conversation : conversations) {
        if (conversation->n_left() == 0) continue;
        const int64_t most = (*random)() % 2 == 0 ? 1 : 1 + static_cast<int64_t>((*random)() % 20);
        rows.emplace_back(conversation.get(), std::min(most, conversation->n_left()));
      }
      if (rows.empty()) break;
      std::shuffle(rows.begin(), rows.end(), *random);
      rows.resize(1 + (*random)() % rows.size());
      RunStep(model, rows, &outcomes);
    }
    std::vector<Outcome> all;
    for (const auto& conversation : conversations) {
      outcomes[conversation.get()].parts = conversation->Parts();
      all.push_back(std::move(outcomes[conversation.get()]));
    }
    return all;
  }

  std::vector<int32_t> tokens_;
  std::vector<std::vector<int32_t>> others_;
};

TEST_P(ExactnessTest, ChunksThreadsAndKernelsChangeNothing) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  TestModel reference = Load("scalar", 1);
  const Outcome want = Read(reference.model.get(), tokens_, kMaxRows, &random);

  // Every chunk with every kernel set and thread count in the long form; otherwise one chunk for
  // each kernel set and thread count, in turn.
  const std::vector<int64_t> chunks = {1, 7, 64, 0, 512};
  size_t next = random() % chunks.size();
  for (const std::string& kernels : KernelNames()) {
    // The scalar set is slow, and the reference is made with it.
    const bool only_once = kernels == "scalar" && !CheckAll();
    for (const int n_threads : only_once ? std::vector<int>{2} : std::vector<int>{1, 2, 5}) {
      TestModel m = Load(kernels, n_threads);
      const size_t n_runs = CheckAll() ? chunks.size() : 1;
      for (size_t i = 0; i < n_runs; ++i, ++next) {
        const int64_t chunk = chunks[next % chunks.size()];
        ExpectSame(Read(m.model.get(), tokens_, chunk, &random), want,
                   kernels + ", " + std::to_string(n_threads) + " threads, chunk " +
                       std::to_string(chunk));
      }
    }
  }
}

TEST_P(ExactnessTest, CompanyInTheBatchChangesNothing) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::vector<std::string> kernels = KernelNames();
  std::vector<std::vector<int32_t>> all = others_;
  all.push_back(tokens_);
  TestModel alone = Load(kernels.back(), 1);
  std::vector<Outcome> want;
  for (const auto& one : all) want.push_back(Read(alone.model.get(), one, kMaxRows, &random));

  for (const int n_threads : {1, 2, 5}) {
    // Kernels have other forms for few and for many rows.
    const size_t first = kernels.size() > 1 && !CheckAll() ? 1 : 0;  // 0 is the slow scalar set
    TestModel m = Load(kernels[first + random() % (kernels.size() - first)], n_threads);
    const std::vector<Outcome> got = ReadTogether(m.model.get(), all, &random);
    for (size_t i = 0; i < all.size(); ++i) {
      ExpectSame(
          got[i], want[i],
          "conversation " + std::to_string(i) + ", " + std::to_string(n_threads) + " threads");
    }
  }
}

TEST_P(ExactnessTest, ThePageSizeChangesNoLogit) {
  std::mt19937_64 random(1);
  TestModel reference = Load("auto", 2);
  const Outcome want = Read(reference.model.get(), tokens_, 7, &random);
  for (const int page_tokens : {4, 16, 256}) {
    TestModel m = Load("auto", 2, page_tokens);
    ExpectSameLogits(Read(m.model.get(), tokens_, 7, &random), want,
                     "pages of " + std::to_string(page_tokens));
  }
}

std::vector<ExactnessCase> ExactnessCases() {
  std::vector<ExactnessCase> cases;
  for (const std::string file : {"tinyA-bf16.gguf", "tinyC-mtp-bf16.gguf", "tinyA-mix.gguf"}) {
    for (const KvFormat kv : {KvFormat::kF32, KvFormat::kF16, KvFormat::kInt8}) {
      for (const ActivationFormat activations : {ActivationFormat::kF32, ActivationFormat::kAuto}) {
        cases.push_back({file, kv, activations});
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, ExactnessTest, ::testing::ValuesIn(ExactnessCases()),
                         [](const auto& info) {
                           std::string name = info.param.file;
                           name = name.substr(0, name.find(".gguf")) + "_" +
                                  std::string(KvFormatName(info.param.kv_format)) + "_" +
                                  std::string(ActivationFormatName(info.param.activations));
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace holdfast

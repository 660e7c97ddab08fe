// The shipped demo model on its reference conversations, and what quantised activations cost there.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "tests/support/fixtures.h"
#include "tests/support/slow_build.h"
#include "tests/support/test_model.h"
#include "token/tokenizer.h"

namespace holdfast {
namespace {

const char* const kModel = "models/demo/holdfast-demo-Q4_K_M.gguf";

TestModel LoadDemo(ActivationFormat activations, KvFormat kv_format) {
  return TestModel::OnCpu(SourcePath(kModel), {.n_threads = 2, .activations = activations},
                          {.kv_format = kv_format});
}

std::vector<std::string> PromptFiles() {
  std::vector<std::string> files;
  const std::string folder = SourcePath("tests/demo/prompts");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  return files;
}

// Each turn's reply, as float32 arithmetic on the BF16 weights gave it, fed to the Q4_K_M model
// token by token: the best token is the same except where the model was nearly undecided.
TEST(DemoModelTest, BestTokensAreThoseOfTheReferenceReplies) {
  TestModel m = LoadDemo(ActivationFormat::kAuto, KvFormat::kInt8);
  const int64_t vocab = m.model->config().vocab_size;
  int64_t n_tokens = 0, n_different = 0, n_files = 0;
  for (const std::string& file : PromptFiles()) {
    if (kSlowBuild && n_files == 3) break;
    ++n_files;
    int turn = 0;
    const nlohmann::json conversation = ReadJson(file);
    for (const nlohmann::json& reference : conversation["reference"]) {
      auto tokens = reference["prompt_ids"].get<std::vector<int32_t>>();
      const auto reply = reference["reply_ids"].get<std::vector<int32_t>>();
      ASSERT_EQ(reference["prompt_tokens"].get<size_t>(), tokens.size());
      const int64_t first = static_cast<int64_t>(tokens.size()) - 1;
      tokens.insert(tokens.end(), reply.begin(), reply.end() - 1);
      const std::vector<float> logits = m.Logits(tokens, 0, first);
      for (size_t i = 0; i < reply.size(); ++i) {
        const auto row = std::span(logits).subspan(i * vocab, vocab);
        const auto best = std::max_element(row.begin(), row.end());
        ++n_tokens;
        if (best - row.begin() == reply[i]) continue;
        ++n_different;
        const float gap = *best - row[reply[i]];
        printf("%s turn %d token %zu: %td, the reference %d, gap %.3f\n",
               std::filesystem::path(file).filename().c_str(), turn, i, best - row.begin(),
               reply[i], gap);
        // The two were within a third of each other in probability.
        EXPECT_LE(gap, 0.25f);
      }
      ++turn;
    }
  }
  printf("%td of %td tokens differ\n", n_different, n_tokens);
  EXPECT_GE(n_tokens, kSlowBuild ? 50 : 850);
  EXPECT_LE(static_cast<double>(n_different), 0.02 * static_cast<double>(n_tokens));
}

// Sum over the scored tokens of windows of 512, as `holdfast perplexity` has it, of the first
// windows only. The reference is float32 arithmetic on the BF16 weights (val_nll.json), which lists
// whole windows: so all tokens of a window are scored here.
TEST(DemoModelTest, LikelihoodOfTheFirstWindowsIsTheReferences) {
  constexpr int64_t kWindow = 512;
  const int64_t n_windows = kSlowBuild ? 1 : 4;
  TestModel m = LoadDemo(ActivationFormat::kAuto, KvFormat::kInt8);
  const int64_t vocab = m.model->config().vocab_size;
  auto vocabulary = ReadVocabulary(m.model->file());
  ASSERT_TRUE(vocabulary.ok());
  auto tokenizer = Tokenizer::Create(*std::move(vocabulary));
  ASSERT_TRUE(tokenizer.ok());
  for (const std::string name : {"val_chat.txt", "val_docs.txt"}) {
    const nlohmann::json want =
        ReadJson(SourcePath("tests/demo/val_nll.json"))["files"][name]["window512_qsa"];
    const std::vector<int32_t> tokens =
        (*tokenizer)->Encode(ReadWhole(SourcePath("tests/demo/" + name)), AddedTokens::kAll);
    EXPECT_EQ(static_cast<int64_t>(tokens.size()), want["tokens"].get<int64_t>());
    double got_sum = 0, want_sum = 0;
    for (int64_t window = 0; window < n_windows; ++window) {
      const std::vector<int32_t> ids(tokens.begin() + window * kWindow,
                                     tokens.begin() + (window + 1) * kWindow);
      const std::vector<float> logits = m.Logits(ids);
      double nll = 0;
      for (int64_t t = 0; t + 1 < kWindow; ++t) {
        const auto row = std::span(logits).subspan(t * vocab, vocab);
        const double max = *std::max_element(row.begin(), row.end());
        double sum = 0;
        for (float logit : row) sum += std::exp(logit - max);
        nll += std::log(sum) + max - row[ids[t + 1]];
      }
      got_sum += nll / (kWindow - 1);
      want_sum += want["window_nll"][window].get<double>();
    }
    printf("%s: %.4f nats a token, the reference %.4f\n", name.c_str(), got_sum / n_windows,
           want_sum / n_windows);
    // Q4_K_M of this model costs 0.009 nats on the whole slice (its card); windows scatter more.
    EXPECT_NEAR(got_sum / n_windows, want_sum / n_windows, 0.04) << name;
  }
}

// Cosines between rows of logits.
struct Cosines {
  std::vector<double> rows;  // ascending
  double all = 0;            // of the rows as one vector
};
Cosines Compare(const std::vector<float>& a, const std::vector<float>& b, int64_t vocab) {
  Cosines cosines;
  double all_ab = 0, all_aa = 0, all_bb = 0;
  for (size_t begin = 0; begin < a.size(); begin += vocab) {
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = begin; i < begin + vocab; ++i) {
      ab += static_cast<double>(a[i]) * b[i];
      aa += static_cast<double>(a[i]) * a[i];
      bb += static_cast<double>(b[i]) * b[i];
    }
    cosines.rows.push_back(ab / std::sqrt(aa * bb));
    all_ab += ab, all_aa += aa, all_bb += bb;
  }
  std::ranges::sort(cosines.rows);
  cosines.all = all_ab / std::sqrt(all_aa * all_bb);
  return cosines;
}

std::vector<int32_t> LongPrompt() {
  const auto reference = ReadJson(SourcePath("tests/demo/prompts/11-long-note.json"))["reference"];
  return reference.back()["prompt_ids"].get<std::vector<int32_t>>();
}

TEST(ActivationFormatTest, AutoOnTheDemoModelStaysWithinACosineOf0999OfF32) {
  const std::vector<int32_t> tokens = LongPrompt();
  TestModel exact = LoadDemo(ActivationFormat::kF32, KvFormat::kF32);
  TestModel quantised = LoadDemo(ActivationFormat::kAuto, KvFormat::kF32);
  const Cosines cosines =
      Compare(exact.Logits(tokens), quantised.Logits(tokens), exact.model->config().vocab_size);
  const size_t n = cosines.rows.size();
  printf("smallest %.5f, a tenth below %.5f, median %.5f, all rows as one %.5f\n", cosines.rows[0],
         cosines.rows[n / 10], cosines.rows[n / 2], cosines.all);
  EXPECT_GE(cosines.all, 0.9999);
  EXPECT_GE(cosines.rows[0], 0.999);
}

TEST(ActivationFormatTest, AutoChangesNothingInAFileWithoutQuantisedWeights) {
  const auto prompts = ReadJson(FixturePath("tinyA.expected.json"))["prompts"];
  const auto tokens = prompts["mid"]["ids"].get<std::vector<int32_t>>();
  std::vector<std::vector<float>> logits;
  for (const ActivationFormat activations : {ActivationFormat::kF32, ActivationFormat::kAuto}) {
    TestModel m = TestModel::OnCpu(FixturePath("tinyA-bf16.gguf"),
                                   {.n_threads = 2, .activations = activations},
                                   {.kv_format = KvFormat::kF32});
    logits.push_back(m.Logits(tokens));
  }
  ASSERT_EQ(logits[0].size(), logits[1].size());
  EXPECT_EQ(std::memcmp(logits[0].data(), logits[1].data(), logits[0].size() * sizeof(float)), 0);
}

// Random weights amplify every rounding, and an expert or block that is nearly tied may change in a
// row: llama.cpp's quantised kernels move this file's logits by up to 2.7, of a standard deviation
// of 3.
TEST(ActivationFormatTest, AutoOnTwentyFiveTypesOfRandomWeightsStaysWithinACosineOf0999OfF32) {
  const auto prompts = ReadJson(FixturePath("tinyA-mix.expected.json"))["prompts"];
  const auto tokens = prompts["long"]["ids"].get<std::vector<int32_t>>();
  std::vector<std::vector<float>> logits;
  for (const ActivationFormat activations : {ActivationFormat::kF32, ActivationFormat::kAuto}) {
    TestModel m = TestModel::OnCpu(FixturePath("tinyA-mix.gguf"),
                                   {.n_threads = 2, .activations = activations},
                                   {.kv_format = KvFormat::kF32});
    logits.push_back(m.Logits(tokens));
  }
  const Cosines cosines = Compare(logits[0], logits[1], 2048);
  printf("smallest %.5f, median %.5f, all rows as one %.5f\n", cosines.rows[0],
         cosines.rows[cosines.rows.size() / 2], cosines.all);
  EXPECT_GE(cosines.all, 0.999);
  EXPECT_GE(cosines.rows[cosines.rows.size() / 50], 0.999);
  EXPECT_GE(cosines.rows[0], 0.99);
}

}  // namespace
}  // namespace holdfast

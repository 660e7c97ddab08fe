// The draft head against the reference (tests/fixtures/README.md), and rows on trial against rows
// that simply run.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/support/fixtures.h"
#include "tests/support/test_model.h"

namespace holdfast {
namespace {

std::vector<std::byte> Bytes(Backend* backend, Buffer* buffer) {
  std::vector<std::byte> bytes(buffer->bytes());
  EXPECT_TRUE(backend->Download({buffer, 0}, bytes).ok());
  return bytes;
}

// A conversation with draft part and log, driven by hand.
struct Drafted {
  explicit Drafted(Model* m) : model(m) {
    running = New(m->layout().running_bytes());
    draft_running = New(m->draft_layout()->running_bytes());
    log = New(m->log_bytes());
  }
  std::unique_ptr<Buffer> New(size_t bytes) {
    return std::move(*model->backend()->Allocate(bytes));
  }
  void Reserve(int64_t n_tokens) {
    while (static_cast<int64_t>(pages.size()) < model->layout().PagesFor(n_tokens)) {
      owned.push_back(New(model->layout().page_bytes()));
      pages.push_back(owned.back().get());
      owned.push_back(New(model->draft_layout()->page_bytes()));
      draft_pages.push_back(owned.back().get());
    }
  }
  SequenceRows Rows(int64_t first) {
    return {.tokens = tokens,
            .first_position = first,
            .running = running.get(),
            .pages = pages,
            .draft_running = draft_running.get(),
            .draft_pages = draft_pages};
  }
  // Reads tokens and returns the logits of the last one.
  std::vector<float> Read(std::span<const int32_t> more) {
    const int64_t first = static_cast<int64_t>(tokens.size());
    tokens.insert(tokens.end(), more.begin(), more.end());
    Reserve(static_cast<int64_t>(tokens.size()));
    std::vector<float> logits(model->config().vocab_size);
    EXPECT_TRUE(model
                    ->Forward({.sequences = {Rows(first)},
                               .output_rows = {static_cast<int32_t>(more.size()) - 1}},
                              logits)
                    .ok());
    return logits;
  }
  std::vector<int32_t> Draft(int32_t next, int64_t n, float min_probability = 0) {
    std::vector<int32_t> all = tokens;
    all.push_back(next);
    Reserve(static_cast<int64_t>(all.size()) + n);
    const DraftSequence sequence{.tokens = all,
                                 .draft_running = draft_running.get(),
                                 .draft_pages = draft_pages,
                                 .max_drafts = n};
    auto drafts = model->Draft(std::span(&sequence, 1), min_probability);
    EXPECT_TRUE(drafts.ok());
    return (*drafts)[0];
  }

  Model* model;
  std::vector<int32_t> tokens;
  std::unique_ptr<Buffer> running, draft_running, log;
  std::vector<std::unique_ptr<Buffer>> owned;
  std::vector<Buffer*> pages, draft_pages;
};

struct Source {
  std::string name, trunk, sidecar;
};

class DraftParityTest : public ::testing::TestWithParam<Source> {
 protected:
  TestModel Load(bool per_stream, ActivationFormat activations = ActivationFormat::kF32,
                 KvFormat kv = KvFormat::kF32, int64_t draft_vocab = 0) {
    const std::string& sidecar = GetParam().sidecar;
    return TestModel::OnCpu(FixturePath(GetParam().trunk),
                            {.n_threads = 2, .activations = activations},
                            {.mtp_path = sidecar.empty() ? "" : FixturePath(sidecar),
                             .kv_format = kv,
                             .page_tokens = 64,
                             .draft_norm_per_stream = per_stream,
                             .draft_vocab = draft_vocab});
  }
  nlohmann::json manifest_ = ReadJson(FixturePath("tinyC.expected.json"));
  ExpectedTensors expected_{FixturePath("tinyC.expected.safetensors")};
};

TEST_P(DraftParityTest, ChainsOfBothNormsMatchTheReference) {
  for (const std::string variant : {"full_dense", "grouped_dense"}) {
    TestModel m = Load(variant == "grouped_dense");
    for (const std::string prompt : {"short", "mid", "long"}) {
      const auto ids = manifest_["prompts"][prompt]["ids"].get<std::vector<int32_t>>();
      const auto next = manifest_["mtp"][prompt]["tokens"].get<std::vector<int32_t>>().back();
      Drafted c(m.model.get());
      c.Read(ids);
      EXPECT_EQ(c.Draft(next, 4),
                manifest_["mtp"][prompt][variant]["draft_chain"].get<std::vector<int32_t>>())
          << variant << " " << prompt;
    }
  }
}

TEST_P(DraftParityTest, EveryRowOfTheShortPromptMatchesTheReference) {
  TestModel m = Load(false);
  const auto ids = manifest_["prompts"]["short"]["ids"].get<std::vector<int32_t>>();
  const auto next = manifest_["mtp"]["short"]["tokens"].get<std::vector<int32_t>>();
  const auto fused = expected_.Get("short.mtp.full_dense.fused");
  const auto logits = expected_.Get("short.mtp.full_dense.logits");
  int n_compared = 0;
  size_t row = 0;
  m.model->set_tap([&](const TapPoint& tap) {
    const auto* want = tap.what == "draft.fused"    ? &fused
                       : tap.what == "draft.logits" ? &logits
                                                    : nullptr;
    if (want == nullptr) return;
    ++n_compared;
    for (int64_t i = 0; i < tap.n_cols; ++i) {
      ASSERT_NEAR(tap.values[i], want->floats[row * tap.n_cols + i], 1e-4) << tap.what << row;
    }
  });
  Drafted c(m.model.get());
  for (; row < ids.size(); ++row) {
    c.Read(std::span(ids).subspan(row, 1));
    c.Draft(next[row], 1);
  }
  EXPECT_EQ(n_compared, 10);
}

TEST_P(DraftParityTest, ADraftVocabularyIsTheBeginningOfTheWholeOne) {
  const auto ids = manifest_["prompts"]["mid"]["ids"].get<std::vector<int32_t>>();
  constexpr int64_t kVocab = 100;
  const auto logits_of_first_guess = [&](int64_t draft_vocab, std::vector<int32_t>* guess) {
    TestModel m = Load(false, ActivationFormat::kAuto, KvFormat::kInt8, draft_vocab);
    Drafted c(m.model.get());
    c.Read(ids);
    std::vector<float> logits;
    m.model->set_tap([&](const TapPoint& tap) {
      if (tap.what == "draft.logits") logits.assign(tap.values.begin(), tap.values.end());
    });
    *guess = c.Draft(ids[0], 1);
    return logits;
  };
  std::vector<int32_t> of_all, of_few, of_more;
  const std::vector<float> all = logits_of_first_guess(0, &of_all);
  const std::vector<float> few = logits_of_first_guess(kVocab, &of_few);
  ASSERT_GT(static_cast<int64_t>(all.size()), kVocab);
  EXPECT_EQ(few, std::vector<float>(all.begin(), all.begin() + kVocab));
  EXPECT_EQ(of_few[0], std::max_element(few.begin(), few.end()) - few.begin());
  // A vocabulary larger than the model's is the model's.
  EXPECT_EQ(logits_of_first_guess(1 << 30, &of_more), all);
  EXPECT_EQ(of_more, of_all);
}

TEST_P(DraftParityTest, RejectedRowsLeaveNoTrace) {
  TestModel m = Load(false, ActivationFormat::kAuto, KvFormat::kInt8);
  const auto ids = manifest_["prompts"]["long"]["ids"].get<std::vector<int32_t>>();
  std::mt19937 rng(3);
  Drafted plain(m.model.get()), tried(m.model.get());
  plain.Read(std::span(ids).first(30));
  tried.Read(std::span(ids).first(30));
  for (size_t at = 30; at + 8 < 200;) {
    // A window of right tokens followed by wrong ones; some or all of the right ones are taken.
    const int64_t n_rows = 1 + static_cast<int64_t>(rng() % Model::kMaxWindow);
    const int64_t n_good = 1 + static_cast<int64_t>(rng() % n_rows);
    std::vector<int32_t> drafts(ids.begin() + at + 1, ids.begin() + at + n_good);
    while (static_cast<int64_t>(drafts.size()) < n_rows - 1) drafts.push_back(rng() % 2000);
    tried.tokens.push_back(ids[at]);
    tried.Reserve(static_cast<int64_t>(at) + n_rows);
    SequenceRows rows = tried.Rows(static_cast<int64_t>(at));
    rows.drafts = drafts;
    rows.log = tried.log.get();
    std::vector<float> logits(m.model->config().vocab_size);
    const std::vector<std::byte> before = Bytes(m.backend.get(), tried.running.get());
    ASSERT_TRUE(
        m.model
            ->Forward({.sequences = {rows}, .output_rows = {static_cast<int32_t>(n_good) - 1}},
                      logits)
            .ok());
    EXPECT_EQ(Bytes(m.backend.get(), tried.running.get()), before);
    ASSERT_TRUE(m.model->Commit(std::span(&rows, 1), std::span(&n_good, 1)).ok());
    tried.tokens.insert(tried.tokens.end(), drafts.begin(), drafts.begin() + n_good - 1);

    EXPECT_EQ(plain.Read(std::span(ids).subspan(at, n_good)), logits) << at;
    EXPECT_EQ(Bytes(m.backend.get(), plain.running.get()),
              Bytes(m.backend.get(), tried.running.get()))
        << at;
    EXPECT_EQ(Bytes(m.backend.get(), plain.draft_running.get()),
              Bytes(m.backend.get(), tried.draft_running.get()))
        << at;
    at += n_good;
  }
  EXPECT_EQ(plain.tokens, tried.tokens);
}

INSTANTIATE_TEST_SUITE_P(TinyC, DraftParityTest,
                         ::testing::Values(Source{"inTrunk", "tinyC-mtp-bf16.gguf", ""},
                                           Source{"sidecar", "tinyC-mtp-bf16.gguf",
                                                  "mtp-tinyC-bf16.gguf"}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace holdfast

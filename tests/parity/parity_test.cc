// Logits, continuations and every intermediate value of the forward pass against the reference
// implementation (tests/fixtures/README.md).

#include <set>

#include "tests/parity/parity_fixture.h"
#include "tests/support/test_conversation.h"

namespace holdfast {
namespace {

using LogitsParityTest = ParityTest;
using ForwardParityTest = ParityTest;

TEST_P(LogitsParityTest, LogitsOfEveryPrompt) {
  for (const std::string prompt : {"short", "mid", "long"}) {
    const std::vector<int32_t> ids = Ids(prompt);
    const auto want = expected_.Get(prompt + ".logits");
    const std::vector<float> all = m_.Logits(ids);
    const int64_t vocab = want.cols();
    const size_t rows = want.floats.size() / vocab;
    EXPECT_LE(MaxDifference(std::span(all).last(rows * vocab), want.floats), kLogitTolerance)
        << prompt;
    if (!expected_.Has(prompt + ".all_argmax")) continue;
    const auto argmax = expected_.Get(prompt + ".all_argmax").integers;
    const auto logsumexp = expected_.Get(prompt + ".all_logsumexp").floats;
    for (size_t p = 0; p < ids.size(); ++p) {
      const auto row = std::span(all).subspan(p * vocab, vocab);
      EXPECT_EQ(Argmax(row), argmax[p]) << prompt << " position " << p;
      double sum = 0;
      for (float logit : row) sum += std::exp(static_cast<double>(logit));
      EXPECT_NEAR(std::log(sum), logsumexp[p], kLogitTolerance) << prompt << " position " << p;
    }
  }
}

TEST_P(LogitsParityTest, GreedyContinuationsOfEveryPrompt) {
  for (const std::string prompt : {"short", "mid", "long"}) {
    const auto greedy = manifest_["prompts"][prompt]["greedy"].get<std::vector<int32_t>>();
    auto sequence = Sequence::Create(m_.model.get());
    ASSERT_TRUE(sequence.ok());
    std::vector<int32_t> next = Ids(prompt), got;
    while (got.size() < greedy.size()) {
      const int64_t last = static_cast<int64_t>(sequence->tokens().size() + next.size()) - 1;
      ASSERT_TRUE(sequence
                      ->Read(next, 0, last,
                             [&](int64_t, std::span<const float> row) {
                               next = {Argmax(row)};
                               got.push_back(next[0]);
                             })
                      .ok());
    }
    EXPECT_EQ(got, greedy) << prompt;
  }
}

TEST_P(ForwardParityTest, EverySubBlockOfEveryLayer) {
  for (const std::string prompt : {"short", "mid", "long"}) {
    std::set<std::string> compared;
    m_.model->set_tap([&](const TapPoint& tap) {
      // The streams start as copies of the embedding, which is what the reference lists.
      const bool embed = tap.what == "embed";
      std::string name = prompt + ".";
      if (!embed) name += "l" + std::to_string(tap.layer) + ".";
      name += tap.what;
      if (!expected_.Has(name)) return;
      compared.insert(name);
      const auto want = expected_.Get(name);
      if (tap.what == "qsa_blocks") {
        for (int64_t row = 0; row < tap.n_rows; ++row) {
          const auto set_of = [&](std::span<const int32_t> all) {
            const auto chosen = all.subspan(row * tap.n_cols, tap.n_cols);
            return std::multiset<int32_t>(chosen.begin(), chosen.end());
          };
          EXPECT_EQ(set_of(tap.integers), set_of(want.integers)) << name << " row " << row;
        }
        return;
      }
      const int64_t cols = embed ? want.cols() : tap.n_cols;
      const int64_t rows = static_cast<int64_t>(want.floats.size()) / cols;
      std::vector<float> got;
      for (int64_t row = tap.n_rows - rows; row < tap.n_rows; ++row) {
        const auto values = tap.values.subspan(row * tap.n_cols, cols);
        got.insert(got.end(), values.begin(), values.end());
      }
      EXPECT_LE(MaxDifference(got, want.floats), kLogitTolerance) << name;
    });
    m_.Logits(Ids(prompt));
    // 4 layers x 7 values, the embedding and two of PLE; 4 outputs and PLE's; 4 outputs and blocks.
    EXPECT_EQ(compared.size(), prompt == "short" ? 31u : 5u) << prompt;
  }
  m_.model->set_tap(nullptr);
}

TEST_P(ForwardParityTest, RouterChoicesAndWeights) {
  const auto ids = expected_.Get("short.router_ids");
  const auto weights = expected_.Get("short.router_weights");
  const auto logits = expected_.Get("short.router_logits");
  int n_compared = 0;
  m_.model->set_tap([&](const TapPoint& tap) {
    const size_t n = tap.n_rows * tap.n_cols, begin = tap.layer * n;
    if (tap.what == "router_ids") {
      EXPECT_TRUE(std::ranges::equal(tap.integers, std::span(ids.integers).subspan(begin, n)));
    } else if (tap.what == "router_weights") {
      EXPECT_LE(MaxDifference(tap.values, std::span(weights.floats).subspan(begin, n)), 1e-5f);
    } else if (tap.what == "router_logits") {
      EXPECT_LE(MaxDifference(tap.values, std::span(logits.floats).subspan(begin, n)), 1e-4f);
    } else {
      return;
    }
    ++n_compared;
  });
  m_.Logits(Ids("short"));
  EXPECT_EQ(n_compared, 3 * m_.model->config().n_layers);
}

// More output rows than are computed at once, in an order of the caller's.
TEST_P(ForwardParityTest, FinalMixedRows) {
  const ModelConfig& config = m_.model->config();
  for (const std::string prompt : {"short", "mid", "long"}) {
    const auto want = expected_.Get(prompt + ".final_mixed");
    TestConversation conversation(m_.model.get(), Ids(prompt));
    const int64_t n = conversation.n_left();
    Batch batch{.sequences = {conversation.Next(n)}};
    for (int64_t row = n - 1; row >= 0; --row) {
      batch.output_rows.push_back(static_cast<int32_t>(row));
    }
    std::vector<float> logits(n * config.vocab_size), mixed(n * config.hidden_size);
    ASSERT_TRUE(m_.model->Forward(batch, logits, mixed).ok());
    const int64_t n_rows = static_cast<int64_t>(want.floats.size()) / want.cols();
    for (int64_t i = 0; i < n_rows; ++i) {  // row i of the expected ones from the end
      const auto got = std::span(mixed).subspan(i * want.cols(), want.cols());
      const auto row = std::span(want.floats).subspan((n_rows - 1 - i) * want.cols(), want.cols());
      EXPECT_LE(MaxDifference(got, row), kLogitTolerance) << prompt << " row " << i;
    }
  }
}

TEST_P(ForwardParityTest, ATokenOutsideTheVocabularyIsRefusedBeforeAnythingChanges) {
  const int32_t vocab = static_cast<int32_t>(m_.model->config().vocab_size);
  for (const int32_t bad : {-1, vocab}) {
    TestConversation conversation(m_.model.get(), {1, 2, bad});
    const Status status = m_.model->Forward({.sequences = {conversation.Next(3)}}, {});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("token " + std::to_string(bad) + " at position 2"),
              std::string::npos)
        << status.message();
    for (const auto& part : conversation.Parts()) {
      EXPECT_TRUE(std::ranges::all_of(part.second, [](std::byte b) { return b == std::byte{0}; }))
          << part.first;
    }
  }
}

// Whichever op of a step fails, the step says so, leaves nothing queued, and the next one is right.
TEST(DeferredModelTest, AFailedOpIsAnErrorOfItsStepOnly) {
  auto backend = DeferredBackend::Create({.n_threads = 1}, {.run_early_chance = 0.3});
  ASSERT_TRUE(backend.ok());
  DeferredBackend* deferred = backend->get();
  TestModel m;
  m.backend = std::move(*backend);
  m.Load(FixturePath("tinyC-mtp-bf16.gguf"), {});
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5};
  const std::vector<float> want = m.Logits(tokens);
  int n_failed = 0;
  for (int64_t op = 0; op < 200; op += 3) {
    TestConversation conversation(m.model.get(), tokens);
    const Batch batch{.sequences = {conversation.Next(5)}, .output_rows = {4}};
    std::vector<float> logits(m.model->config().vocab_size);
    deferred->FailOp(op, UnavailableError("injected"));
    const Status status = m.model->Forward(batch, logits);
    if (status.ok()) {  // the step has fewer ops
      deferred->FailOp(-1, OkStatus());
      break;
    }
    EXPECT_EQ(status.message(), "injected") << "op " << op;
    ++n_failed;
    EXPECT_EQ(m.Logits(tokens), want) << "after op " << op;
  }
  EXPECT_GE(n_failed, 8);  // a step of this model has some 30 ops
}

INSTANTIATE_TEST_SUITE_P(Full, LogitsParityTest, FullCases(), ParityCaseName);
INSTANTIATE_TEST_SUITE_P(Logits, LogitsParityTest, LogitCases(), ParityCaseName);
INSTANTIATE_TEST_SUITE_P(Full, ForwardParityTest, FullCases(), ParityCaseName);

}  // namespace
}  // namespace holdfast

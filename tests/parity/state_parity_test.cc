// The state that a conversation of 61 tokens leaves behind, and the block scores read from it,
// against the reference's cache.

#include "tests/parity/parity_fixture.h"
#include "tests/support/test_conversation.h"

namespace holdfast {
namespace {

// Values of a state are sums of a few dozen products, or one norm away from them.
constexpr float kStateTolerance = 1e-4f;

class StateParityTest : public ParityTest {
 protected:
  TestConversation ReadPrompt(const std::string& prompt) {
    TestConversation conversation(m_.model.get(), Ids(prompt));
    const Batch batch{.sequences = {conversation.Next(conversation.n_left())}};
    EXPECT_TRUE(m_.model->Forward(batch, {}).ok());
    return conversation;
  }
  std::vector<float> Running(const TestConversation& conversation, int layer, PartKind kind) const {
    return TestConversation::Floats(conversation.RunningBytes(),
                                    m_.model->layout().FindRunning(layer, kind));
  }
  std::vector<float> Cells(const TestConversation& conversation, int layer, PartKind kind) const {
    return TestConversation::Floats(conversation.PageBytes(0),
                                    m_.model->layout().FindCell(layer, kind));
  }
  std::string Name(int layer, const std::string& what) const {
    return "mid.state.l" + std::to_string(layer) + "." + what;
  }
  std::vector<float> Weight(WeightView QsaWeights::*member) const {
    const auto weights = BindModelWeights(m_.model->config(), m_.model->file());
    EXPECT_TRUE(weights.ok()) << weights.status().ToString();
    return ToFloats(weights->layers[3].qsa().*member);
  }
  // rms(x) * gain, then rotated to `position`; in double.
  std::vector<float> NormAndRotate(std::span<const double> x, std::span<const float> gain,
                                   int64_t position) const;
};

std::vector<float> StateParityTest::NormAndRotate(std::span<const double> x,
                                                  std::span<const float> gain,
                                                  int64_t position) const {
  const ModelConfig& c = m_.model->config();
  double squares = 0;
  for (double value : x) squares += value * value;
  const double inv = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + c.rms_eps);
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * inv * gain[i];
  std::vector<float> out(y.begin(), y.end());
  for (int i = 0; i < c.rope_dims / 2; ++i) {
    const double angle =
        static_cast<double>(position) * std::pow(c.rope_theta, -2.0 * i / c.rope_dims);
    const double a = y[i], b = y[i + c.rope_dims / 2];
    out[i] = static_cast<float>(a * std::cos(angle) - b * std::sin(angle));
    out[i + c.rope_dims / 2] = static_cast<float>(b * std::cos(angle) + a * std::sin(angle));
  }
  return out;
}

TEST_P(StateParityTest, GdnMatrices) {
  const ModelConfig& c = m_.model->config();
  const TestConversation conversation = ReadPrompt("mid");
  const int64_t n = int64_t{c.gdn_head_dim} * c.gdn_head_dim;
  for (int layer = 0; layer < 3; ++layer) {
    const std::vector<float> got = Running(conversation, layer, PartKind::kGdnState);
    const std::vector<float> want = expected_.Get(Name(layer, "recurrent")).floats;
    ASSERT_EQ(got.size(), want.size());
    for (int head = 0; head < c.gdn_n_value_heads; ++head) {
      const int reference = ReferenceValueHead(head, c.gdn_n_key_heads, c.gdn_n_value_heads);
      EXPECT_LE(MaxDifference(std::span(got).subspan(head * n, n),
                              std::span(want).subspan(reference * n, n)),
                kStateTolerance)
          << "layer " << layer << " head " << head;
    }
  }
}

TEST_P(StateParityTest, GdnConvolutionHistory) {
  const ModelConfig& c = m_.model->config();
  const TestConversation conversation = ReadPrompt("mid");
  const int64_t n_channels = c.gdn_conv_channels(), n_kept = c.gdn_conv_kernel - 1;
  const int64_t values_begin = 2 * c.gdn_key_width();
  for (int layer = 0; layer < 3; ++layer) {
    const std::vector<float> got = Running(conversation, layer, PartKind::kGdnConv);
    const std::vector<float> want = expected_.Get(Name(layer, "conv0")).floats;
    ASSERT_EQ(got.size(), static_cast<size_t>(n_kept * n_channels));
    ASSERT_EQ(want.size(), static_cast<size_t>((n_kept + 1) * n_channels));
    for (int64_t channel = 0; channel < n_channels; ++channel) {
      int64_t reference = channel;
      if (channel >= values_begin) {
        const int64_t head = (channel - values_begin) / c.gdn_head_dim;
        reference =
            values_begin + (channel - values_begin) % c.gdn_head_dim +
            ReferenceValueHead(static_cast<int>(head), c.gdn_n_key_heads, c.gdn_n_value_heads) *
                c.gdn_head_dim;
      }
      // The reference keeps one column more, the oldest, which nothing reads again.
      for (int64_t t = 0; t < n_kept; ++t) {
        ASSERT_NEAR(got[t * n_channels + channel], want[reference * (n_kept + 1) + t + 1],
                    kStateTolerance)
            << "layer " << layer << " channel " << channel << " column " << t;
      }
    }
  }
}

TEST_P(StateParityTest, PleConvolutionHistory) {
  const ModelConfig& c = m_.model->config();
  const TestConversation conversation = ReadPrompt("mid");
  const std::vector<float> got = Running(conversation, c.ple->layer, PartKind::kPleConv);
  const auto want = expected_.Get(Name(c.ple->layer, "conv1"));
  ASSERT_EQ(got.size(), want.floats.size());
  const int64_t n_kept = want.cols(), width = c.hc_width();
  for (int64_t t = 0; t < n_kept; ++t) {
    for (int64_t i = 0; i < width; ++i) {
      ASSERT_NEAR(got[t * width + i], want.floats[i * n_kept + t], kStateTolerance)
          << "column " << t << " value " << i;
    }
  }
}

TEST_P(StateParityTest, KeysAndValuesInTheirPage) {
  const ModelConfig& c = m_.model->config();
  const TestConversation conversation = ReadPrompt("mid");
  const int64_t n_tokens = conversation.n_read(), dim = c.head_dim;
  const int64_t page_tokens = m_.model->layout().page_tokens();
  for (const auto& [kind, what] :
       {std::pair(PartKind::kKeys, "keys"), std::pair(PartKind::kValues, "values")}) {
    const std::vector<float> got = Cells(conversation, 3, kind);
    const std::vector<float> want = expected_.Get(Name(3, what)).floats;
    ASSERT_EQ(want.size(), static_cast<size_t>(c.n_kv_heads * n_tokens * dim));
    for (int64_t head = 0; head < c.n_kv_heads; ++head) {
      EXPECT_LE(MaxDifference(std::span(got).subspan(head * page_tokens * dim, n_tokens * dim),
                              std::span(want).subspan(head * n_tokens * dim, n_tokens * dim)),
                kStateTolerance)
          << what << " head " << head;
    }
  }
}

TEST_P(StateParityTest, RawKeysOfTheOpenBlockAndPooledKeysOfTheOthers) {
  const ModelConfig& c = m_.model->config();
  const TestConversation conversation = ReadPrompt("mid");
  const int64_t n_tokens = conversation.n_read(), dim = c.index_dim, ratio = c.block_ratio[3];
  const std::vector<float> raw = expected_.Get(Name(3, "indexer_keys")).floats;
  ASSERT_EQ(raw.size(), static_cast<size_t>(n_tokens * dim));

  const std::vector<float> tail = Running(conversation, 3, PartKind::kIndexerTail);
  const int64_t n_open = n_tokens % ratio;
  ASSERT_EQ(n_open, 1);
  EXPECT_LE(MaxDifference(std::span(tail).first(n_open * dim),
                          std::span(raw).subspan((n_tokens - n_open) * dim)),
            kStateTolerance);

  const std::vector<float> pooled = Cells(conversation, 3, PartKind::kPooledKeys);
  const std::vector<float> gain = Weight(&QsaWeights::index_k_norm);
  const int64_t blocks_per_page = m_.model->layout().page_tokens() / ratio;
  for (int64_t block = 0; block < n_tokens / ratio; ++block) {
    std::vector<double> mean(dim);
    for (int64_t i = 0; i < ratio * dim; ++i) {
      mean[i % dim] += static_cast<double>(raw[block * ratio * dim + i]) / ratio;
    }
    const std::vector<float> want = NormAndRotate(mean, gain, block * ratio);
    for (int64_t d = 0; d < dim; ++d) {
      ASSERT_NEAR(pooled[d * blocks_per_page + block], want[d], kStateTolerance)
          << "block " << block << " value " << d;
    }
  }
}

TEST_P(StateParityTest, BlockScoresOfTheLastQuery) {
  const ModelConfig& c = m_.model->config();
  std::vector<float> u;
  m_.model->set_tap([&](const TapPoint& tap) {
    if (tap.what != "attn_hc" || tap.layer != 3) return;
    u.assign(tap.values.end() - tap.n_cols, tap.values.end());
  });
  const TestConversation conversation = ReadPrompt("long");
  m_.model->set_tap(nullptr);
  ASSERT_EQ(static_cast<int64_t>(u.size()), c.hidden_size);

  const std::vector<float> pooled = Cells(conversation, 3, PartKind::kPooledKeys);
  const std::vector<float> gain = Weight(&QsaWeights::index_q_norm);
  const std::vector<float> proj = Weight(&QsaWeights::index_q);
  const std::vector<float> want = expected_.Get("long.l3.qsa_scores_last").floats;
  const int64_t dim = c.index_dim;
  const int64_t blocks_per_page = m_.model->layout().page_tokens() / c.block_ratio[3];
  std::vector<double> scores(want.size());
  for (int head = 0; head < c.n_index_heads; ++head) {
    std::vector<double> q(dim);
    for (int64_t d = 0; d < dim; ++d) {
      for (int64_t i = 0; i < c.hidden_size; ++i) {
        q[d] += static_cast<double>(proj[(head * dim + d) * c.hidden_size + i]) * u[i];
      }
    }
    const std::vector<float> rotated = NormAndRotate(q, gain, conversation.n_read() - 1);
    for (size_t block = 0; block < want.size(); ++block) {
      double dot = 0;
      for (int64_t d = 0; d < dim; ++d) dot += rotated[d] * pooled[d * blocks_per_page + block];
      scores[block] += std::max(0.0, dot) / std::sqrt(static_cast<double>(dim));
    }
  }
  for (size_t block = 0; block < want.size(); ++block) {
    EXPECT_NEAR(scores[block], want[block], kLogitTolerance) << "block " << block;
  }
}

INSTANTIATE_TEST_SUITE_P(Full, StateParityTest, FullCases(), ParityCaseName);

}  // namespace
}  // namespace holdfast

// Every vector set's attention and gated delta rule against the scalar ones, bit for bit.

#include <cstring>

#include "base/half.h"
#include "ops/cpu/kernels_test_util.h"

namespace holdfast {
namespace {

using StateTest = KernelSetTest;

// The operands of one attention call.
struct AttentionCase {
  KvFormat format = KvFormat::kInt8;
  int64_t head_dim = 256, n_heads = 12;
  std::vector<int64_t> runs;
  bool q_codes = true;
  bool poisoned = false;
};

int64_t CellBytes(const AttentionCase& c) {
  return c.head_dim * (c.format == KvFormat::kF32 ? 4 : c.format == KvFormat::kF16 ? 2 : 1);
}

std::vector<std::byte> RandomCells(const AttentionCase& c, int64_t n, Random& random) {
  std::vector<std::byte> cells(static_cast<size_t>(n * CellBytes(c)));
  for (int64_t i = 0; i < n * c.head_dim; ++i) {
    const float value = random.Gaussian(1.0f);
    if (c.format == KvFormat::kF32) {
      std::memcpy(cells.data() + 4 * i, &value, 4);
    } else if (c.format == KvFormat::kF16) {
      const uint16_t half = FloatToHalf(value);
      std::memcpy(cells.data() + 2 * i, &half, 2);
    } else {
      cells[static_cast<size_t>(i)] = random.Byte();  // -128 too: a restored file may hold it
    }
  }
  return cells;
}

std::vector<std::byte> RandomScales(int64_t n, bool poisoned, Random& random) {
  std::vector<std::byte> scales(static_cast<size_t>(2 * n));
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t half =
        FloatToHalf(poisoned && i % 50 == 7 ? kInf : std::abs(random.Gaussian(0.02f)));
    std::memcpy(scales.data() + 2 * i, &half, 2);
  }
  return scales;
}

void ExpectSameAttention(const KernelTable& kernels, const AttentionCase& c, Random& random) {
  const int64_t group = std::min<int64_t>(64, c.head_dim), n_groups = c.head_dim / group;
  int64_t n_cells = 0;
  for (const int64_t n : c.runs) n_cells += n;
  SCOPED_TRACE("head_dim " + std::to_string(c.head_dim) + " heads " + std::to_string(c.n_heads) +
               " cells " + std::to_string(n_cells));
  const int64_t gap = 2;  // cells between runs
  const int64_t n_stored = n_cells + gap * static_cast<int64_t>(c.runs.size());
  const auto k = RandomCells(c, n_stored, random), v = RandomCells(c, n_stored, random);
  const auto ks = RandomScales(n_stored * n_groups, c.poisoned, random);
  const auto vs = RandomScales(n_stored * n_groups, c.poisoned, random);
  std::vector<CellRun> runs;
  int64_t at = 0;
  for (const int64_t n : c.runs) {
    CellRun run = {k.data() + at * CellBytes(c), v.data() + at * CellBytes(c), nullptr, nullptr, n};
    if (c.format == KvFormat::kInt8) {
      run.k_scales = ks.data() + 2 * at * n_groups;
      run.v_scales = vs.data() + 2 * at * n_groups;
    }
    runs.push_back(run);
    at += n + gap;
  }
  const auto q = random.Floats(c.n_heads * c.head_dim);
  std::vector<int8_t> codes(q.size());
  std::vector<float> q_scales(static_cast<size_t>(c.n_heads * n_groups));
  AttentionSlice s;
  s.format = c.format;
  s.head_dim = c.head_dim;
  s.n_heads = c.n_heads;
  s.q = q.data();
  if (c.q_codes) {
    ScalarKernels().quantize(q.data(), c.n_heads * c.head_dim, static_cast<int>(group),
                             codes.data(), q_scales.data(), nullptr);
    s.q_codes = codes.data();
    s.q_scales = q_scales.data();
  }
  s.scale = 1.0f / 16.0f;
  s.runs = runs.data();
  s.n_runs = static_cast<int64_t>(runs.size());
  s.n_cells = n_cells;
  std::vector<float> scores(static_cast<size_t>(c.n_heads * n_cells));
  std::vector<float> expected(q.size()), actual(q.size());
  s.scores = scores.data();
  s.out = expected.data();
  ScalarKernels().attention(s);
  std::fill(scores.begin(), scores.end(), kNan);
  s.out = actual.data();
  kernels.attention(s);
  EXPECT_TRUE(SameBits(actual, expected));
}

TEST_P(StateTest, AttentionOverInt8CellsWithQuantisedQueries) {
  Random random(31);
  for (const int64_t head_dim : {16, 32, 64, 128, 256}) {
    for (const int64_t n_heads : {1, 2, 3, 4, 8, 12, 13, 17}) {
      for (const std::vector<int64_t>& runs :
           {std::vector<int64_t>{1}, {15}, {16}, {17}, {4, 4, 4, 4, 3}, {256, 70}}) {
        ExpectSameAttention(*GetParam(), {.head_dim = head_dim, .n_heads = n_heads, .runs = runs},
                            random);
      }
    }
  }
}

TEST_P(StateTest, AttentionOfTheOtherFormats) {
  Random random(32);
  for (const KvFormat format : {KvFormat::kF32, KvFormat::kF16, KvFormat::kInt8}) {
    for (const int64_t head_dim : {16, 48, 256}) {
      for (const int64_t n_heads : {1, 6, 12}) {
        ExpectSameAttention(*GetParam(),
                            {.format = format,
                             .head_dim = head_dim,
                             .n_heads = n_heads,
                             .runs = {4, 61, 20},
                             .q_codes = false},
                            random);
      }
    }
  }
}

TEST_P(StateTest, AttentionOfOddShapesAndPoisonedScales) {
  Random random(33);
  for (const int64_t head_dim : {1, 4, 20}) {
    ExpectSameAttention(*GetParam(), {.head_dim = head_dim, .n_heads = 2, .runs = {9}}, random);
  }
  ExpectSameAttention(*GetParam(), {.runs = {100, 40}, .poisoned = true}, random);
}

struct GdnCase {
  int64_t dk = 128, n_v = 128, n_tokens = 3;
  bool keep_state = true, with_delta = true;
};

void ExpectSameGdn(const KernelTable& kernels, const GdnCase& c, Random& random) {
  SCOPED_TRACE("dk " + std::to_string(c.dk) + " n_v " + std::to_string(c.n_v));
  const int64_t stride = c.n_v + 5;
  const auto state = random.Floats(c.dk * stride, 0.1f);
  const auto q = random.Floats(c.n_tokens * c.dk, 0.1f), k = random.Floats(c.n_tokens * c.dk, 0.1f);
  const auto value = random.Floats(c.n_tokens * stride);
  std::vector<float> gates = random.Floats(2 * c.n_tokens + 2);
  for (float& g : gates) g = 1.0f / (1.0f + std::abs(g));
  struct Outcome {
    std::vector<float> state, out, delta;
  };
  const auto run = [&](const KernelTable& table) {
    const auto n_out = static_cast<size_t>(c.n_tokens * stride);
    Outcome o = {state, std::vector<float>(n_out, 9.0f), std::vector<float>(n_out, 9.0f)};
    std::vector<float> scratch(static_cast<size_t>(c.dk * c.n_v));
    GdnSlice s;
    s.state = o.state.data();
    s.state_stride = stride;
    s.dk = c.dk;
    s.n_v = c.n_v;
    s.n_tokens = c.n_tokens;
    s.q_hat = q.data();
    s.k_hat = k.data();
    s.qk_stride = c.dk;
    s.value = value.data();
    s.value_stride = stride;
    s.decay = gates.data();
    s.beta = gates.data() + 1;
    s.gate_stride = 2;
    s.out = o.out.data();
    s.out_stride = stride;
    if (c.with_delta) s.delta = o.delta.data();
    s.delta_stride = stride;
    s.keep_state = c.keep_state;
    s.scratch = c.keep_state ? nullptr : scratch.data();
    table.gdn(s);
    return o;
  };
  const Outcome expected = run(ScalarKernels()), actual = run(kernels);
  EXPECT_TRUE(SameBits(actual.state, expected.state));
  EXPECT_TRUE(SameBits(actual.out, expected.out));
  EXPECT_TRUE(SameBits(actual.delta, expected.delta));
  if (!c.keep_state) {
    EXPECT_TRUE(SameBits(actual.state, state));
  }
}

TEST_P(StateTest, GatedDeltaRule) {
  Random random(34);
  for (const int64_t dk : {1, 2, 3, 4, 5, 127, 128}) {
    for (const int64_t n_v : {0, 1, 4, 15, 16, 17, 32, 47, 128}) {
      for (const int64_t n_tokens : {0, 1, 4}) {
        for (const bool keep_state : {true, false}) {
          ExpectSameGdn(*GetParam(), {dk, n_v, n_tokens, keep_state, n_tokens != 1}, random);
        }
      }
    }
  }
}

struct CommitCase {
  int64_t dk = 128, n_v = 128, n_tokens = 3;
};

void ExpectSameCommit(const KernelTable& kernels, const CommitCase& c, Random& random) {
  SCOPED_TRACE("dk " + std::to_string(c.dk) + " n_v " + std::to_string(c.n_v) + " tokens " +
               std::to_string(c.n_tokens));
  const int64_t stride = c.n_v + 5;
  const auto state = random.Floats(c.dk * stride, 0.1f);
  const auto q = random.Floats(c.n_tokens * c.dk, 0.1f), k = random.Floats(c.n_tokens * c.dk, 0.1f);
  const auto value = random.Floats(c.n_tokens * stride);
  std::vector<float> gates = random.Floats(2 * c.n_tokens + 2);
  for (float& g : gates) g = 1.0f / (1.0f + std::abs(g));
  // The recurrence itself, from which the deltas are.
  std::vector<float> expected = state, delta(value.size(), 9.0f), out(value.size());
  ScalarKernels().gdn({.state = expected.data(),
                       .state_stride = stride,
                       .dk = c.dk,
                       .n_v = c.n_v,
                       .n_tokens = c.n_tokens,
                       .q_hat = q.data(),
                       .k_hat = k.data(),
                       .qk_stride = c.dk,
                       .value = value.data(),
                       .value_stride = stride,
                       .decay = gates.data(),
                       .beta = gates.data() + 1,
                       .gate_stride = 2,
                       .out = out.data(),
                       .out_stride = stride,
                       .delta = delta.data(),
                       .delta_stride = stride});
  for (const KernelTable* table : {&ScalarKernels(), &kernels}) {
    std::vector<float> actual = state;
    table->gdn_commit({.state = actual.data(),
                       .state_stride = stride,
                       .dk = c.dk,
                       .n_v = c.n_v,
                       .n_tokens = c.n_tokens,
                       .k_hat = k.data(),
                       .k_stride = c.dk,
                       .delta = delta.data(),
                       .delta_stride = stride,
                       .decay = gates.data(),
                       .gate_stride = 2});
    EXPECT_TRUE(SameBits(actual, expected)) << table->name;
  }
}

TEST_P(StateTest, CommittedTokensLeaveTheStateOfTheRecurrence) {
  Random random(35);
  for (const int64_t dk : {1, 3, 64, 128}) {
    for (const int64_t n_v : {0, 1, 4, 15, 16, 17, 47, 64, 65, 128}) {
      for (const int64_t n_tokens : {0, 1, 2, 8}) {
        ExpectSameCommit(*GetParam(), {dk, n_v, n_tokens}, random);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, StateTest, ::testing::ValuesIn(VectorKernels()), KernelSetName);

}  // namespace
}  // namespace holdfast

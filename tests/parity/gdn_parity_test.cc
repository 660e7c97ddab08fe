// The gated delta rule alone, on the first 70 tokens of `long` in layer 0: 70 tokens at once and
// one step, by every kernel set and through the backend's op.

#include "ops/cpu/kernels.h"
#include "tests/parity/parity_fixture.h"

namespace holdfast {
namespace {

// The chunked and the recurrent form of the reference differ by 2e-7 on outputs below 1.
constexpr float kRuleTolerance = 5e-6f;
constexpr int64_t kTokens = 70;

class GdnParityTest : public ParityTest {
 protected:
  std::vector<float> Floats(const std::string& name) const {
    return expected_.Get("gdn." + name).floats;
  }
  int Heads() const { return m_.model->config().gdn_n_value_heads; }
  int64_t Dim() const { return m_.model->config().gdn_head_dim; }

  // Everything in the reference's head order, in which q and k are given for each value head.
  struct Inputs {
    std::vector<float> q_hat, k_hat, value, decay, beta;  // [tokens, heads(, dim)]
  };
  Inputs MakeInputs() const {
    Inputs in{.q_hat = Floats("q"),
              .k_hat = Floats("k"),
              .value = Floats("v"),
              .decay = Floats("g"),
              .beta = Floats("beta")};
    const double q_scale = 1.0 / std::sqrt(static_cast<double>(Dim()));
    for (auto& [vectors, scale] : {std::pair<std::vector<float>*, double>(&in.q_hat, q_scale),
                                   std::pair<std::vector<float>*, double>(&in.k_hat, 1.0)}) {
      for (size_t begin = 0; begin < vectors->size(); begin += Dim()) {
        double squares = 1e-6;
        for (int64_t d = 0; d < Dim(); ++d) {
          squares += std::pow(static_cast<double>((*vectors)[begin + d]), 2);
        }
        for (int64_t d = 0; d < Dim(); ++d) {
          float& x = (*vectors)[begin + d];
          x = static_cast<float>(x / std::sqrt(squares) * scale);
        }
      }
    }
    for (float& g : in.decay) g = static_cast<float>(std::exp(static_cast<double>(g)));
    return in;
  }

  // Tokens [first, first + n) on `state` [heads, dim, dim]; returns the outputs [n, heads, dim].
  std::vector<float> RunRule(const KernelTable& kernels, const Inputs& in, int64_t first, int64_t n,
                             std::vector<float>* state) const {
    const int64_t row = Heads() * Dim();
    std::vector<float> out(n * row);
    for (int head = 0; head < Heads(); ++head) {
      const int64_t begin = first * row + head * Dim(), gate = first * Heads() + head;
      kernels.gdn({.state = state->data() + head * Dim() * Dim(),
                   .state_stride = Dim(),
                   .dk = Dim(),
                   .n_v = Dim(),
                   .n_tokens = n,
                   .q_hat = in.q_hat.data() + begin,
                   .k_hat = in.k_hat.data() + begin,
                   .qk_stride = row,
                   .value = in.value.data() + begin,
                   .value_stride = row,
                   .decay = in.decay.data() + gate,
                   .beta = in.beta.data() + gate,
                   .gate_stride = Heads(),
                   .out = out.data() + head * Dim(),
                   .out_stride = row});
    }
    return out;
  }

  std::vector<const KernelTable*> AllKernels() const {
    int n = 0;
    const std::string_view* names = AvailableKernels(&n);
    std::vector<const KernelTable*> tables;
    for (int i = 0; i < n; ++i) tables.push_back(*FindKernels(names[i]));
    return tables;
  }
};

TEST_P(GdnParityTest, SeventyTokensFromAnEmptyState) {
  const Inputs in = MakeInputs();
  for (const KernelTable* kernels : AllKernels()) {
    std::vector<float> state(Heads() * Dim() * Dim());
    const std::vector<float> out = RunRule(*kernels, in, 0, kTokens, &state);
    EXPECT_LE(MaxDifference(out, Floats("recurrent_out")), kRuleTolerance) << kernels->name;
    EXPECT_LE(MaxDifference(out, Floats("chunk_out")), kRuleTolerance) << kernels->name;
    EXPECT_LE(MaxDifference(state, Floats("recurrent_state")), kRuleTolerance) << kernels->name;
    EXPECT_LE(MaxDifference(state, Floats("chunk_state")), kRuleTolerance) << kernels->name;
  }
}

TEST_P(GdnParityTest, OneStep) {
  const Inputs in = MakeInputs();
  for (const KernelTable* kernels : AllKernels()) {
    std::vector<float> state = Floats("step_state_in");
    const std::vector<float> out = RunRule(*kernels, in, kTokens - 1, 1, &state);
    EXPECT_LE(MaxDifference(out, Floats("step_out")), kRuleTolerance) << kernels->name;
    EXPECT_LE(MaxDifference(state, Floats("step_state_out")), kRuleTolerance) << kernels->name;
  }
}

// Layer 0 from its input to its output, in two segments of one conversation: projections,
// convolution, gates, rule, norm, output gate and output projection.
TEST_P(GdnParityTest, BlockThroughTheBackend) {
  const ModelConfig& c = m_.model->config();
  Backend* backend = m_.backend.get();
  const auto weights = BindModelWeights(c, m_.model->file());
  ASSERT_TRUE(weights.ok());
  const GdnWeights& w = weights->layers[0].gdn();

  std::vector<std::unique_ptr<Buffer>> buffers;
  const auto allocate = [&](int64_t n_floats) {
    buffers.push_back(std::move(*backend->Allocate(n_floats * sizeof(float))));
    return BufferRef{buffers.back().get(), 0};
  };
  const auto upload = [&](const std::vector<float>& values) {
    const BufferRef ref = allocate(static_cast<int64_t>(values.size()));
    EXPECT_TRUE(backend->Upload(ref, std::as_bytes(std::span(values))).ok());
    EXPECT_TRUE(backend->Synchronize().ok());
    return ref;
  };
  const auto download = [&](BufferRef ref, int64_t n_floats) {
    std::vector<float> values(n_floats);
    EXPECT_TRUE(backend->Download(ref, std::as_writable_bytes(std::span(values))).ok());
    return values;
  };
  std::vector<std::unique_ptr<Weight>> loaded;
  const auto load = [&](const WeightView& view) -> const Weight* {
    loaded.push_back(std::move(*backend->LoadWeight(view)));
    return loaded.back().get();
  };
  const std::vector<float> conv = ToFloats(w.conv);
  std::vector<float> tap_major(conv.size());
  for (int64_t i = 0; i < static_cast<int64_t>(conv.size()); ++i) {
    tap_major[i % c.gdn_conv_kernel * c.gdn_conv_channels() + i / c.gdn_conv_kernel] = conv[i];
  }

  const int64_t channels = c.gdn_conv_channels(), width = c.gdn_value_width();
  const BufferRef x = upload(Floats("x"));
  const BufferRef qkv = allocate(kTokens * channels), z = allocate(kTokens * width);
  const BufferRef b = allocate(kTokens * Heads()), a = allocate(kTokens * Heads());
  const BufferRef out = allocate(kTokens * width), y = allocate(kTokens * c.hidden_size);
  const StateLayout& layout = m_.model->layout();
  const Part* state_part = layout.FindRunning(0, PartKind::kGdnState);
  auto running = std::move(*backend->Allocate(layout.running_bytes()));
  ASSERT_TRUE(backend
                  ->MatMul({.x = x,
                            .n_rows = kTokens,
                            .outputs = {{load(w.qkv), qkv},
                                        {load(w.gate), z},
                                        {load(w.beta), b, true},
                                        {load(w.alpha), a, true}}})
                  .ok());
  // The second call goes on where the first one ended, with its rows further back in the buffers.
  const int64_t n_first = kTokens - 1;
  GdnArgs args{.qkv = qkv,
               .z = z,
               .b = b,
               .a = a,
               .conv = upload(tap_major),
               .ssm_a = upload(ToFloats(w.a)),
               .dt_bias = upload(ToFloats(w.dt_bias)),
               .norm = upload(ToFloats(w.norm)),
               .out = out,
               .n_key_heads = c.gdn_n_key_heads,
               .n_value_heads = c.gdn_n_value_heads,
               .head_dim = c.gdn_head_dim,
               .conv_kernel = c.gdn_conv_kernel,
               .eps = c.rms_eps,
               .state_offset = state_part->offset,
               .conv_offset = layout.FindRunning(0, PartKind::kGdnConv)->offset};
  const Segment first{.n_rows = n_first, .running = running.get()};
  args.rows = {.n_rows = n_first, .segments = {&first, 1}};
  ASSERT_TRUE(backend->Gdn(args).ok());
  const Segment last{.n_rows = 1, .first_position = n_first, .running = running.get()};
  args.rows = {.n_rows = 1, .segments = {&last, 1}};
  args.qkv.offset = n_first * channels * sizeof(float);
  args.z.offset = args.out.offset = n_first * width * sizeof(float);
  args.a.offset = args.b.offset = n_first * Heads() * sizeof(float);
  ASSERT_TRUE(backend->Gdn(args).ok());
  ASSERT_TRUE(backend->MatMul({.x = out, .n_rows = kTokens, .outputs = {{load(w.out), y}}}).ok());

  EXPECT_LE(MaxDifference(download(y, kTokens * c.hidden_size), Floats("y")), 1e-4f);
  const std::vector<float> got_z = download(z, kTokens * width), want_z = Floats("z");
  const std::vector<float> state =
      download({running.get(), state_part->offset}, Heads() * Dim() * Dim());
  const std::vector<float> want_state = Floats("recurrent_state");
  for (int head = 0; head < Heads(); ++head) {
    const int reference = ReferenceValueHead(head, c.gdn_n_key_heads, Heads());
    for (int64_t t = 0; t < kTokens; ++t) {
      ASSERT_LE(MaxDifference(std::span(got_z).subspan((t * Heads() + head) * Dim(), Dim()),
                              std::span(want_z).subspan((t * Heads() + reference) * Dim(), Dim())),
                1e-5f)
          << "token " << t << " head " << head;
    }
    const int64_t n = Dim() * Dim();
    EXPECT_LE(MaxDifference(std::span(state).subspan(head * n, n),
                            std::span(want_state).subspan(reference * n, n)),
              2e-5f)
        << "head " << head;
  }
}

INSTANTIATE_TEST_SUITE_P(Full, GdnParityTest, FullCases(), ParityCaseName);

}  // namespace
}  // namespace holdfast

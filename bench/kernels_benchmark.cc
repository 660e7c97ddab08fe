// Kernels on one core: matmul per type and number of activation rows, and the others at the model's
// shapes. Counters: GB/s of weights (or state, cells) read; GOP/s, two per weight and activation
// row; read% and int8% compare them with what the machine was measured to do at start.

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/half.h"
#include "bench/machine_peak.h"
#include "ops/cpu/grid_blocks.h"
#include "ops/cpu/kernels.h"

namespace holdfast {
namespace {

double g_read_peak = 0, g_int8_peak = 0;

constexpr QuantType kTypes[] = {QuantType::kQ8_0,   QuantType::kQ4_K,    QuantType::kQ5_K,
                                QuantType::kQ6_K,   QuantType::kQ4_0,    QuantType::kQ5_0,
                                QuantType::kQ4_1,   QuantType::kQ5_1,    QuantType::kQ2_0,
                                QuantType::kIQ4_NL, QuantType::kQ2_K,    QuantType::kQ3_K,
                                QuantType::kIQ4_XS, QuantType::kIQ2_XXS, QuantType::kIQ2_XS,
                                QuantType::kIQ2_S,  QuantType::kIQ3_XXS, QuantType::kIQ3_S,
                                QuantType::kF32,    QuantType::kF16,     QuantType::kBF16};

void Report(benchmark::State& state, double bytes, double ops) {
  const auto rate = [&](double n) {
    return benchmark::Counter(n, benchmark::Counter::kIsIterationInvariantRate);
  };
  state.counters["GB/s"] = rate(bytes / 1e9);
  state.counters["GOP/s"] = rate(ops / 1e9);
  state.counters["read%"] = rate(100 * bytes / g_read_peak);
  if (g_int8_peak > 0) state.counters["int8%"] = rate(100 * ops / g_int8_peak);
}

constexpr int64_t kCols = 2560;       // the model's width
constexpr int64_t kNarrowCols = 256;  // the demo model's

// A matrix that no cache holds (decode), or one that stays in L2. Bytes are those of the file's
// form, of a repacked one too.
void MatMul(benchmark::State& state, const KernelTable* kernels, QuantType type, int64_t n_cols,
            int64_t n_x, bool streamed, bool repacked) {
  const int64_t row_bytes = RowBytes(type, n_cols).value();
  const int64_t n_rows =
      streamed ? (int64_t{96} << 20) / row_bytes / 16 * 16 : 256 * kCols / n_cols;
  std::mt19937 random(1);
  std::vector<std::byte> weights(static_cast<size_t>(n_rows * row_bytes));
  for (size_t i = 0; i + 4 <= weights.size(); i += 4) {
    const uint32_t bits = random() & 0xbfffbfffu;  // halves below 2: no NaN, no inf
    std::memcpy(weights.data() + i, &bits, 4);
  }
  const bool integer = HasIntegerKernel(type);
  std::vector<float> x(static_cast<size_t>(n_x * n_cols), 0.5f),
      y(static_cast<size_t>(n_x * n_rows));
  std::vector<int8_t> codes(x.size());
  std::vector<float> scales(x.size() / 32);
  std::vector<int16_t> sums16(x.size() / 16);
  MatMulSlice s;
  s.type = type;
  s.repacked = repacked;
  s.weights = weights.data();
  s.row_bytes = row_bytes;
  std::vector<std::byte> packed;
  if (repacked) {
    const int64_t n_blocks = n_rows * n_cols / 256;
    packed.resize(static_cast<size_t>(n_blocks * RepackedBlockBytes(type)));
    RepackBlocks(type, weights.data(), n_blocks, packed.data());
    s.weights = packed.data();
    s.row_bytes = n_cols / 256 * RepackedBlockBytes(type);
  }
  s.n_cols = n_cols;
  s.row_end = n_rows;
  s.n_x = n_x;
  s.y = y.data();
  s.y_stride = n_rows;
  if (integer) {
    const int group = ActivationGroup(type);
    kernels->quantize(x.data(), n_x * n_cols, group, codes.data(), scales.data(), sums16.data());
    s.quantized = {codes.data(), scales.data(), sums16.data(), group};
  } else {
    s.x = x.data();
  }
  for (auto _ : state) {
    kernels->matmul(s);
    benchmark::ClobberMemory();
  }
  Report(state, static_cast<double>(weights.size()),
         2.0 * static_cast<double>(n_rows * n_cols * n_x));
}

// 12 query heads of 256 over n int8 cells, as one KV head of the model.
void Attention(benchmark::State& state, const KernelTable* kernels, int64_t n_cells) {
  constexpr int64_t kHeads = 12, kDim = 256;
  std::mt19937 random(1);
  std::vector<std::byte> k(static_cast<size_t>(n_cells * kDim)), v = k;
  for (auto& b : k) b = static_cast<std::byte>(random());
  for (auto& b : v) b = static_cast<std::byte>(random());
  std::vector<uint16_t> cell_scales(static_cast<size_t>(n_cells * 4), FloatToHalf(0.01f));
  std::vector<float> q(kHeads * kDim, 0.3f), q_scales(kHeads * 4), out(kHeads * kDim);
  std::vector<float> scores(static_cast<size_t>(kHeads * n_cells));
  std::vector<int8_t> codes(q.size());
  kernels->quantize(q.data(), kHeads * kDim, 64, codes.data(), q_scales.data(), nullptr);
  const auto* scale_bytes = reinterpret_cast<const std::byte*>(cell_scales.data());
  const CellRun run = {k.data(), v.data(), scale_bytes, scale_bytes, n_cells};
  AttentionSlice s;
  s.head_dim = kDim;
  s.n_heads = kHeads;
  s.q = q.data();
  s.q_codes = codes.data();
  s.q_scales = q_scales.data();
  s.runs = &run;
  s.n_runs = 1;
  s.n_cells = n_cells;
  s.scores = scores.data();
  s.out = out.data();
  for (auto _ : state) {
    kernels->attention(s);
    benchmark::ClobberMemory();
  }
  Report(state, static_cast<double>(2 * n_cells * (kDim + 8)),
         4.0 * static_cast<double>(kHeads * n_cells * kDim));
}

// One head of 128 x 128 over n tokens; decode (one token) walks through 48 MB of heads.
void Gdn(benchmark::State& state, const KernelTable* kernels, int64_t n_tokens) {
  constexpr int64_t kDim = 128;
  const int64_t n_heads = n_tokens == 1 ? 768 : 1;
  std::vector<float> states(static_cast<size_t>(n_heads * kDim * kDim), 0.1f);
  std::vector<float> rows(static_cast<size_t>(n_tokens * kDim), 0.05f), out = rows;
  std::vector<float> gates(static_cast<size_t>(n_tokens), 0.5f);
  GdnSlice s;
  s.state_stride = s.n_v = s.dk = kDim;
  s.n_tokens = n_tokens;
  s.q_hat = s.k_hat = s.value = rows.data();
  s.qk_stride = s.value_stride = s.out_stride = kDim;
  s.decay = s.beta = gates.data();
  s.gate_stride = 1;
  s.out = out.data();
  for (auto _ : state) {
    for (int64_t h = 0; h < n_heads; ++h) {
      s.state = states.data() + h * kDim * kDim;
      kernels->gdn(s);
    }
    benchmark::ClobberMemory();
  }
  const auto cells = static_cast<double>(n_heads * kDim * kDim);
  Report(state, n_tokens == 1 ? 8 * cells : 0, 8 * cells * static_cast<double>(n_tokens));
}

void IndexScores(benchmark::State& state, const KernelTable* kernels, int64_t n_blocks) {
  constexpr int64_t kHeads = 4, kDim = 128;
  std::vector<float> q(kHeads * kDim, 0.1f), keys(static_cast<size_t>(kDim * n_blocks), 0.2f);
  std::vector<float> scores(static_cast<size_t>(n_blocks));
  for (auto _ : state) {
    kernels->index_scores(q.data(), kHeads, kDim, keys.data(), n_blocks, n_blocks, scores.data());
    benchmark::ClobberMemory();
  }
  Report(state, static_cast<double>(4 * kDim * n_blocks),
         2.0 * static_cast<double>(kHeads * kDim * n_blocks));
}

// Functions over rows of 10240 values that stay in cache.
void Row(benchmark::State& state, const KernelTable* kernels, const std::string& name) {
  constexpr int64_t kN = 10240;
  std::vector<float> a(kN, 0.3f), b(kN, 0.7f), out(kN);
  std::vector<int8_t> codes(kN);
  std::vector<int16_t> sums16(kN / 16);
  const float* taps[4] = {a.data(), b.data(), a.data(), b.data()};
  std::vector<float> w(4 * kN, 0.1f);
  for (auto _ : state) {
    if (name == "rms_norm") kernels->rms_norm(a.data(), b.data(), kN, 1e-6f, out.data());
    if (name == "quantize") {
      kernels->quantize(a.data(), kN, 256, codes.data(), out.data(), sums16.data());
    }
    if (name == "sigmoid") kernels->sigmoid(a.data(), kN, out.data());
    if (name == "swiglu") kernels->swiglu(a.data(), b.data(), kN, out.data());
    if (name == "hc_mix") kernels->hc_mix(a.data(), b.data(), 4, kN / 4, out.data());
    if (name == "conv_silu") kernels->conv_silu(taps, w.data(), kN, 4, kN, out.data());
    if (name == "axpy") kernels->axpy(0.5f, a.data(), kN, out.data());
    benchmark::ClobberMemory();
  }
  state.counters["G/s"] = benchmark::Counter(static_cast<double>(kN) / 1e9,
                                             benchmark::Counter::kIsIterationInvariantRate);
}

void Register(const KernelTable* kernels) {
  const std::string set = std::string(kernels->name) + "/";
  for (const QuantType type : kTypes) {
    const std::string name = set + std::string(QuantTypeName(type)) + "/x";
    for (const int64_t n_x : {1, 2, 3}) {
      benchmark::RegisterBenchmark((name + std::to_string(n_x) + "/streamed").c_str(), MatMul,
                                   kernels, type, kCols, n_x, true, false);
    }
    for (const int64_t n_x : {1, 2, 3, 4, 8, 16, 64, 256}) {
      benchmark::RegisterBenchmark((name + std::to_string(n_x)).c_str(), MatMul, kernels, type,
                                   kCols, n_x, false, false);
    }
    for (const int64_t n_x : {1, 2, 4, 8}) {
      benchmark::RegisterBenchmark((name + std::to_string(n_x) + "/narrow").c_str(), MatMul,
                                   kernels, type, kNarrowCols, n_x, false, false);
    }
    if (!IsGridType(type)) continue;
    const std::string packed = set + std::string(QuantTypeName(type)) + "_repacked/x";
    for (const int64_t n_x : {1, 2, 4, 16, 256}) {
      benchmark::RegisterBenchmark((packed + std::to_string(n_x)).c_str(), MatMul, kernels, type,
                                   kCols, n_x, false, true);
    }
    benchmark::RegisterBenchmark((packed + "1/streamed").c_str(), MatMul, kernels, type, kCols, 1,
                                 true, true);
  }
  for (const int64_t n : {512, 2048}) {
    benchmark::RegisterBenchmark((set + "attention/cells" + std::to_string(n)).c_str(), Attention,
                                 kernels, n);
  }
  for (const int64_t n : {1, 64}) {
    benchmark::RegisterBenchmark((set + "gdn/tokens" + std::to_string(n)).c_str(), Gdn, kernels, n);
  }
  benchmark::RegisterBenchmark((set + "index_scores/blocks8192").c_str(), IndexScores, kernels,
                               8192);
  for (const char* row :
       {"rms_norm", "quantize", "sigmoid", "swiglu", "hc_mix", "conv_silu", "axpy"}) {
    benchmark::RegisterBenchmark((set + "row/" + row).c_str(), Row, kernels, std::string(row));
  }
}

}  // namespace
}  // namespace holdfast

int main(int argc, char** argv) {
  using namespace holdfast;
  // CPU time of one thread, as the rates of Google Benchmark are.
  g_read_peak = StreamingReadBytesPerSecond(1, PeakClock::kThread);
  g_int8_peak = MeasureInt8Dot(1, PeakClock::kThread).ops_per_s;
  std::printf("one core: streaming read %.1f GB/s, int8 dot %.0f GOP/s\n", g_read_peak / 1e9,
              g_int8_peak / 1e9);
  int n = 0;
  const std::string_view* names = AvailableKernels(&n);
  for (int i = 0; i < n; ++i) Register(FindKernels(names[i]).value());
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

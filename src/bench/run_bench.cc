#include "bench/run_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>

#include "base/host_memory.h"
#include "base/version.h"
#include "bench/bench_run.h"

namespace holdfast {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kUsualRuns = 5;
constexpr double kSecondsPerFigure = 8.0;    // unless a number of runs is asked for
constexpr double kSecondsPerReading = 30.0;  // of the tokens before a figure; else they are filled
constexpr int64_t kWarmUpTokens = 16, kWarmUpPrompt = 512;
constexpr uint64_t kMinFreeBytes = uint64_t{1} << 30;

// As served: a few likely tokens, so that replies go on in many ways.
SamplingParams UsualSampling() {
  SamplingParams sampling;
  sampling.temperature = 1.0f;
  sampling.top_k = 40;
  return sampling;
}

Result<StateRoom> ReadRoom(const BenchOptions& options, const Model& model) {
  const HostMemory host = ReadHostMemory();
  const std::optional<uint64_t> available =
      options.memory_limit_bytes ? options.memory_limit_bytes : host.available_bytes;
  if (!available) {
    return ResourceExhaustedError("how much memory is free is unknown (" + host.limited_by + ")");
  }
  const uint64_t taken = WeightBytesInMemory(model) + kMinFreeBytes;
  return StateRoom{.page_bytes = model.layout().page_bytes(),
                   .running_bytes = model.layout().running_bytes(),
                   .page_tokens = model.layout().page_tokens(),
                   .room_bytes = *available > taken ? *available - taken : 0};
}

Result<BenchHeader> MakeHeader(const BenchOptions& options, BenchModel* bench) {
  const Model& model = *bench->model();
  BenchHeader header;
  header.machine = ReadMachine();
  header.model_path = options.model.model_path;
  header.model_name = model.config().name;
  header.n_layers = model.config().n_layers;
  header.trained_ctx = model.config().context_length;
  header.has_draft = model.draft_layout() != nullptr;
  HF_ASSIGN_OR_RETURN(header.work, WorkOf(model));
  header.state_bytes = StateBytes(model.config(), model.layout(), 0);
  // More threads than CPUs read no faster.
  const int n_threads = std::min(bench->cpu().n_threads(), header.machine.n_cpus);
  MachinePeak peak;
  if (options.peak) {
    peak = *options.peak;
  } else {
    peak.read_bytes_per_s = StreamingReadBytesPerSecond(n_threads, PeakClock::kThread);
    peak.int8 = MeasureInt8Dot(n_threads, PeakClock::kThread);
  }
  header.int8_instruction = peak.int8.instruction;
  header.context = {.version = kVersion,
                    .cpu = header.machine.cpu,
                    .n_cpus = header.machine.n_cpus,
                    .others_busy = header.machine.busy_share,
                    .n_threads = bench->cpu().n_threads(),
                    .kernels = std::string(bench->cpu().kernels().name),
                    .model = std::filesystem::path(options.model.model_path).filename().string(),
                    .model_bytes = model.file().file_bytes(),
                    .kv = std::string(KvFormatName(options.model.kv_format)),
                    .activations = std::string(ActivationFormatName(ResolveActivations(
                        options.model.cpu.activations, model.config().hidden_size))),
                    .memory_bytes_per_s = peak.read_bytes_per_s,
                    .int8_ops_per_s = peak.int8.ops_per_s};
  return header;
}

}  // namespace

BenchRun::BenchRun(const BenchOptions& options, const BenchListener& listener, BenchModel* model,
                   const BenchHeader& header, const BenchPlan& plan, const StateRoom& room)
    : options_(options),
      listener_(listener),
      model_(model),
      header_(header),
      plan_(plan),
      room_(room) {}

void BenchRun::Note(const std::string& text) const {
  if (listener_.on_note) listener_.on_note(text);
}

void BenchRun::Progress(const std::string& text) const {
  if (listener_.on_progress) listener_.on_progress(text);
}

void BenchRun::Report(const Figure& figure) const {
  if (listener_.on_figure) listener_.on_figure(figure, profile_);
}

Status BenchRun::Repeat(const OneRun& run, Figure* figure) {
  if (options_.model.profile) options_.model.profile->Reset();
  const int n_runs = options_.request.n_runs > 0 ? options_.request.n_runs : kUsualRuns;
  const auto begin = Clock::now();
  std::vector<double> rates, seconds;
  for (int i = 0; i < n_runs; ++i) {
    Progress(fmt::format("{} {} at depth {}, {} together: run {} of {}", figure->test, figure->n,
                         figure->depth, figure->n_slots, i + 1, n_runs));
    HF_ASSIGN_OR_RETURN(const TimedRun one, run());
    if (one.n_tokens <= 0 || one.seconds <= 0) {
      return InternalError("a run of " + figure->test + " took no time");
    }
    rates.push_back(static_cast<double>(one.n_tokens) / one.seconds);
    seconds.push_back(one.seconds);
    figure->n_drafted += one.n_drafted;
    figure->n_accepted += one.n_accepted;
    const double spent = std::chrono::duration<double>(Clock::now() - begin).count();
    if (options_.request.n_runs == 0 && spent > kSecondsPerFigure) break;
  }
  figure->tokens_per_s = Spread::Of(rates);
  figure->seconds = Spread::Of(seconds).median;
  if (options_.model.profile) profile_ = options_.model.profile->Table();
  return OkStatus();
}

Result<std::vector<Base>> BenchRun::MakeBases(BenchRig* rig, const DepthPlan& at,
                                              std::string* state) {
  const int64_t n = at.max_slots();
  if (read_tokens_per_s_ == 0 && at.depth > 2 * kWarmUpPrompt) {
    const Base nothing{.tokens = {0}};
    HF_RETURN_IF_ERROR(rig->Prefill(nothing, kWarmUpPrompt / 4, 1).status());
    HF_ASSIGN_OR_RETURN(const TimedRun run, rig->Prefill(nothing, kWarmUpPrompt, 2));
    read_tokens_per_s_ = static_cast<double>(run.n_tokens) / run.seconds;
  }
  // Reading is the honest way, while it lasts no longer than what is measured.
  const bool read = read_tokens_per_s_ == 0 ||
                    static_cast<double>(n * at.depth) < read_tokens_per_s_ * kSecondsPerReading;
  *state = at.depth == 0 ? "none" : read ? "read" : "filled";
  if (*state == "filled") {
    Note(fmt::format(
        "depth {}: reading {} tokens would take {:.0f} s, so pages and running states "
        "are filled with seeded values instead",
        at.depth, n * at.depth, static_cast<double>(n * at.depth) / read_tokens_per_s_));
  }
  std::vector<Base> bases;
  for (int64_t i = 0; i < n; ++i) {
    const auto progress = [&](int64_t done) {
      Progress(
          fmt::format("depth {}: conversation {} of {}, {} tokens read", at.depth, i + 1, n, done));
    };
    const uint64_t seed = 1000 + static_cast<uint64_t>(i);
    HF_ASSIGN_OR_RETURN(
        Base base, read ? rig->ReadBase(at.depth, seed, progress) : rig->FillBase(at.depth, seed));
    bases.push_back(std::move(base));
  }
  return bases;
}

Status BenchRun::PrefillFigures(BenchRig* rig, const DepthPlan& at, const Base& base,
                                const std::string& state) {
  for (const int64_t n : at.prefill) {
    Figure figure{.test = "prefill", .n = n, .depth = at.depth, .state = state};
    uint64_t seed = 1;
    HF_RETURN_IF_ERROR(rig->Prefill(base, std::min(n, kWarmUpPrompt), seed).status());
    HF_RETURN_IF_ERROR(Repeat([&] { return rig->Prefill(base, n, ++seed); }, &figure));
    figure.ops_per_token =
        header_.work.PromptOpsPerToken() + header_.work.output_ops / static_cast<double>(n);
    if (header_.context.int8_ops_per_s > 0) {
      figure.of_roofline =
          figure.tokens_per_s.median * figure.ops_per_token / header_.context.int8_ops_per_s;
    }
    read_tokens_per_s_ = std::max(read_tokens_per_s_, figure.tokens_per_s.median);
    Report(figure);
  }
  return OkStatus();
}

Result<std::vector<double>> BenchRun::CountExperts(BenchRig* rig,
                                                   std::span<const std::vector<TokenId>> prompts) {
  constexpr int64_t kTokens = 6;
  const int64_t n_streams = static_cast<int64_t>(prompts.size());
  if (n_streams == 1) return std::vector<double>();
  std::vector<double> sums(header_.n_layers), counts(header_.n_layers);
  model_->model()->set_tap([&](const TapPoint& point) {
    if (point.what != "router_ids" || point.layer >= header_.n_layers) return;
    if (point.n_rows != n_streams) return;
    std::vector<int32_t> ids(point.integers.begin(), point.integers.end());
    std::ranges::sort(ids);
    sums[point.layer] += static_cast<double>(std::unique(ids.begin(), ids.end()) - ids.begin());
    ++counts[point.layer];
  });
  const Status status = rig->Decode(prompts, kTokens, UsualSampling()).status();
  model_->model()->set_tap(nullptr);
  if (!status.ok()) return status;
  for (size_t i = 0; i < sums.size(); ++i) {
    if (counts[i] == 0) return InternalError("no step had a row of every stream");
    sums[i] /= counts[i];
  }
  return sums;
}

Status BenchRun::DecodeFigures(BenchRig* rig, const DepthPlan& at, std::span<const Base> bases,
                               const std::string& state) {
  const int64_t n = options_.request.n_decode;
  for (const int64_t n_slots : at.slots) {
    std::vector<std::vector<TokenId>> prompts;
    for (int64_t i = 0; i < n_slots; ++i) prompts.push_back(bases[i].tokens);
    Figure figure{.test = "decode",
                  .n = n,
                  .depth = at.depth,
                  .n_slots = static_cast<int>(n_slots),
                  .state = state};
    HF_RETURN_IF_ERROR(rig->Decode(prompts, std::min(n, kWarmUpTokens), UsualSampling()).status());
    HF_RETURN_IF_ERROR(Repeat([&] { return rig->Decode(prompts, n, UsualSampling()); }, &figure));
    HF_ASSIGN_OR_RETURN(const std::vector<double> experts, CountExperts(rig, prompts));
    const Model& model = *model_->model();
    const uint64_t state_bytes = StateBytes(model.config(), model.layout(), at.depth + n / 2);
    figure.bytes_per_token = static_cast<double>(header_.work.StepBytes(n_slots, experts)) /
                                 static_cast<double>(n_slots) +
                             static_cast<double>(state_bytes);
    figure.of_roofline =
        figure.tokens_per_s.median * figure.bytes_per_token / header_.context.memory_bytes_per_s;
    Report(figure);
  }
  return OkStatus();
}

Status BenchRun::Depths() {
  if (plan_.depths.empty()) return OkStatus();
  // A run beside the bases of its depth.
  uint64_t state_bytes = 0;
  int64_t n_slots = 1;
  for (const DepthPlan& at : plan_.depths) {
    n_slots = std::max(n_slots, at.max_slots());
    state_bytes =
        std::max(state_bytes, room_.Need(at.depth + options_.request.n_decode, at.max_slots()));
  }
  state_bytes += room_.Need(plan_.ctx, 1);
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<BenchRig> rig,
                      BenchRig::Create(model_, {.ctx = plan_.ctx,
                                                .n_slots = static_cast<int>(n_slots),
                                                .state_bytes = state_bytes}));
  for (const DepthPlan& at : plan_.depths) {
    std::string state;
    HF_ASSIGN_OR_RETURN(std::vector<Base> bases, MakeBases(rig.get(), at, &state));
    HF_RETURN_IF_ERROR(PrefillFigures(rig.get(), at, bases.front(), state));
    HF_RETURN_IF_ERROR(DecodeFigures(rig.get(), at, bases, state));
    const bool last = &at == &plan_.depths.back();
    if (last && options_.request.state) {
      while (bases.size() > 1) {
        rig->Drop(&bases.back());
        bases.pop_back();
      }
      HF_RETURN_IF_ERROR(StateFigures(rig.get(), &bases.front(), state));
    }
    for (Base& base : bases) rig->Drop(&base);
  }
  return OkStatus();
}

Status RunBench(const BenchOptions& options, const BenchListener& listener) {
  HF_RETURN_IF_ERROR(options.request.Validate());
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<BenchModel> model, BenchModel::Load(options.model));
  HF_ASSIGN_OR_RETURN(const StateRoom room, ReadRoom(options, *model->model()));
  HF_ASSIGN_OR_RETURN(
      const BenchPlan plan,
      MakeBenchPlan(options.request, model->model()->config().context_length, room));
  HF_ASSIGN_OR_RETURN(const BenchHeader header, MakeHeader(options, model.get()));
  if (listener.on_header) listener.on_header(header);
  if (listener.on_note) {
    for (const std::string& note : plan.notes) listener.on_note(note);
    if (const ExpertTier* tier = model->model()->expert_tier()) {
      listener.on_note("experts: " + DescribeExperts(tier->stats()));
    }
    if (const NgramTier* tier = model->model()->ngram_tier()) {
      listener.on_note("n-gram rows: " + DescribeNgramRows(tier->stats()));
    }
    if (header.machine.busy()) {
      listener.on_note(
          fmt::format("other processes take {:.0f}% of the CPUs: figures will be low and uncertain",
                      100 * header.machine.busy_share));
    }
  }
  BenchRun run(options, listener, model.get(), header, plan, room);
  HF_RETURN_IF_ERROR(run.Depths());
  return run.Drafts();
}

}  // namespace holdfast

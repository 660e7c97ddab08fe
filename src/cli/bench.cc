#include "cli/bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <optional>

#include "base/version.h"
#include "bench/compare.h"
#include "bench/run_bench.h"
#include "bench/store_bench.h"
#include "cli/bench_text.h"
#include "cli/cache_options.h"
#include "server/json.h"

namespace holdfast::cli {
namespace {

Status ReadCounts(const char* flag, const std::string& text,
                  std::optional<std::vector<int64_t>>* counts) {
  if (text.empty()) return OkStatus();
  HF_ASSIGN_OR_RETURN(*counts, ParseCounts(flag, text));
  return OkStatus();
}

// "auto", "on", "off", or guesses in a window.
Status ReadDraft(const BenchCommandOptions& options, int max_drafts, BenchRequest* request) {
  if (options.model.draft == "auto") return OkStatus();
  request->draft = max_drafts == 0 ? DraftRuns::kOff : DraftRuns::kOn;
  request->n_guesses = max_drafts;
  return OkStatus();
}

Result<BenchOptions> ToBenchOptions(const BenchCommandOptions& options) {
  BenchOptions bench;
  ModelOptions model = options.model;
  if (model.draft == "on") model.draft = "auto";
  HF_ASSIGN_OR_RETURN(const EngineOptions engine, ToEngineOptions(model));
  bench.model = {.model_path = engine.model_path,
                 .mtp_path = engine.mtp_path,
                 .kv_format = engine.kv_format,
                 .cpu = {.n_threads = engine.n_threads,
                         .kernels = engine.kernels,
                         .activations = engine.activations},
                 .profile = options.profile.Make()};
  bench.model.expert_memory = engine.expert_memory;
  bench.model.ngram_memory = engine.ngram_memory;
  bench.model.repack = engine.repack;
  BenchRequest& request = bench.request;
  HF_RETURN_IF_ERROR(ReadCounts("--prefill", options.prefill, &request.prefill));
  HF_RETURN_IF_ERROR(ReadCounts("--depth", options.depth, &request.depths));
  HF_RETURN_IF_ERROR(ReadCounts("--slots", options.slots, &request.slots));
  HF_RETURN_IF_ERROR(ReadDraft(options, engine.max_drafts, &request));
  request.n_decode = options.decode;
  request.n_runs = options.repeat;
  request.state = !options.no_state;
  bench.dir = options.dir;
  if (!options.memory_limit.empty()) {
    const Result<uint64_t> limit = ParseSize(options.memory_limit);
    if (!limit.ok()) return InvalidArgumentError("--memory-limit: " + limit.status().message());
    bench.memory_limit_bytes = *limit;
    bench.model.memory_limit_bytes = *limit;
  }
  HF_RETURN_IF_ERROR(request.Validate());
  return bench;
}

// What all kinds of output share: figures, and how they compare with an earlier run.
class Printer {
 public:
  Printer(const BenchCommandOptions& options, std::ostream* out)
      : json_(options.json), terminal_(::isatty(STDERR_FILENO) != 0), out_(out) {}

  Status Open(const std::string& compare) {
    if (compare.empty()) return OkStatus();
    HF_ASSIGN_OR_RETURN(baseline_, Baseline::Read(compare));
    return OkStatus();
  }
  void Begin(const std::string& header, const BenchContext& context) {
    context_ = context;
    if (!json_) *out_ << header << std::flush;
    if (!baseline_) return;
    const std::string differences = baseline_->Differences(context);
    if (!differences.empty()) Note("not the same as in the earlier run: " + differences);
  }
  void Note(const std::string& text) {
    ClearProgress();
    (json_ ? std::cerr : *out_) << "note: " << text << std::endl;
  }
  void Progress(const std::string& text) {
    if (!terminal_) return;
    fmt::print(stderr, "\r\033[K{}", text);
    std::fflush(stderr);
    has_progress_ = true;
  }
  void Print(const Figure& figure, const std::string& profile) {
    ClearProgress();
    std::optional<Comparison> comparison;
    if (baseline_) comparison = baseline_->CompareTo(figure);
    if (comparison) ++n_verdicts_[static_cast<size_t>(comparison->verdict)];
    if (json_) {
      *out_ << ToText(WithComparison(ToJson(figure, context_), comparison)) << std::endl;
    } else {
      if (!has_columns_) *out_ << FigureColumns();
      has_columns_ = profile.empty();
      *out_ << FigureLine(figure, comparison) << std::flush;
    }
    (json_ ? std::cerr : *out_) << profile << std::flush;
  }
  void End() {
    ClearProgress();
    if (!baseline_) return;
    (json_ ? std::cerr : *out_) << fmt::format(
        "compared with the earlier run: {} better, {} worse, {} the same within the noise\n",
        n_verdicts_[static_cast<size_t>(Change::kBetter)],
        n_verdicts_[static_cast<size_t>(Change::kWorse)],
        n_verdicts_[static_cast<size_t>(Change::kSame)]);
  }

 private:
  static Json WithComparison(Json json, const std::optional<Comparison>& comparison) {
    if (!comparison) return json;
    json["compare"]["verdict"] = std::string(ChangeName(comparison->verdict));
    json["compare"]["tokens_per_s"] = comparison->before;
    json["compare"]["change"] = comparison->change;
    json["compare"]["noise"] = comparison->noise;
    return json;
  }
  void ClearProgress() {
    if (has_progress_) fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
    has_progress_ = false;
  }

  const bool json_, terminal_;
  std::ostream* const out_;
  BenchContext context_;
  std::optional<Baseline> baseline_;
  bool has_columns_ = false, has_progress_ = false;
  int n_verdicts_[3] = {};
};

Status RunStore(const BenchCommandOptions& options, std::ostream& out) {
  const Result<uint64_t> n_bytes = ParseSize(options.bytes);
  if (!n_bytes.ok()) return InvalidArgumentError("--bytes: " + n_bytes.status().message());
  if (options.repeat < 0) {
    return InvalidArgumentError(fmt::format("--repeat is {}, wanted 0 or more", options.repeat));
  }
  Printer printer(options, &out);
  HF_RETURN_IF_ERROR(printer.Open(options.compare));
  const Machine machine = ReadMachine();
  printer.Begin(MachineLine(machine),
                {.version = kVersion, .cpu = machine.cpu, .n_cpus = machine.n_cpus});
  StoreBenchOptions store{.dir = options.dir, .n_bytes = *n_bytes};
  if (options.repeat > 0) store.n_runs = options.repeat;
  HF_RETURN_IF_ERROR(RunStoreBench(
      store, [&](const std::string& text) { printer.Note(text); },
      [&](const Figure& figure) { printer.Print(figure, ""); }));
  printer.End();
  return OkStatus();
}

}  // namespace

Status RunBenchCommand(const BenchCommandOptions& options, std::ostream& out) {
  if (options.store) return RunStore(options, out);
  HF_ASSIGN_OR_RETURN(const BenchOptions bench, ToBenchOptions(options));
  Printer printer(options, &out);
  HF_RETURN_IF_ERROR(printer.Open(options.compare));
  BenchListener listener;
  listener.on_header = [&](const BenchHeader& header) {
    printer.Begin(HeaderText(header), header.context);
  };
  listener.on_note = [&](const std::string& text) { printer.Note(text); };
  listener.on_progress = [&](const std::string& text) { printer.Progress(text); };
  listener.on_figure = [&](const Figure& figure, const std::string& profile) {
    printer.Print(figure, profile);
  };
  HF_RETURN_IF_ERROR(RunBench(bench, listener));
  printer.End();
  if (!bench.model.profile) return OkStatus();
  return options.profile.Report(*bench.model.profile, /*with_table=*/false, std::cerr);
}

}  // namespace holdfast::cli

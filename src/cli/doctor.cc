#include "cli/doctor.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <utility>

#include "base/host_memory.h"
#include "base/pressure.h"
#include "base/temp_folder.h"
#include "bench/machine.h"
#include "engine/plan_input.h"
#include "model/model.h"
#include "ops/cpu/cpu_backend.h"
#include "store/store_speed.h"
#include "token/chat_template.h"
#include "token/tokenizer.h"
#include "token/vocabulary.h"

namespace holdfast::cli {
namespace {

using Verdict = Finding::Verdict;
namespace fs = std::filesystem;

constexpr double kGb = 1e9, kMb = 1e6;
constexpr uint64_t kProbeBytes = uint64_t{64} << 20;

Finding LookAtCpu(const EngineOptions& options) {
  const Machine machine = ReadMachine();
  const std::string cpu = machine.cpu.empty() ? "unknown processor" : machine.cpu;
  const auto backend = CpuBackend::Create({.n_threads = options.n_threads,
                                           .kernels = options.kernels,
                                           .activations = options.activations});
  if (!backend.ok()) return {Verdict::kBad, "cpu", backend.status().message()};
  const std::string kernels((*backend)->kernels().name);
  const std::string text = fmt::format("{}, {} CPUs, kernels {}, {} threads", cpu, machine.n_cpus,
                                       kernels, (*backend)->n_threads());
  if (kernels == "scalar") {
    return {Verdict::kWarning, "cpu",
            text + ": neither AVX2 nor NEON, so many times slower than it could be"};
  }
  if ((*backend)->n_threads() > machine.n_cpus) {
    return {Verdict::kWarning, "cpu", text + ": more threads than CPUs, give fewer (--threads)"};
  }
  if (machine.busy()) {
    return {Verdict::kWarning, "cpu",
            fmt::format("{}: other programs take {:.0f} % of it at present", text,
                        100 * machine.busy_share)};
  }
  return {Verdict::kGood, "cpu", text};
}

Finding LookAtMemory(const HostMemory& host) {
  if (!host.available_bytes || !host.total_bytes) {
    return {
        Verdict::kBad, "memory",
        fmt::format("how much is free cannot be told ({}): give --memory-limit", host.limited_by)};
  }
  const std::string text =
      fmt::format("{:.1f} of {:.1f} GB may be taken, as {} allows",
                  static_cast<double>(*host.available_bytes) / kGb,
                  static_cast<double>(*host.total_bytes) / kGb, host.limited_by);
  const auto pressure = ReadMemoryPressure();
  if (pressure && pressure->some_avg10 >= 10) {
    return {Verdict::kWarning, "memory",
            fmt::format("{}; tasks waited for memory in {:.0f} % of the last 10 s", text,
                        pressure->some_avg10)};
  }
  return {Verdict::kGood, "memory", text};
}

Finding LookAtStore(const EngineOptions& options) {
  if (options.store_dir.empty()) {
    return {Verdict::kWarning, "store", "off: conversations end with the process (--store)"};
  }
  // The folder itself is for `serve` to make: what it will lie in answers for it.
  fs::path dir = fs::absolute(options.store_dir);
  std::error_code error;
  while (!fs::exists(dir, error) && dir.has_relative_path()) dir = dir.parent_path();
  const fs::space_info space = fs::space(dir, error);
  if (error) return {Verdict::kBad, "store", fmt::format("{}: {}", dir.string(), error.message())};
  const Result<TempFolder> probe = TempFolder::Create("doctor", dir.string());
  if (!probe.ok()) {
    return {Verdict::kBad, "store",
            fmt::format("{}; give another folder (--store) or the right to write",
                        probe.status().message())};
  }
  const uint64_t n_bytes = std::min<uint64_t>(kProbeBytes, space.available / 4);
  const Result<StoreSpeed> speed = MeasureStoreSpeed(
      {.dir = probe->path(), .n_bytes = n_bytes, .running_bytes = n_bytes / 8, .n_repeats = 1});
  if (!speed.ok()) return {Verdict::kBad, "store", speed.status().message()};
  return JudgeStoreFolder(options.store_dir, space.available, probe->in_memory(),
                          speed->save_bytes_per_s);
}

Status LoadTokenizer(const Model& model) {
  HF_ASSIGN_OR_RETURN(VocabularyData vocabulary, ReadVocabulary(model.file()));
  std::string chat_template = vocabulary.chat_template;
  HF_RETURN_IF_ERROR(Tokenizer::Create(std::move(vocabulary)).status());
  return ChatTemplate::Create(std::move(chat_template)).status();
}

// The model, and what of it fits.
void LookAtModel(const EngineOptions& options, const HostMemory& host,
                 std::vector<Finding>* findings) {
  const auto add = [&](Verdict verdict, std::string subject, std::string text) {
    findings->push_back({verdict, std::move(subject), std::move(text)});
  };
  const auto backend = CpuBackend::Create({.n_threads = options.n_threads,
                                           .kernels = options.kernels,
                                           .activations = options.activations});
  if (!backend.ok()) return;  // LookAtCpu has said so
  const auto model = Model::Load(
      options.model_path,
      {.mtp_path = options.mtp_path, .kv_format = options.kv_format, .max_rows = options.max_rows},
      backend->get());
  if (!model.ok()) return add(Verdict::kBad, "model", model.status().message());
  if (const Status status = OpenExpertFile(options.expert_memory, model->get()); !status.ok()) {
    return add(Verdict::kBad, "experts", status.message());
  }
  const ModelConfig& config = (*model)->config();
  const uint64_t weight_bytes = WeightSizesOf(**model).file_bytes;
  add(Verdict::kGood, "model",
      fmt::format("{}: {} layers, {} experts, {:.0f} MB, {}", options.model_path, config.n_layers,
                  config.n_experts, static_cast<double>(weight_bytes) / kMb,
                  config.n_mtp_layers > 0 ? "with a draft head" : "without a draft head"));
  if (const Status status = LoadTokenizer(**model); !status.ok()) {
    add(Verdict::kWarning, "tokenizer", status.message() + ": runs on token ids only");
  }
  const auto plan = MakeMemoryPlan(PlanInput(options, **model, host));
  if (!plan.ok()) return add(Verdict::kBad, "plan", plan.status().message());
  add(Verdict::kGood, "plan",
      fmt::format("a context of {} tokens, {} conversations at once\n{}", plan->ctx, plan->n_slots,
                  plan->table));
  for (const std::string& note : plan->notes) add(Verdict::kWarning, "plan", note);
  if (plan->weights.ngram_bytes > 0) {
    const Status status = (*model)->StreamNgramRows(
        {.memory_bytes = plan->weights.ngram_bytes, .reader = options.ngram_memory.reader});
    if (!status.ok()) return add(Verdict::kBad, "n-gram rows", status.message());
    add(Verdict::kGood, "n-gram rows", DescribeNgramRows((*model)->ngram_tier()->stats()));
  }
  if (plan->weights.arena_bytes > 0) {
    const ExpertTierOptions tier{.arena_bytes = plan->weights.arena_bytes,
                                 .reader = options.expert_memory.reader};
    const Status status = (*model)->StreamExperts(tier);
    if (!status.ok()) return add(Verdict::kBad, "experts", status.message());
    add(Verdict::kGood, "experts", DescribeExperts((*model)->expert_tier()->stats()));
  } else if (host.available_bytes && plan->weights.mapped_bytes > *host.available_bytes) {
    add(Verdict::kWarning, "model",
        "the weights do not fit into the memory that is free: they will be read from the disk "
        "again and again, which is slow (--expert-memory auto)");
  }
}

std::string_view Name(Verdict verdict) {
  constexpr std::array<std::string_view, 3> kNames = {"ok", "warning", "bad"};
  return kNames[static_cast<size_t>(verdict)];
}

void Print(const std::vector<Finding>& findings, std::ostream& out) {
  for (const Finding& finding : findings) {
    std::string text = finding.text;
    for (size_t i = text.find('\n'); i != std::string::npos; i = text.find('\n', i + 1)) {
      if (i + 1 == text.size()) break;
      text.insert(i + 1, "                      ");
    }
    if (text.ends_with('\n')) text.pop_back();
    fmt::print(out, "{:<8}  {:<10}  {}\n", Name(finding.verdict), finding.subject, text);
  }
}

void PrintJson(const std::vector<Finding>& findings, std::ostream& out) {
  nlohmann::ordered_json json{{"findings", nlohmann::ordered_json::array()}};
  for (const Finding& finding : findings) {
    json["findings"].push_back(
        {{"verdict", Name(finding.verdict)}, {"subject", finding.subject}, {"text", finding.text}});
  }
  out << json.dump() << "\n";
}

}  // namespace

Finding JudgeFileLimit(uint64_t soft_limit) {
  constexpr uint64_t kWanted = 4096;  // idle and slow clients are connections, too
  const std::string text = soft_limit == RLIM_INFINITY
                               ? "no limit on open files"
                               : fmt::format("{} open files at most", soft_limit);
  if (soft_limit >= kWanted) return {Verdict::kGood, "limits", text};
  return {Verdict::kWarning, "limits",
          fmt::format("{}: each connection is one, raise it (ulimit -n {}) where many clients come",
                      text, kWanted)};
}

Finding JudgeStoreFolder(const std::string& dir, uint64_t free_bytes, bool in_memory,
                         double save_bytes_per_s) {
  const std::string text =
      fmt::format("{}: {:.1f} GB free, saves {:.0f} MB/s", dir,
                  static_cast<double>(free_bytes) / kGb, save_bytes_per_s / kMb);
  if (in_memory) {
    return {Verdict::kWarning, "store",
            text + "; it lies in memory: nothing there outlives a restart of the machine"};
  }
  if (free_bytes < uint64_t{5} * 1000 * 1000 * 1000) {
    return {Verdict::kWarning, "store", text + "; little room, bound it (--cache-disk)"};
  }
  if (save_bytes_per_s < 50 * kMb) {
    return {Verdict::kWarning, "store", text + "; a slow disk: ends of turns are late on it"};
  }
  return {Verdict::kGood, "store", text};
}

Status RunDoctor(const DoctorOptions& options, std::ostream& out) {
  HF_ASSIGN_OR_RETURN(EngineOptions engine, ToEngineOptions(options.model));
  engine.n_slots = options.slots;
  HF_RETURN_IF_ERROR(engine.Validate());
  HF_RETURN_IF_ERROR(ApplyCacheOptions(options.cache, &engine));
  const HostMemory host = ReadHostMemory();
  std::vector<Finding> findings = {LookAtCpu(engine), LookAtMemory(host)};
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) findings.push_back(JudgeFileLimit(files.rlim_cur));
  findings.push_back(LookAtStore(engine));
  LookAtModel(engine, host, &findings);
  options.json ? PrintJson(findings, out) : Print(findings, out);
  const auto bad = std::count_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.verdict == Verdict::kBad;
  });
  return bad == 0 ? OkStatus()
                  : FailedPreconditionError(fmt::format("{} of {} would keep `serve` from working",
                                                        bad, findings.size()));
}

}  // namespace holdfast::cli

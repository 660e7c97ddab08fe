#include "cli/verify.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/cache_options.h"
#include "server/json.h"
#include "verify/verify.h"

namespace holdfast::cli {
namespace {

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSame:
      return "same";
    case Verdict::kDifferent:
      return "DIFFERENT";
    case Verdict::kSkipped:
      return "skipped";
  }
  return "?";
}

Json ToJson(const Difference& d) {
  Json json;
  json["case"] = d.case_name;
  if (d.conversation >= 0) json["conversation"] = d.conversation;
  if (d.position >= 0) json["position"] = d.position;
  if (d.layer >= 0) json["layer"] = d.layer;
  if (!d.part.empty()) json["part"] = d.part;
  json["detail"] = d.detail;
  return json;
}

Json ToJson(const ProofReport& report) {
  Json json;
  json["model"] = report.model;
  json["seed"] = report.seed;
  json["same"] = !report.difference.has_value();
  json["cases"] = Json::array();
  for (const CaseReport& c : report.cases) {
    Json one;
    one["name"] = c.name;
    one["verdict"] = std::string(VerdictName(c.verdict));
    one["requests"] = c.n_requests;
    one["rows"] = c.n_rows;
    one["parts"] = c.n_parts;
    one["seconds"] = c.seconds;
    if (!c.note.empty()) one["note"] = c.note;
    json["cases"].push_back(std::move(one));
  }
  if (report.difference) json["difference"] = ToJson(*report.difference);
  return json;
}

// A table that grows with the cases; on a terminal its last line says what runs now.
VerifyProgress TableProgress(std::ostream& out) {
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  VerifyProgress progress;
  progress.on_plan = [&out](const std::string& plan) {
    out << plan
        << fmt::format("\n{:<42} {:>8} {:>10} {:>8}  {}\n", "case", "rows", "parts", "seconds",
                       "verdict")
        << std::flush;
  };
  progress.on_begin = [terminal](const std::string& name, int index, int n_cases) {
    if (!terminal) return;
    fmt::print(stderr, "[{}/{}] {} ...", index + 1, n_cases, name);
    std::fflush(stderr);
  };
  progress.on_case = [&out, terminal](const CaseReport& c) {
    if (terminal) fmt::print(stderr, "\r\033[K");
    std::string verdict(VerdictName(c.verdict));
    if (c.verdict == Verdict::kSkipped) verdict += ": " + c.note;
    out << fmt::format("{:<42} {:>8} {:>10} {:>8.1f}  {}\n", c.name, c.n_rows, c.n_parts, c.seconds,
                       verdict)
        << std::flush;
  };
  return progress;
}

}  // namespace

Status RunVerifyCommand(const VerifyCommandOptions& options, std::ostream& out) {
  if (!options.restored_part.empty()) return RunRestoredPart(options.restored_part);
  HF_ASSIGN_OR_RETURN(const EngineOptions engine, ToEngineOptions(options.model));
  VerifyOptions verify{.model_path = engine.model_path,
                       .mtp_path = engine.mtp_path,
                       .kv_format = engine.kv_format,
                       .cpu = {.n_threads = engine.n_threads,
                               .kernels = engine.kernels,
                               .activations = engine.activations},
                       .quick = options.quick,
                       .only = options.only,
                       .seed = options.seed,
                       .new_process = {"/proc/self/exe", "verify", "--restored-part"}};
  verify.expert_memory = engine.expert_memory;
  verify.ngram_memory = engine.ngram_memory;
  EngineOptions memory;  // read as `serve` reads them
  HF_RETURN_IF_ERROR(ApplyCacheOptions({.cache_min_free = options.cache_min_free,
                                        .memory_limit = options.memory_limit,
                                        .store = "off"},
                                       &memory));
  verify.min_free_bytes = memory.min_free_bytes;
  verify.memory_limit_bytes = memory.memory_limit_bytes;
  std::error_code no_link;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", no_link);
  if (!no_link) verify.new_process[0] = self.string();
  HF_ASSIGN_OR_RETURN(const ProofReport report,
                      RunVerify(verify, options.json ? VerifyProgress() : TableProgress(out)));
  if (options.json) out << ToText(ToJson(report)) << "\n";
  if (report.difference) {
    return InternalError("different: " + report.difference->Describe() +
                         fmt::format(" (--seed {})", options.seed));
  }
  if (!options.json) {
    int64_t n_rows = 0, n_parts = 0;
    double seconds = 0;
    for (const CaseReport& c : report.cases) {
      n_rows += c.n_rows;
      n_parts += c.n_parts;
      seconds += c.seconds;
    }
    out << fmt::format("same bits: {} rows and {} parts of states compared in {:.1f} s\n", n_rows,
                       n_parts, seconds);
  }
  return OkStatus();
}

}  // namespace holdfast::cli

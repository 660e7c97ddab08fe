#include "verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/host_memory.h"
#include "base/temp_folder.h"
#include "engine/memory_plan.h"
#include "verify/case_context.h"

namespace holdfast {
namespace {

constexpr int kMostSlots = 8;
// The one compared with, another one, and that of another process; each has its own experts.
constexpr uint64_t kMostRigs = 3;

std::string MiB(uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string DescribePlan(const VerifyOptions& options, const VerifySizes& sizes, Model& model,
                         const MemoryPlan& memory) {
  const StateLayout* draft = model.draft_layout();
  const uint64_t scratch = model.buffer_bytes();
  const auto part = [](uint64_t bytes) {
    return bytes == 0 ? std::string("with them") : MiB(bytes) + " (for three rigs)";
  };
  std::string text = fmt::format(
      "{} conversations of {} to {} random tokens (seed {}), replies of {}, half of them sampled\n"
      "memory: weights {} (mapped, once), experts {}, n-gram rows {},\n"
      "        scratch {} (twice while another rig computes),\n"
      "        {} slots of {} tokens {}, parked {}; a running state is {}\n",
      sizes.prompts.size() + 1, *std::ranges::min_element(sizes.prompts), sizes.long_prompt,
      options.seed, sizes.reply, MiB(memory.weights.mapped_bytes), part(memory.weights.arena_bytes),
      part(memory.weights.ngram_bytes), MiB(scratch), memory.n_slots, sizes.ctx(),
      MiB(memory.work_bytes), MiB(memory.cache_bytes),
      MiB(model.layout().running_bytes() + (draft ? draft->running_bytes() : 0)));
  for (const std::string& note : memory.notes) text += "note: " + note + "\n";
  return text;
}

std::vector<VerifyCase> AllCases(const VerifyOptions& options) {
  std::vector<VerifyCase> cases;
  AddTogetherCases(options, &cases);
  AddReuseCases(&cases);
  AddDiskCases(&cases);
  AddComputeCases(options, &cases);
  return cases;
}

}  // namespace

Result<ProofReport> RunVerify(const VerifyOptions& options, const VerifyProgress& progress) {
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<Rig> rig, Rig::Create(options, options.cpu));
  Model& model = rig->model();
  const StateLayout& layout = model.layout();
  const VerifySizes sizes =
      options.sizes.value_or(VerifySizes::For(options.quick, model.config().context_length));
  HF_ASSIGN_OR_RETURN(
      MemoryPlan memory,
      MakeMemoryPlan({.host = ReadHostMemory(),
                      .min_free_bytes = options.min_free_bytes,
                      .memory_limit_bytes = options.memory_limit_bytes,
                      .weights = WeightSizesOf(model),
                      .expert_memory = options.expert_memory,
                      .ngram_memory = options.ngram_memory,
                      .repack = RepackMode::kOff,  // three rigs would make three copies
                      .scratch_bytes = 2 * model.buffer_bytes(),
                      .trunk = &layout,
                      .draft = model.draft_layout(),
                      .trained_ctx = model.config().context_length,
                      .ctx = sizes.ctx(),
                      .n_slots = kMostSlots}));
  memory.cache_bytes = std::min(memory.cache_bytes, 2 * memory.work_bytes);
  VerifyOptions rig_options = options;
  rig_options.expert_arena_bytes = memory.weights.arena_bytes / kMostRigs;
  if (memory.weights.ngram_bytes > 0) {
    rig_options.ngram_bytes =
        std::max(memory.weights.ngram_bytes / kMostRigs, WeightSizesOf(model).ngram.least_bytes());
  }
  HF_RETURN_IF_ERROR(rig->StreamWeights(rig_options));
  ProofReport report{.model = std::filesystem::path(options.model_path).filename().string(),
                     .plan = DescribePlan(options, sizes, model, memory),
                     .seed = options.seed};
  if (progress.on_plan) progress.on_plan(report.plan);

  Ledger ledger(&layout, model.draft_layout());
  rig->Attach(&ledger);
  HF_ASSIGN_OR_RETURN(const TempFolder temp, TempFolder::Create("verify"));
  CaseContext context(rig_options, sizes, rig.get(), &ledger, temp.path(), memory.n_slots,
                      memory.work_bytes, memory.cache_bytes);
  std::vector<VerifyCase> cases = AllCases(options);
  std::erase_if(
      cases, [&](const VerifyCase& c) { return c.name.find(options.only) == std::string::npos; });
  if (cases.empty()) {
    return InvalidArgumentError(fmt::format("no case has '{}' in its name", options.only));
  }
  cases.insert(cases.begin(), {"alone (what the others are compared with)",
                               [](CaseContext& ctx) { return ctx.PrepareTalks(); }});
  const int n_cases = static_cast<int>(cases.size());
  for (int i = 0; i < n_cases; ++i) {
    if (progress.on_begin) progress.on_begin(cases[i].name, i, n_cases);
    HF_ASSIGN_OR_RETURN(CaseReport one, context.Run(cases[i].name, cases[i].body));
    report.cases.push_back(one);
    if (progress.on_case) progress.on_case(one);
    report.difference = context.difference();
    if (report.difference) break;
  }
  return report;
}

}  // namespace holdfast

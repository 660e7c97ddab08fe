#include "engine/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace holdfast {
namespace {

// Running states of a bound conversation: its own and the four checkpoints it may keep however
// short it is. Those that its length pays for live in the cache's part; where there is none they
// are given up.
constexpr uint64_t kRunningPerSlot = 5;

std::string Size(uint64_t bytes) {
  constexpr double kMiB = 1024.0 * 1024.0;
  if (bytes >= (uint64_t{1} << 30)) return fmt::format("{:.2f} GiB", bytes / (1024.0 * kMiB));
  return fmt::format("{:.1f} MiB", bytes / kMiB);
}

struct StateSizes {
  uint64_t page = 0, running = 0;
  int page_tokens = 0;
  uint64_t Slot(int64_t ctx) const {
    return (ctx + page_tokens - 1) / page_tokens * page + kRunningPerSlot * running;
  }
};

StateSizes SizesOf(const MemoryPlanInput& input) {
  StateSizes sizes{input.trunk->page_bytes(), input.trunk->running_bytes(),
                   input.trunk->page_tokens()};
  if (input.draft != nullptr) {
    sizes.page += input.draft->page_bytes();
    sizes.running += input.draft->running_bytes();
  }
  return sizes;
}

// What weights and state may take: what the host has, less our scratch and what must stay free.
Result<uint64_t> Room(const MemoryPlanInput& input) {
  if (!input.host.available_bytes && !input.memory_limit_bytes) {
    return ResourceExhaustedError(
        fmt::format("how much memory is free is unknown ({}); say how much may be used with "
                    "--memory-limit",
                    input.host.limited_by));
  }
  uint64_t room = input.host.available_bytes.value_or(*input.memory_limit_bytes);
  if (input.memory_limit_bytes) room = std::min(room, *input.memory_limit_bytes);
  const uint64_t taken = input.scratch_bytes + input.min_free_bytes;
  return room > taken ? room - taken : 0;
}

// Experts that fit beside one conversation of this many tokens (or those asked for) are mapped;
// where they do not, conversations get a quarter of what the other weights leave.
constexpr int64_t kLeastContext = 8192;

Result<WeightPlan> ChooseWeights(const MemoryPlanInput& input, const StateSizes& sizes,
                                 uint64_t room) {
  const WeightSizes& weights = input.weights;
  const uint64_t dense =
      weights.file_bytes - weights.ngram.table_bytes - weights.experts.file_bytes;
  uint64_t least = sizes.Slot(std::min(input.trained_ctx, kLeastContext));
  uint64_t share = std::max(least, room > dense ? (room - dense) / 4 : 0);
  if (input.ctx > 0) {
    least = input.n_slots * sizes.Slot(input.ctx) + input.cache_ram_bytes.value_or(0);
    share = least;
  }
  return PlanWeights(input.expert_memory, input.ngram_memory, weights, room, least, share);
}

// What is left when weights are repacked, if they are.
uint64_t PlanRepack(const MemoryPlanInput& input, uint64_t left, MemoryPlan* plan) {
  const Model::RepackSizes& sizes = input.weights.repack;
  const uint64_t free = left - std::min(left, input.cache_ram_bytes.value_or(0));
  if (!ShouldRepack(input.repack, sizes, free)) {
    if (input.repack == RepackMode::kOn && sizes.copy_bytes > 0) {
      plan->notes.push_back(fmt::format(
          "--repack: weights stay as they are, {} of them would take {} and {} are left",
          Size(sizes.file_bytes), Size(sizes.copy_bytes), Size(free)));
    }
    return left;
  }
  plan->weights.mapped_bytes -= sizes.file_bytes;
  plan->weights.repacked_bytes = sizes.copy_bytes;
  return left + sizes.file_bytes - sizes.copy_bytes;
}

std::string WeightLines(const MemoryPlanInput& input, const WeightPlan& plan) {
  std::string text = fmt::format("  weights (mapped)      {:>12}\n", Size(plan.mapped_bytes));
  if (plan.arena_bytes > 0) {
    const int64_t n = input.weights.experts.n_experts;
    text +=
        fmt::format("  experts in memory     {:>12}  ({} of {}, {:.0f} %; the others are read)\n",
                    Size(plan.arena_bytes), plan.n_slots, n,
                    100.0 * static_cast<double>(plan.n_slots) / static_cast<double>(n));
  }
  if (plan.repacked_bytes > 0) {
    text += fmt::format("  weights (repacked)    {:>12}  ({} in the file; --repack)\n",
                        Size(plan.repacked_bytes), Size(input.weights.repack.file_bytes));
  }
  if (plan.ngram_bytes > 0) {
    const NgramSizes& ngram = input.weights.ngram;
    text += fmt::format("  n-gram rows in memory {:>12}  ({} of {}; the others are read)\n",
                        Size(plan.ngram_bytes),
                        (plan.ngram_bytes - ngram.buffer_bytes) / ngram.slot_bytes, ngram.n_rows);
  }
  if (plan.table_bytes > 0) {
    text +=
        fmt::format("  n-gram table          {:>12}  (mapped, not counted: few rows are used)\n",
                    Size(plan.table_bytes));
  }
  return text;
}

}  // namespace

uint64_t StepScratchBytes(const ModelConfig& config, int64_t max_rows) {
  const uint64_t row = 3 * config.hc_width() + 2 * config.hidden_size +
                       std::max(config.gdn_conv_channels() * 2 + 2 * config.gdn_value_width(),
                                int64_t{config.n_heads} * config.head_dim * 4) +
                       2 * config.n_experts_used * config.expert_ffn;
  return (row * max_rows + 33 * config.vocab_size) * sizeof(float);
}

Result<MemoryPlan> MakeMemoryPlan(const MemoryPlanInput& input) {
  const StateSizes sizes = SizesOf(input);
  HF_ASSIGN_OR_RETURN(const uint64_t room_for_all, Room(input));
  MemoryPlan plan;
  HF_ASSIGN_OR_RETURN(plan.weights, ChooseWeights(input, sizes, room_for_all));
  const uint64_t weight_bytes =
      plan.weights.mapped_bytes + plan.weights.arena_bytes + plan.weights.ngram_bytes;
  const uint64_t room = room_for_all > weight_bytes ? room_for_all - weight_bytes : 0;
  plan.ctx = input.ctx > 0 ? input.ctx : input.trained_ctx;
  plan.n_slots = input.n_slots;
  plan.scratch_bytes = input.scratch_bytes;
  plan.min_free_bytes = input.min_free_bytes;
  plan.available_bytes = input.host.available_bytes;

  const auto arithmetic = [&] {
    return fmt::format(
        "{} available ({}) - {} weights - {} scratch - {} to stay free = {} for conversations",
        input.host.available_bytes ? Size(*input.host.available_bytes) : "unknown",
        input.host.limited_by.empty() ? "host" : input.host.limited_by, Size(weight_bytes),
        Size(input.scratch_bytes), Size(input.min_free_bytes), Size(room));
  };
  if (sizes.Slot(1) > room) {
    return ResourceExhaustedError(
        fmt::format("not enough memory for one conversation: {}, and the "
                    "smallest one takes {}",
                    arithmetic(), Size(sizes.Slot(1))));
  }
  if (sizes.Slot(plan.ctx) > room) {
    const uint64_t pages = (room - kRunningPerSlot * sizes.running) / sizes.page;
    const int64_t fits = static_cast<int64_t>(pages) * sizes.page_tokens;
    if (input.ctx > 0) {
      return ResourceExhaustedError(
          fmt::format("a context of {} tokens takes {}: {}; {} tokens fit (--ctx)", input.ctx,
                      Size(sizes.Slot(input.ctx)), arithmetic(), fits));
    }
    plan.notes.push_back(
        fmt::format("context reduced from {} to {} tokens: {}", plan.ctx, fits, arithmetic()));
    plan.ctx = fits;
  }
  const uint64_t slots_that_fit = room / sizes.Slot(plan.ctx);
  if (slots_that_fit < static_cast<uint64_t>(plan.n_slots)) {
    plan.notes.push_back(fmt::format("slots reduced from {} to {}: each takes up to {}, {}",
                                     plan.n_slots, slots_that_fit, Size(sizes.Slot(plan.ctx)),
                                     arithmetic()));
    plan.n_slots = static_cast<int>(slots_that_fit);
  }
  plan.work_bytes = plan.n_slots * sizes.Slot(plan.ctx);
  uint64_t left = room - plan.work_bytes;
  if (plan.weights.arena_bytes == 0) left = PlanRepack(input, left, &plan);
  // By itself the cache takes half of what is left: files and other programs want memory too.
  plan.cache_bytes = input.cache_ram_bytes ? std::min(*input.cache_ram_bytes, left) : left / 2;
  if (input.cache_ram_bytes && plan.cache_bytes < *input.cache_ram_bytes) {
    plan.notes.push_back(fmt::format("--cache-ram reduced from {} to {}: {}, {} of it for {} slots",
                                     Size(*input.cache_ram_bytes), Size(plan.cache_bytes),
                                     arithmetic(), Size(plan.work_bytes), plan.n_slots));
  }

  const uint64_t parked_30k = sizes.Slot(30000);
  plan.table = WeightLines(input, plan.weights);
  plan.table += fmt::format(
      "  scratch               {:>12}\n"
      "  {:>2} slots of {:>7} tok {:>12}  (pages as they are needed, running state {} each)\n"
      "  parked conversations  {:>12}  (about {} of 30K tokens)\n"
      "  stays free            {:>12}\n"
      "  available             {:>12}  ({})\n",
      Size(input.scratch_bytes), plan.n_slots, plan.ctx, Size(plan.work_bytes), Size(sizes.running),
      Size(plan.cache_bytes), plan.cache_bytes / parked_30k, Size(input.min_free_bytes),
      input.host.available_bytes ? Size(*input.host.available_bytes) : "unknown",
      input.host.limited_by.empty() ? "host" : input.host.limited_by);
  return plan;
}

}  // namespace holdfast

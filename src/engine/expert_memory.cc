#include "engine/expert_memory.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/host_memory.h"

namespace holdfast {
namespace {

constexpr uint64_t kMinFreeBytes = uint64_t{1} << 30;
// Fewer slots than this are possible, and slow: a token of the released model uses 10 a layer.
constexpr uint64_t kFewestSlots = 32;

uint64_t Less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

}  // namespace

Status OpenExpertFile(const ExpertMemory& memory, Model* model) {
  if (memory.file.empty()) return OkStatus();
  const Status status = model->UseExpertFile(memory.file);
  if (status.ok() || memory.file_required) return status;
  spdlog::warn("experts are read from the model's own file: {}", status.message());
  return OkStatus();
}

WeightSizes WeightSizesOf(const Model& model) {
  WeightSizes sizes{.file_bytes = model.file().file_bytes(),
                    .experts = SizesOf(model.expert_layers())};
  if (model.mtp_file() != nullptr) sizes.file_bytes += model.mtp_file()->file_bytes();
  sizes.ngram = SizesOf(model.ngram_table());
  sizes.repack = model.repack_sizes();
  return sizes;
}

Result<WeightPlan> PlanWeights(const ExpertMemory& memory, const NgramMemory& ngram,
                               const WeightSizes& sizes, uint64_t room, uint64_t least_state,
                               uint64_t state_share) {
  const ExpertSizes& experts = sizes.experts;
  const uint64_t most_slots = static_cast<uint64_t>(experts.n_experts);
  const uint64_t table_bytes = sizes.ngram.table_bytes;
  const uint64_t dense_bytes = sizes.file_bytes - experts.file_bytes - table_bytes;
  const bool sized = memory.kind == ExpertMemory::Kind::kSize && experts.n_experts > 0;
  uint64_t n_slots = sized ? std::min(memory.bytes / experts.slot_bytes, most_slots) : 0;
  if (sized && n_slots == 0) {
    return InvalidArgumentError(fmt::format("--expert-memory: {} bytes, one expert takes {}",
                                            memory.bytes, experts.slot_bytes));
  }
  const uint64_t expert_bytes = sized ? n_slots * experts.slot_bytes : experts.file_bytes;
  WeightPlan plan;
  HF_ASSIGN_OR_RETURN(plan.ngram_bytes, PlanNgramRows(ngram, sizes.ngram, room,
                                                      dense_bytes + expert_bytes + least_state));
  const uint64_t mapped_table = plan.ngram_bytes > 0 ? 0 : table_bytes;
  plan.mapped_bytes = dense_bytes + mapped_table;
  const bool fits = plan.mapped_bytes + experts.file_bytes + plan.ngram_bytes + least_state <= room;
  if (!sized && (memory.kind == ExpertMemory::Kind::kAll || experts.n_experts == 0 || fits)) {
    plan.mapped_bytes += experts.file_bytes;
    return plan;
  }
  if (ngram.kind == NgramMemory::Kind::kAll) {
    plan.mapped_bytes = dense_bytes;
    plan.table_bytes = table_bytes;
  }
  if (!sized) {
    const uint64_t others = plan.mapped_bytes + plan.ngram_bytes + state_share;
    n_slots = std::min(std::max(Less(room, others) / experts.slot_bytes, kFewestSlots), most_slots);
  }
  plan.n_slots = static_cast<int64_t>(n_slots);
  plan.arena_bytes = n_slots * experts.slot_bytes;
  return plan;
}

uint64_t WeightBytesInMemory(const Model& model) {
  const WeightSizes sizes = WeightSizesOf(model);
  const ExpertTier* const experts = model.expert_tier();
  const NgramTier* const ngram = model.ngram_tier();
  const Model::RepackSizes& repacked = model.repacked();
  uint64_t bytes = sizes.file_bytes - repacked.file_bytes + repacked.copy_bytes;
  if (experts != nullptr) bytes += experts->stats().arena_bytes - sizes.experts.file_bytes;
  // Beside experts that are read a mapped table does not count.
  if (experts != nullptr || ngram != nullptr) bytes -= sizes.ngram.table_bytes;
  if (ngram != nullptr) bytes += ngram->stats().memory_bytes;
  return bytes;
}

Status PlaceWeights(const ExpertMemory& memory, const NgramMemory& ngram, RepackMode repack,
                    std::optional<uint64_t> memory_limit_bytes, Model* model) {
  HF_RETURN_IF_ERROR(OpenExpertFile(memory, model));
  const HostMemory host = ReadHostMemory();
  // Where nothing is known nothing is taken, as ever.
  uint64_t room = host.available_bytes.value_or(memory_limit_bytes.value_or(UINT64_MAX));
  room = std::min(room, memory_limit_bytes.value_or(UINT64_MAX));
  room = Less(room, kMinFreeBytes);
  HF_ASSIGN_OR_RETURN(const WeightPlan plan, PlanWeights(memory, ngram, WeightSizesOf(*model), room,
                                                         /*least_state=*/0, room / 4));
  if (plan.ngram_bytes > 0) {
    HF_RETURN_IF_ERROR(
        model->StreamNgramRows({.memory_bytes = plan.ngram_bytes, .reader = ngram.reader}));
  }
  if (plan.arena_bytes > 0) {
    return model->StreamExperts({.arena_bytes = plan.arena_bytes, .reader = memory.reader});
  }
  const uint64_t left = Less(room, plan.mapped_bytes + plan.ngram_bytes + room / 4);
  if (!ShouldRepack(repack, model->repack_sizes(), left)) return OkStatus();
  return model->RepackWeights([](double) {});
}

std::string DescribeExperts(const ExpertTierStats& stats) {
  return fmt::format("{} of {} in memory ({:.0f} %), the others are read by {}", stats.n_slots,
                     stats.n_experts,
                     100.0 * static_cast<double>(stats.n_slots) /
                         static_cast<double>(std::max<int64_t>(stats.n_experts, 1)),
                     stats.reader);
}

}  // namespace holdfast

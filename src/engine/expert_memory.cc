#include "engine/expert_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/host_memory.h"

namespace holdfast {
namespace {

constexpr uint64_t kMinFreeBytes = uint64_t{1} << 30;
// Fewer slots than this are possible, and slow: a token of the released model uses 10 a layer.
constexpr uint64_t kFewestSlots = 32;

uint64_t Less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

}  // namespace

WeightSizes WeightSizesOf(const Model& model) {
  WeightSizes sizes{.file_bytes = model.file().file_bytes(),
                    .experts = SizesOf(model.expert_layers())};
  if (model.mtp_file() != nullptr) sizes.file_bytes += model.mtp_file()->file_bytes();
  const GgufTensor* const table = model.file().FindTensor("per_layer_token_embd.weight");
  if (table != nullptr) sizes.table_bytes = table->data.size();
  return sizes;
}

Result<WeightPlan> PlanWeights(const ExpertMemory& memory, const WeightSizes& sizes, uint64_t room,
                               uint64_t least_state, uint64_t state_share) {
  const ExpertSizes& experts = sizes.experts;
  const bool fits = sizes.file_bytes + least_state <= room;
  if (memory.kind == ExpertMemory::Kind::kAll || experts.n_experts == 0 ||
      (memory.kind == ExpertMemory::Kind::kAuto && fits)) {
    return WeightPlan{.mapped_bytes = sizes.file_bytes};
  }
  WeightPlan plan{.mapped_bytes = sizes.file_bytes - experts.file_bytes - sizes.table_bytes,
                  .table_bytes = sizes.table_bytes};
  const uint64_t most = static_cast<uint64_t>(experts.n_experts);
  uint64_t n_slots = memory.bytes / experts.slot_bytes;
  if (memory.kind == ExpertMemory::Kind::kAuto) {
    n_slots =
        std::max(Less(room, plan.mapped_bytes + state_share) / experts.slot_bytes, kFewestSlots);
  } else if (n_slots == 0) {
    return InvalidArgumentError(fmt::format("--expert-memory: {} bytes, one expert takes {}",
                                            memory.bytes, experts.slot_bytes));
  }
  plan.n_slots = static_cast<int64_t>(std::min(n_slots, most));
  plan.arena_bytes = static_cast<uint64_t>(plan.n_slots) * experts.slot_bytes;
  return plan;
}

uint64_t WeightBytesInMemory(const Model& model) {
  const WeightSizes sizes = WeightSizesOf(model);
  if (model.expert_tier() == nullptr) return sizes.file_bytes;
  return sizes.file_bytes - sizes.experts.file_bytes - sizes.table_bytes +
         model.expert_tier()->stats().arena_bytes;
}

Status PlaceExperts(const ExpertMemory& memory, std::optional<uint64_t> memory_limit_bytes,
                    Model* model) {
  if (memory.kind == ExpertMemory::Kind::kAll) return OkStatus();
  const HostMemory host = ReadHostMemory();
  // Where nothing is known nothing is taken, as ever.
  uint64_t room = host.available_bytes.value_or(memory_limit_bytes.value_or(UINT64_MAX));
  room = std::min(room, memory_limit_bytes.value_or(UINT64_MAX));
  room = Less(room, kMinFreeBytes);
  HF_ASSIGN_OR_RETURN(const WeightPlan plan, PlanWeights(memory, WeightSizesOf(*model), room,
                                                         /*least_state=*/0, room / 4));
  if (plan.arena_bytes == 0) return OkStatus();
  return model->StreamExperts({.arena_bytes = plan.arena_bytes, .reader = memory.reader});
}

std::string DescribeExperts(const ExpertTierStats& stats) {
  return fmt::format("{} of {} in memory ({:.0f} %), the others are read by {}", stats.n_slots,
                     stats.n_experts,
                     100.0 * static_cast<double>(stats.n_slots) /
                         static_cast<double>(std::max<int64_t>(stats.n_experts, 1)),
                     stats.reader);
}

}  // namespace holdfast

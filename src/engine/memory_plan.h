#ifndef HOLDFAST_ENGINE_MEMORY_PLAN_H_
#define HOLDFAST_ENGINE_MEMORY_PLAN_H_

// What will be allocated, decided and printed before anything is (promise P3). Pure arithmetic.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/host_memory.h"
#include "base/status.h"
#include "engine/expert_memory.h"
#include "state/cache_params.h"
#include "state/layout.h"
#include "weights/model_config.h"

namespace holdfast {

struct MemoryPlanInput {
  HostMemory host;
  uint64_t min_free_bytes = 0;
  std::optional<uint64_t> memory_limit_bytes;  // operator's limit on this process
  WeightSizes weights;
  ExpertMemory expert_memory;
  NgramMemory ngram_memory;
  RepackMode repack = RepackMode::kAuto;
  uint64_t scratch_bytes = 0;
  const StateLayout* trunk = nullptr;
  const StateLayout* draft = nullptr;  // null: none
  int64_t trained_ctx = 0;
  int64_t ctx = 0;  // asked for; 0: trained, or what fits
  int n_slots = 4;
  std::optional<uint64_t> cache_ram_bytes;  // asked for; none: auto
};

struct MemoryPlan {
  int64_t ctx = 0;
  int n_slots = 0;
  uint64_t work_bytes = 0;   // pages and running states of bound conversations
  uint64_t cache_bytes = 0;  // of parked ones
  WeightPlan weights;
  // What it was made of, as in the input.
  uint64_t scratch_bytes = 0, min_free_bytes = 0;
  std::optional<uint64_t> available_bytes;  // at start; none: unknown
  std::vector<std::string> notes;           // what was reduced, and why
  std::string table;                        // for people
};

// Rough: what a step of so many rows needs beside the model's own buffers.
uint64_t StepScratchBytes(const ModelConfig& config, int64_t max_rows);

// kResourceExhausted with the arithmetic when not even one slot of one page fits, or when the
// host's memory is unknown and nothing was said by hand.
Result<MemoryPlan> MakeMemoryPlan(const MemoryPlanInput& input);

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_MEMORY_PLAN_H_

#include "engine/plan_input.h"

namespace holdfast {

MemoryPlanInput PlanInput(const EngineOptions& options, const Model& model,
                          const HostMemory& host) {
  return {.host = host,
          .min_free_bytes = options.min_free_bytes,
          .memory_limit_bytes = options.memory_limit_bytes,
          .weights = WeightSizesOf(model),
          .expert_memory = options.expert_memory,
          .ngram_memory = options.ngram_memory,
          .repack = options.repack,
          .scratch_bytes = StepScratchBytes(model.config(), options.max_rows),
          .trunk = &model.layout(),
          .draft = options.drafts_by_head() ? model.draft_layout() : nullptr,
          .trained_ctx = model.config().context_length,
          .ctx = options.ctx,
          .n_slots = options.n_slots,
          .cache_ram_bytes = options.cache_ram_bytes};
}

}  // namespace holdfast

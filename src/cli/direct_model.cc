#include "cli/direct_model.h"

#include <optional>

#include "engine/expert_memory.h"

namespace holdfast::cli {

Result<DirectModel> LoadDirect(const ModelOptions& options, int64_t max_rows) {
  HF_ASSIGN_OR_RETURN(const EngineOptions engine, ToEngineOptions(options));
  DirectModel direct;
  HF_ASSIGN_OR_RETURN(direct.backend, CpuBackend::Create({.n_threads = engine.n_threads,
                                                          .kernels = engine.kernels,
                                                          .activations = engine.activations}));
  HF_ASSIGN_OR_RETURN(
      direct.model,
      Model::Load(engine.model_path, {.kv_format = engine.kv_format, .max_rows = max_rows},
                  direct.backend.get()));
  HF_RETURN_IF_ERROR(PlaceWeights(engine.expert_memory, engine.ngram_memory, engine.repack,
                                  std::nullopt, direct.model.get()));
  return direct;
}

}  // namespace holdfast::cli

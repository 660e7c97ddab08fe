#ifndef HOLDFAST_ENGINE_STATE_PROVER_H_
#define HOLDFAST_ENGINE_STATE_PROVER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "model/model.h"
#include "store/store_types.h"

namespace holdfast {

// Computes the row that a state is proved by: the final mixed row of the token behind it, on trial
// (the running state stays as it is; cells beyond `tokens` are written).
//
// Threads: the engine's.
class StateProver {
 public:
  // `model` outlives it.
  static Result<StateProver> Create(Model* model);

  // `running`: of `tokens`. `pages`: of them and one more.
  Result<StateProof> Prove(std::span<const int32_t> tokens, int32_t next_token, Buffer* running,
                           std::span<Buffer* const> pages);

 private:
  StateProver(Model* model, std::unique_ptr<Buffer> log) : model_(model), log_(std::move(log)) {}

  Model* model_;
  std::unique_ptr<Buffer> log_;
};

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_STATE_PROVER_H_

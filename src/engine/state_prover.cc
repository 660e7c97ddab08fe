#include "engine/state_prover.h"

#include <utility>

#include "base/hash128.h"

namespace holdfast {

Result<StateProver> StateProver::Create(Model* model) {
  HF_ASSIGN_OR_RETURN(auto log, model->backend()->Allocate(model->log_bytes()));
  return StateProver(model, std::move(log));
}

Result<StateProof> StateProver::Prove(std::span<const int32_t> tokens, int32_t next_token,
                                      Buffer* running, std::span<Buffer* const> pages) {
  std::vector<float> logits(model_->config().vocab_size), mixed(model_->config().hidden_size);
  std::vector<int32_t> all(tokens.begin(), tokens.end());
  all.push_back(next_token);
  HF_RETURN_IF_ERROR(
      model_->Forward({.sequences = {{.tokens = all,
                                      .first_position = static_cast<int64_t>(tokens.size()),
                                      .running = running,
                                      .pages = pages,
                                      .log = log_.get()}},
                       .output_rows = {0}},
                      logits, mixed));
  return StateProof{.next_token = next_token, .row = Hash128Of(std::as_bytes(std::span(mixed)))};
}

}  // namespace holdfast

#ifndef HOLDFAST_CLI_DIRECT_MODEL_H_
#define HOLDFAST_CLI_DIRECT_MODEL_H_

#include <memory>

#include "cli/model_options.h"
#include "model/model.h"
#include "ops/cpu/cpu_backend.h"

namespace holdfast::cli {

// A model without an engine around it, for commands that read rows of logits. Needs no tokenizer.
struct DirectModel {
  std::unique_ptr<CpuBackend> backend;
  std::unique_ptr<Model> model;  // destroyed first
};

// max_rows: of one step.
Result<DirectModel> LoadDirect(const ModelOptions& options,
                               int64_t max_rows = ::holdfast::ModelOptions().max_rows);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_DIRECT_MODEL_H_

#ifndef HOLDFAST_BENCH_TOKEN_WORK_H_
#define HOLDFAST_BENCH_TOKEN_WORK_H_

// What a token costs at least: bytes of the file's tensors and of the conversation's state that a
// step must read, and operations of its products. From the file and the layout alone.

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "model/model.h"
#include "state/layout.h"
#include "weights/model_config.h"
#include "weights/model_weights.h"

namespace holdfast {

struct TokenWork {
  // Read once by a step, whatever its rows: everything but embeddings, n-gram tables and experts.
  uint64_t dense_bytes = 0;
  uint64_t output_bytes = 0;           // of dense_bytes, only where logits are wanted
  uint64_t row_bytes = 0;              // gathered for each row: embedding and n-grams
  std::vector<uint64_t> expert_bytes;  // one routed expert, for each layer
  // Multiplications and additions of the weights with one row; attention, the delta rule and norms
  // come on top.
  double dense_ops = 0.0;  // without the output
  double output_ops = 0.0;
  std::vector<double> expert_ops;  // one routed expert, for each layer
  int n_experts_used = 0;

  // A step with these many different experts in each layer (empty: those of one row).
  uint64_t StepBytes(int64_t n_rows, const std::vector<double>& experts = {}) const;
  // Reading a prompt: one row in many.
  double PromptOpsPerToken() const;
};

TokenWork WorkOf(const ModelConfig& config, const ModelWeights& weights);
// Of a loaded model's trunk.
Result<TokenWork> WorkOf(const Model& model);

// Bytes of cells and running state that the row at `position` reads: of a sparse layer the cells
// within its budget and every pooled key before it, of a dense one all cells.
uint64_t StateBytes(const ModelConfig& config, const StateLayout& layout, int64_t position);

}  // namespace holdfast

#endif  // HOLDFAST_BENCH_TOKEN_WORK_H_

#include "bench/token_work.h"

#include <gtest/gtest.h>

#include "tests/support/fixtures.h"
#include "tests/support/test_model.h"

namespace holdfast {
namespace {

TestModel Load(const std::string& name) {
  return TestModel::OnCpu(FixturePath(name), {.n_threads = 1}, {.max_rows = 8});
}

// Of the trunk's tensors, with or without the gathered ones.
uint64_t TensorBytes(const Model& model, bool gathered) {
  uint64_t sum = 0;
  for (const GgufTensor& tensor : model.file().tensors()) {
    const bool draft =
        tensor.name.starts_with("blk." + std::to_string(model.config().n_layers) + ".");
    const bool table =
        tensor.name == "token_embd.weight" || tensor.name == "per_layer_token_embd.weight";
    if (!draft && table == gathered) sum += tensor.data.size();
  }
  return sum;
}

TEST(TokenWorkTest, EveryTensorIsCountedOnce) {
  for (const char* name : {"tinyA-bf16.gguf", "tinyA-mix.gguf", "tinyC-mtp-bf16.gguf"}) {
    const TestModel m = Load(name);
    const TokenWork work = *WorkOf(*m.model);
    uint64_t sum = work.dense_bytes;
    for (const uint64_t bytes : work.expert_bytes) sum += m.model->config().n_experts * bytes;
    EXPECT_EQ(sum, TensorBytes(*m.model, /*gathered=*/false)) << name;
    EXPECT_GT(TensorBytes(*m.model, /*gathered=*/true), 0u);
  }
}

TEST(TokenWorkTest, AStepReadsDenseTensorsOnceAndRowsAndExpertsForEachRow) {
  TokenWork work;
  work.dense_bytes = 1000;
  work.row_bytes = 10;
  work.expert_bytes = {100, 200};
  work.n_experts_used = 2;
  EXPECT_EQ(work.StepBytes(1), 1000u + 10 + 2 * 100 + 2 * 200);
  EXPECT_EQ(work.StepBytes(4, {5.5, 3}), 1000u + 40 + 550 + 600);
}

TEST(TokenWorkTest, OperationsAreTwoForEachWeightOfAProduct) {
  const TestModel m = Load("tinyA-bf16.gguf");
  const ModelConfig& c = m.model->config();
  const TokenWork work = *WorkOf(*m.model);
  EXPECT_DOUBLE_EQ(work.output_ops, 2.0 * c.vocab_size * c.hidden_size);
  ASSERT_EQ(work.expert_ops.size(), static_cast<size_t>(c.n_layers));
  EXPECT_DOUBLE_EQ(work.expert_ops[0], 2.0 * 3 * c.hidden_size * c.expert_ffn);
  double experts = 0;
  for (const double ops : work.expert_ops) experts += c.n_experts_used * ops;
  EXPECT_DOUBLE_EQ(work.PromptOpsPerToken(), work.dense_ops + experts);
  // BF16 weights are two bytes each, and little else than products is read.
  EXPECT_LT(work.dense_ops + work.output_ops, 1.01 * static_cast<double>(work.dense_bytes));
  EXPECT_GT(work.dense_ops + work.output_ops, 0.8 * static_cast<double>(work.dense_bytes));
}

TEST(StateBytesTest, CellsUpToTheBudgetThenOnlyPooledKeysGrow) {
  const TestModel m = Load("tinyA-bf16.gguf");
  const ModelConfig& c = m.model->config();
  const StateLayout& layout = m.model->layout();
  double pooled = 0;  // of a token
  for (const Part& part : layout.cell_parts()) {
    if (part.kind == PartKind::kPooledKeys) {
      pooled += static_cast<double>(part.bytes) / layout.page_tokens();
    }
  }
  ASSERT_GT(pooled, 0);
  const double cells = layout.bytes_per_token() - pooled;
  const auto bytes = [&](int64_t position) {
    return static_cast<double>(StateBytes(c, layout, position) - layout.running_bytes());
  };
  EXPECT_NEAR(bytes(0), cells, 1);
  EXPECT_NEAR(bytes(c.index_budget - 1), c.index_budget * cells, 1);
  const int64_t deep = 100 * c.index_budget;
  EXPECT_NEAR(bytes(deep - 1), c.index_budget * cells + deep * pooled, 1);
}

}  // namespace
}  // namespace holdfast

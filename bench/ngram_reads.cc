// Cold reads of the n-gram rows of one prompt, as an engine does them: ngram_reads FILE [TOKENS].
// Prints one JSON object; ngram_reads.py compares it with the device.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <vector>

#include "model/ngram_rows.h"
#include "weights/gguf.h"
#include "weights/model_config.h"
#include "weights/model_weights.h"
#include "weights/ngram_tier.h"

namespace holdfast {
namespace {

constexpr int64_t kStepRows = 512;  // the engine's largest step

Status Measure(const std::string& path, int64_t n_tokens) {
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> file, GgufFile::Open(path));
  HF_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(*file));
  if (!config.ple) return InvalidArgumentError(path + ": the model has no n-gram table");
  HF_ASSIGN_OR_RETURN(const ModelWeights weights, BindModelWeights(config, *file));
  NgramTable table{.file = file.get(), .max_rows = kStepRows * config.ple->n_heads};
  for (const LayerWeights& layer : weights.layers) {
    if (layer.ple) table.view = layer.ple->table;
  }
  const NgramSizes sizes = SizesOf(table);
  HF_ASSIGN_OR_RETURN(
      const std::unique_ptr<NgramTier> tier,
      NgramTier::Create(table, {.memory_bytes = sizes.least_bytes() + (uint64_t{64} << 20)}));

  std::mt19937_64 rng(std::random_device{}());  // other rows each time
  std::vector<int32_t> tokens(n_tokens);
  for (int32_t& token : tokens) token = static_cast<int32_t>(rng() % config.vocab_size);
  std::vector<int64_t> rows(n_tokens * config.ple->n_heads);
  NgramRows(*config.ple, tokens, 0, rows);

  const auto begin = std::chrono::steady_clock::now();
  const size_t step = static_cast<size_t>(table.max_rows);
  for (size_t at = 0; at < rows.size(); at += step) {
    tier->Begin(std::span(rows).subspan(at, std::min(step, rows.size() - at)));
    HF_RETURN_IF_ERROR(tier->Wait());
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const NgramTierStats stats = tier->stats();
  fmt::print(
      "{{\"file\": \"{}\", \"tokens\": {}, \"rows_asked\": {}, \"rows_read\": {}, "
      "\"bytes_read\": {}, \"seconds\": {:.4f}, \"reader\": \"{}\"}}\n",
      file->part_file(table.view.tensor->part)->path(), n_tokens, stats.n_asked, stats.n_read,
      stats.bytes_read, seconds.count(), stats.reader);
  return OkStatus();
}

}  // namespace
}  // namespace holdfast

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    fmt::print(stderr, "usage: ngram_reads FILE.gguf [TOKENS]\n");
    return 2;
  }
  const int64_t n_tokens = argc == 3 ? std::atoll(argv[2]) : 2048;
  const holdfast::Status status = n_tokens > 0
                                      ? holdfast::Measure(argv[1], n_tokens)
                                      : holdfast::InvalidArgumentError("TOKENS: wanted at least 1");
  if (status.ok()) return 0;
  fmt::print(stderr, "{}\n", status.ToString());
  return 1;
}

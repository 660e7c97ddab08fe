#ifndef HOLDFAST_BENCH_BENCH_RIG_H_
#define HOLDFAST_BENCH_BENCH_RIG_H_

// A model with what runs requests on it, for figures: conversations of any depth to begin from, and
// timed prompts and replies on them, by the same scheduler that serves.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/expert_memory.h"
#include "engine/sampling_params.h"
#include "model/model.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/profile/profile.h"
#include "token/tokenizer.h"
#include "verify/stage.h"

namespace holdfast {

struct BenchModelOptions {
  std::string model_path;
  std::string mtp_path;  // empty: what the trunk file has
  KvFormat kv_format = KvFormat::kInt8;
  CpuBackendOptions cpu;
  ExpertMemory expert_memory;
  NgramMemory ngram_memory;
  RepackMode repack = RepackMode::kAuto;
  std::optional<uint64_t> memory_limit_bytes;
  std::shared_ptr<Profile> profile;  // null: none
};

class BenchModel {
 public:
  static Result<std::unique_ptr<BenchModel>> Load(const BenchModelOptions& options);
  Model* model() { return model_.get(); }
  const CpuBackend& cpu() const { return *cpu_; }
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }

 private:
  BenchModel() = default;
  std::unique_ptr<CpuBackend> cpu_;
  std::unique_ptr<Backend> profiling_;  // around it
  std::unique_ptr<Model> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

// A conversation that stays as it is while others begin on it.
struct Base {
  std::vector<TokenId> tokens;           // depth + 1: the last has no state
  Conversation* conversation = nullptr;  // bound; null at depth 0
  int64_t depth() const { return static_cast<int64_t>(tokens.size()) - 1; }
};

struct TimedRun {
  double seconds = 0.0;
  int64_t n_tokens = 0;  // of all streams
  int64_t n_drafted = 0, n_accepted = 0;
};

// Tokens at random, the same for the same seed.
std::vector<TokenId> RandomTokens(uint64_t seed, int64_t n, int64_t vocab_size);

// Threads: one.
class BenchRig {
 public:
  struct Options {
    int64_t ctx = 0;
    int n_slots = 1;
    int max_drafts = 0;        // 0: none, -1: as many as pay
    uint64_t state_bytes = 0;  // for all conversations at once
  };
  // `model` outlives it.
  static Result<std::unique_ptr<BenchRig>> Create(BenchModel* model, const Options& options);

  StateCache& cache() { return stage_->cache(); }
  Model* model() { return model_->model(); }

  // `progress` is told how many tokens have been read.
  Result<Base> ReadBase(int64_t depth, uint64_t seed, const std::function<void(int64_t)>& progress);
  Result<Base> FillBase(int64_t depth, uint64_t seed);
  void Drop(Base* base);

  // Reads `n` more tokens behind the base.
  Result<TimedRun> Prefill(const Base& base, int64_t n, uint64_t seed);
  // `n` tokens of one reply to each prompt, decoded together. The clock runs from when each has its
  // first token until the first of them is done.
  Result<TimedRun> Decode(std::span<const std::vector<TokenId>> prompts, int64_t n,
                          const SamplingParams& sampling);

 private:
  explicit BenchRig(BenchModel* model) : model_(model) {}
  // What came of a request; its conversation is given up.
  Status EndOf(const Asked& asked);

  BenchModel* const model_;
  std::unique_ptr<Stage> stage_;
};

}  // namespace holdfast

#endif  // HOLDFAST_BENCH_BENCH_RIG_H_

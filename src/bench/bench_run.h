#ifndef HOLDFAST_BENCH_BENCH_RUN_H_
#define HOLDFAST_BENCH_BENCH_RUN_H_

// What the parts of a run have in common.

#include <functional>
#include <string>

#include "bench/run_bench.h"

namespace holdfast {

class BenchRun {
 public:
  BenchRun(const BenchOptions& options, const BenchListener& listener, BenchModel* model,
           const BenchHeader& header, const BenchPlan& plan, const StateRoom& room);

  // All depths, then drafts; each part measures and reports.
  Status Depths();
  Status Drafts();

 private:
  // Runs of one figure until there are enough of them, or the time for it is over.
  using OneRun = std::function<Result<TimedRun>()>;
  Status Repeat(const OneRun& run, Figure* figure);
  void Report(const Figure& figure) const;
  void Note(const std::string& text) const;
  void Progress(const std::string& text) const;

  Result<std::vector<Base>> MakeBases(BenchRig* rig, const DepthPlan& at, std::string* state);
  Status PrefillFigures(BenchRig* rig, const DepthPlan& at, const Base& base,
                        const std::string& state);
  Status DecodeFigures(BenchRig* rig, const DepthPlan& at, std::span<const Base> bases,
                       const std::string& state);
  // Different experts in each layer of a step of these streams.
  Result<std::vector<double>> CountExperts(BenchRig* rig,
                                           std::span<const std::vector<TokenId>> prompts);
  Status StateFigures(BenchRig* rig, Base* base, const std::string& state);
  Status DiskFigures(BenchRig* rig, Base* base, const std::string& state);
  // A question as a client would ask it, or random tokens where the model has no tokenizer.
  Result<std::vector<TokenId>> TextPrompt(std::string* kind) const;

  const BenchOptions& options_;
  const BenchListener& listener_;
  BenchModel* const model_;
  const BenchHeader& header_;
  const BenchPlan& plan_;
  const StateRoom& room_;
  double read_tokens_per_s_ = 0.0;  // the fastest prompt so far
  std::string profile_;             // of the last figure's runs
};

}  // namespace holdfast

#endif  // HOLDFAST_BENCH_BENCH_RUN_H_

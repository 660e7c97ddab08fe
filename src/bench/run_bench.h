#ifndef HOLDFAST_BENCH_RUN_BENCH_H_
#define HOLDFAST_BENCH_RUN_BENCH_H_

// `holdfast bench`: how fast this machine reads prompts, decodes, parks and saves with a model, and
// how near that is to what the machine could do.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "bench/bench_plan.h"
#include "bench/bench_rig.h"
#include "bench/figure.h"
#include "bench/machine.h"
#include "bench/machine_peak.h"
#include "bench/token_work.h"

namespace holdfast {

struct BenchOptions {
  BenchModelOptions model;
  BenchRequest request;
  std::string dir;  // where conversations are saved; empty: the folder for temporary files
  std::optional<uint64_t> memory_limit_bytes;
  std::optional<MachinePeak> peak;  // none: it is measured first
};

// What is known before the first figure.
struct BenchHeader {
  BenchContext context;
  Machine machine;
  std::string_view int8_instruction;
  std::string model_path, model_name;
  int n_layers = 0;
  int64_t trained_ctx = 0;
  bool has_draft = false;
  TokenWork work;
  uint64_t state_bytes = 0;  // read for a token at depth 0
};

// Any of them may be null.
struct BenchListener {
  std::function<void(const BenchHeader&)> on_header;
  std::function<void(const std::string&)> on_note;      // what is left out, or special
  std::function<void(const std::string&)> on_progress;  // what runs now
  // With the profile of its runs, when there is one.
  std::function<void(const Figure&, const std::string& profile)> on_figure;
};

// Figures come as they are measured. An error ends it.
Status RunBench(const BenchOptions& options, const BenchListener& listener);

}  // namespace holdfast

#endif  // HOLDFAST_BENCH_RUN_BENCH_H_

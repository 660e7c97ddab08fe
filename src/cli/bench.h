#ifndef HOLDFAST_CLI_BENCH_H_
#define HOLDFAST_CLI_BENCH_H_

// `holdfast bench`: measures this machine with a model, or its disk.

#include <cstdint>
#include <ostream>
#include <string>

#include "base/status.h"
#include "cli/model_options.h"
#include "cli/profile_option.h"

namespace holdfast::cli {

struct BenchCommandOptions {
  ModelOptions model;  // draft: auto is with and without guesses, on (or a number) and off only one
  std::string prefill, depth, slots;  // A,B,...; empty: chosen for the model
  int64_t decode = 128;
  int repeat = 0;  // 0: up to 5, within some seconds
  bool no_state = false;
  std::string dir;           // for what is saved
  std::string memory_limit;  // SIZE; empty: the host's
  bool json = false;
  std::string compare;  // an earlier --json run
  ProfileOption profile;
  bool store = false;  // the disk instead of a model
  std::string bytes = "512M";
};

// Prints figures as they are measured: a table, or with `json` one object a line. Notes and
// progress go to standard error when `out` is for programs.
Status RunBenchCommand(const BenchCommandOptions& options, std::ostream& out);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_BENCH_H_

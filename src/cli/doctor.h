#ifndef HOLDFAST_CLI_DOCTOR_H_
#define HOLDFAST_CLI_DOCTOR_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "cli/cache_options.h"
#include "cli/model_options.h"

namespace holdfast::cli {

struct DoctorOptions {
  ModelOptions model;
  CacheOptions cache;
  int slots = 4;
  bool json = false;
};

// One thing that was looked at.
struct Finding {
  enum class Verdict { kGood, kWarning, kBad };
  Verdict verdict = Verdict::kGood;
  std::string subject;  // "cpu", "memory", ...
  std::string text;     // what is there; of what is not good, also what to do
};

// Looks at the CPU, memory, limits of the process, the store's disk (64 MiB are written to it and
// removed) and the model file, and prints what was found and what fits. Starts nothing and leaves
// nothing behind. kFailedPrecondition when something would keep `serve` from starting.
Status RunDoctor(const DoctorOptions& options, std::ostream& out);

// Parts of it, for tests.
Finding JudgeFileLimit(uint64_t soft_limit);
Finding JudgeStoreFolder(const std::string& dir, uint64_t free_bytes, bool in_memory,
                         double save_bytes_per_s);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_DOCTOR_H_

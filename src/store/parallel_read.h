#ifndef HOLDFAST_STORE_PARALLEL_READ_H_
#define HOLDFAST_STORE_PARALLEL_READ_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/hash128.h"
#include "base/status.h"
#include "store/file_system.h"

namespace holdfast {

// One payload to read and check.
struct ReadJob {
  File* file = nullptr;
  uint64_t offset = 0;
  std::span<std::byte> dst;
  Hash128 hash;
  std::string what;
  Status status;  // out: kDataLoss when it does not verify
};

// Runs all jobs on at most `n_threads` threads, this one included, and waits for them.
void ReadInParallel(std::vector<ReadJob>* jobs, int n_threads);
// What 0 means in StoreOptions::n_read_threads.
int DefaultReadThreads();

}  // namespace holdfast

#endif  // HOLDFAST_STORE_PARALLEL_READ_H_

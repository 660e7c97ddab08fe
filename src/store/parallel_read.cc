#include "store/parallel_read.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>

#include "store/part_file.h"

namespace holdfast {
namespace {

// Copying out of the page cache and hashing are bound by memory bandwidth; more do not help.
constexpr int kMaxReadThreads = 4;

}  // namespace

int DefaultReadThreads() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxReadThreads);
}

void ReadInParallel(std::vector<ReadJob>* jobs, int n_threads) {
  std::atomic<size_t> next{0};
  const auto work = [jobs, &next] {
    for (size_t i; (i = next.fetch_add(1)) < jobs->size();) {
      ReadJob& job = (*jobs)[i];
      job.status = ReadChecked(job.file, job.offset, job.dst, job.hash, job.what);
    }
  };
  std::vector<std::jthread> helpers;
  const size_t n_helpers = std::min<size_t>(std::max(n_threads, 1), jobs->size());
  for (size_t i = 1; i < n_helpers; ++i) {
    try {
      helpers.emplace_back(work);
    } catch (const std::system_error&) {
      break;  // no more threads to be had: the ones there are do the work
    }
  }
  work();
}

}  // namespace holdfast

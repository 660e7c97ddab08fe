#ifndef HOLDFAST_BENCH_STORE_BENCH_H_
#define HOLDFAST_BENCH_STORE_BENCH_H_

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "bench/figure.h"

namespace holdfast {

struct StoreBenchOptions {
  std::string dir;  // on the disk in question; empty: the folder for temporary files
  uint64_t n_bytes = uint64_t{512} << 20;
  int n_runs = 3;
};

// Saves and loads a conversation of as many bytes, beside what plain programs reach with the same
// bytes in the same run: `dd bs=16M conv=fsync`, and `cat` of cached files. Two figures, save and
// load. `note`, when set, hears what a reader must know.
Status RunStoreBench(const StoreBenchOptions& options,
                     const std::function<void(const std::string&)>& note,
                     const std::function<void(const Figure&)>& on_figure);

}  // namespace holdfast

#endif  // HOLDFAST_BENCH_STORE_BENCH_H_

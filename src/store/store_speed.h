#ifndef HOLDFAST_STORE_STORE_SPEED_H_
#define HOLDFAST_STORE_STORE_SPEED_H_

// How fast a store saves and loads in a directory, beside what plain programs reach there.

#include <cstdint>
#include <string>

#include "base/status.h"

namespace holdfast {

struct StoreSpeedOptions {
  std::string dir;  // a new directory is made in it and removed again
  uint64_t n_bytes = uint64_t{512} << 20;
  uint64_t page_bytes = uint64_t{3} << 20;       // about a page of the released layout
  uint64_t running_bytes = uint64_t{118} << 20;  // its running state
  int n_repeats = 3;                             // the best of each is reported
};

struct StoreSpeed {
  uint64_t n_bytes = 0;  // of one save
  double save_bytes_per_s = 0, load_bytes_per_s = 0;
  // The same bytes as `dd bs=16M conv=fsync` writes and as `cat` reads them, in the same run; reads
  // come from the page cache on both sides.
  double dd_bytes_per_s = 0, cat_bytes_per_s = 0;

  double save_share() const { return save_bytes_per_s / dd_bytes_per_s; }
  double load_share() const { return load_bytes_per_s / cat_bytes_per_s; }
  // One line for each of the four, and the shares.
  std::string ToText() const;
};

// Takes twice n_bytes of memory and of disk. Errors: the store's own, kResourceExhausted.
Result<StoreSpeed> MeasureStoreSpeed(const StoreSpeedOptions& options);

}  // namespace holdfast

#endif  // HOLDFAST_STORE_STORE_SPEED_H_

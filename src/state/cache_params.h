#ifndef HOLDFAST_STATE_CACHE_PARAMS_H_
#define HOLDFAST_STATE_CACHE_PARAMS_H_

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace holdfast {

// What of conversations is kept in RAM. Filled by flags and the plan (the engine turns
// `--cache-ram auto` into bytes), validated once.
struct CacheParams {
  // --cache-ram: bytes for parked conversations. 0: off, nothing is kept after its request.
  size_t cache_ram_bytes = 0;
  // Bytes for bound conversations, from the memory plan. Together with cache_ram_bytes the limit of
  // the pools. Bound conversations may take the cache's part (parked ones are evicted), never the
  // other way round: when nothing else runs, a short request finds this much without evicting.
  size_t work_bytes = 0;
  // --cache-min-free: bytes that must stay free in the host; enforced by the memory guard.
  size_t cache_min_free_bytes = size_t{1} << 30;
  // --cache-min-tokens WRITE[,READ]: shorter conversations are not kept after their request;
  // shorter matches are not used. At least 0.
  int64_t min_write_tokens = 0;
  int64_t min_read_tokens = 0;
  // A one-shot request of at most this many tokens never evicts a longer conversation while others
  // run (it waits for them; alone it has the work bytes). Longer ones evict conversations longer
  // than themselves last.
  int64_t short_tokens = 4096;

  Status Validate() const;
};

}  // namespace holdfast

#endif  // HOLDFAST_STATE_CACHE_PARAMS_H_

#include "state/cache_params.h"

#include <fmt/format.h>

namespace holdfast {

Status CacheParams::Validate() const {
  if (min_write_tokens < 0 || min_read_tokens < 0) {
    return InvalidArgumentError(fmt::format("cache-min-tokens {},{}: wanted at least 0",
                                            min_write_tokens, min_read_tokens));
  }
  if (short_tokens < 0) {
    return InvalidArgumentError(
        fmt::format("short requests of {} tokens: wanted at least 0", short_tokens));
  }
  if (work_bytes == 0) {
    return InvalidArgumentError("0 B planned for bound conversations, wanted more");
  }
  if (cache_ram_bytes > SIZE_MAX - work_bytes) {
    return InvalidArgumentError(
        fmt::format("cache-ram {} B and {} B for bound conversations do not add up",
                    cache_ram_bytes, work_bytes));
  }
  return OkStatus();
}

}  // namespace holdfast

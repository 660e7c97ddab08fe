#ifndef HOLDFAST_CLI_CACHE_OPTIONS_H_
#define HOLDFAST_CLI_CACHE_OPTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/engine.h"

namespace holdfast::cli {

// Where conversations are kept and for how long, as typed.
struct CacheOptions {
  std::string cache_ram = "auto";      // SIZE or auto: of parked conversations
  std::string cache_min_free = "1G";   // SIZE that must stay free in the host
  std::string cache_min_tokens = "0";  // WRITE[,READ]
  std::string cache_disk = "0";        // SIZE of the store's files; 0: no limit
  std::string memory_limit;            // SIZE of this process; empty: the host's
  std::string store = "default";       // folder, "default", or "off"
  std::string autosave = "idle";       // turn, idle or off
  double autosave_interval_s = 10.0;
  std::string store_write_limit = "20G";  // SIZE an hour; 0: no limit
};

// Bytes of "0", "512M", "8G", "1.5GiB", "2000000". Units are powers of 1024. kInvalidArgument.
Result<uint64_t> ParseSize(std::string_view text);

// Errors name the flag.
Status ApplyCacheOptions(const CacheOptions& options, EngineOptions* engine);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_CACHE_OPTIONS_H_

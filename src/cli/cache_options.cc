#include "cli/cache_options.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "store/store.h"

namespace holdfast::cli {
namespace {

Status Named(const char* flag, const Status& status) {
  return Status(status.code(), fmt::format("{}: {}", flag, status.message()));
}

template <typename T>
Status ReadSize(const char* flag, const std::string& text, T* bytes) {
  const Result<uint64_t> size = ParseSize(text);
  if (!size.ok()) return Named(flag, size.status());
  *bytes = *size;
  return OkStatus();
}

Status ReadTokens(std::string_view text, int64_t* tokens) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *tokens);
  if (error == std::errc() && end == text.data() + text.size() && *tokens >= 0) return OkStatus();
  return InvalidArgumentError(
      fmt::format("--cache-min-tokens: '{}', wanted a number of tokens", std::string(text)));
}

std::string EnvironmentOr(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Result<uint64_t> ParseSize(std::string_view text) {
  const Status bad = InvalidArgumentError(
      fmt::format("'{}', wanted a size such as 512M or 8G", std::string(text)));
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number < 0) return bad;
  std::string_view unit = text.substr(end - text.data());
  if (unit.ends_with("iB") || unit.ends_with("B")) {
    unit.remove_suffix(unit.ends_with("iB") ? 2 : 1);
  }
  constexpr std::string_view kUnits = "KMGT";
  double factor = 1;
  if (!unit.empty()) {
    const size_t index = kUnits.find(static_cast<char>(std::toupper(unit[0])));
    if (unit.size() != 1 || index == std::string_view::npos) return bad;
    factor = std::ldexp(1.0, 10 * (static_cast<int>(index) + 1));
  }
  if (number * factor > std::ldexp(1.0, 60)) return bad;
  return static_cast<uint64_t>(number * factor);
}

Status ApplyCacheOptions(const CacheOptions& options, EngineOptions* engine) {
  if (options.cache_ram != "auto") {
    HF_RETURN_IF_ERROR(ReadSize("--cache-ram", options.cache_ram, &engine->cache_ram_bytes));
  }
  HF_RETURN_IF_ERROR(ReadSize("--cache-min-free", options.cache_min_free, &engine->min_free_bytes));
  HF_RETURN_IF_ERROR(ReadSize("--cache-disk", options.cache_disk, &engine->cache_disk_bytes));
  HF_RETURN_IF_ERROR(
      ReadSize("--store-write-limit", options.store_write_limit, &engine->store_write_limit_bytes));
  if (!options.memory_limit.empty()) {
    HF_RETURN_IF_ERROR(
        ReadSize("--memory-limit", options.memory_limit, &engine->memory_limit_bytes));
  }
  const std::string_view tokens = options.cache_min_tokens;
  const size_t comma = tokens.find(',');
  HF_RETURN_IF_ERROR(ReadTokens(tokens.substr(0, comma), &engine->min_write_tokens));
  if (comma != std::string_view::npos) {
    HF_RETURN_IF_ERROR(ReadTokens(tokens.substr(comma + 1), &engine->min_read_tokens));
  }

  const Result<Autosave> autosave = ParseAutosave(options.autosave);
  if (!autosave.ok()) return Named("--autosave", autosave.status());
  engine->autosave = *autosave;
  if (!(options.autosave_interval_s > 0 && options.autosave_interval_s <= 86400)) {
    return InvalidArgumentError(
        fmt::format("--autosave-interval: {} s, wanted 0 to 86400", options.autosave_interval_s));
  }
  engine->autosave_interval_s = options.autosave_interval_s;
  if (options.store == "off") return OkStatus();
  engine->store_required = options.store != "default";
  engine->store_dir = options.store == "default"
                          ? DefaultStoreDir(EnvironmentOr("XDG_STATE_HOME"), EnvironmentOr("HOME"))
                          : options.store;
  if (engine->store_dir.empty()) {
    return InvalidArgumentError(
        "--store: neither XDG_STATE_HOME nor HOME is set; name a folder, or off");
  }
  return OkStatus();
}

}  // namespace holdfast::cli

#include "weights/gguf_split.h"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

namespace holdfast {

Result<GgufSplit> ReadSplit(std::span<const GgufValue> values, const std::string& name) {
  GgufSplit split;
  const auto read = [&](const GgufValue& value, int64_t low, int64_t high, int64_t* out) -> Status {
    const Result<int64_t> number = value.Int(low, high);
    if (!number.ok())
      return Status(number.status().code(), name + ": " + number.status().message());
    *out = *number;
    return OkStatus();
  };
  for (const GgufValue& value : values) {
    if (value.key() == "split.count") {
      HF_RETURN_IF_ERROR(read(value, 0, kGgufMaxSplits, &split.count));
    } else if (value.key() == "split.no") {
      HF_RETURN_IF_ERROR(read(value, 0, kGgufMaxSplits - 1, &split.number));
    } else if (value.key() == "split.tensors.count") {
      HF_RETURN_IF_ERROR(read(value, 0, INT32_MAX, &split.n_tensors));
    }
  }
  if (split.count == 0) split.count = 1;  // some tools write 0 into a file that is whole
  return split;
}

Result<GgufSplit> ReadSplit(const GgufFile& file) { return ReadSplit(file.values(), file.name()); }

Status CheckSplitPart(const GgufSplit& split, const GgufSplit& first, int part,
                      const std::string& name) {
  if (split.number != part) {
    return DataLossError(
        fmt::format("{}: key \"split.no\": found {}, wanted {}", name, split.number, part));
  }
  if (split.count != first.count) {
    return DataLossError(fmt::format("{}: key \"split.count\": found {}, part 1 says {}", name,
                                     split.count, first.count));
  }
  if (split.n_tensors != first.n_tensors) {
    return DataLossError(fmt::format("{}: key \"split.tensors.count\": found {}, part 1 says {}",
                                     name, split.n_tensors, first.n_tensors));
  }
  return OkStatus();
}

std::string SplitPath(const std::string& prefix, int64_t part, int64_t count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, part + 1, count);
}

Result<std::vector<std::string>> SplitPaths(const std::string& path, const GgufSplit& split) {
  if (split.number != 0) {
    return InvalidArgumentError(
        fmt::format("{}: this is part {} of {}; open part 1", path, split.number + 1, split.count));
  }
  const std::string suffix = SplitPath("", 0, split.count);
  if (path.size() <= suffix.size() || !path.ends_with(suffix)) {
    return InvalidArgumentError(
        fmt::format("{}: part 1 of {} must be named \"<name>{}\", so that the "
                    "other parts can be found",
                    path, split.count, suffix));
  }
  const std::string prefix = path.substr(0, path.size() - suffix.size());
  std::vector<std::string> paths;
  for (int64_t part = 0; part < split.count; ++part) {
    paths.push_back(SplitPath(prefix, part, split.count));
  }
  return paths;
}

}  // namespace holdfast

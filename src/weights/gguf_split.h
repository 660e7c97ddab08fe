#ifndef HOLDFAST_WEIGHTS_GGUF_SPLIT_H_
#define HOLDFAST_WEIGHTS_GGUF_SPLIT_H_

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "weights/gguf.h"

namespace holdfast {

// What a file's split.* keys say. A file without them is the one part of itself.
struct GgufSplit {
  int64_t number = 0;      // of this part, from 0
  int64_t count = 1;       // parts, at most kGgufMaxSplits
  int64_t n_tensors = -1;  // over all parts; -1 when not said
};

Result<GgufSplit> ReadSplit(std::span<const GgufValue> values, const std::string& name);
Result<GgufSplit> ReadSplit(const GgufFile& file);

// Part `part` (from 0) of the model whose part 1 said `first`: its keys must say the same.
Status CheckSplitPart(const GgufSplit& split, const GgufSplit& first, int part,
                      const std::string& name);

// "<prefix>-00002-of-00004.gguf" for part 1 of 4 (from 0).
std::string SplitPath(const std::string& prefix, int64_t part, int64_t count);

// The paths of all parts, derived from the path of part 1, which must be named
// "<prefix>-00001-of-<count>.gguf" and say that it is part 1.
Result<std::vector<std::string>> SplitPaths(const std::string& path, const GgufSplit& split);

}  // namespace holdfast

#endif  // HOLDFAST_WEIGHTS_GGUF_SPLIT_H_

#ifndef HOLDFAST_WEIGHTS_GGUF_READER_H_
#define HOLDFAST_WEIGHTS_GGUF_READER_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "weights/gguf.h"

namespace holdfast {

// What one file holds, checked; `values` and the tensors' data are views into its bytes.
struct GgufContents {
  int version = 0;
  int64_t alignment = kGgufDefaultAlignment;
  std::vector<GgufValue> values;
  std::vector<GgufTensor> tensors;
};

// Reads header, metadata and tensor list of one file and checks all of it. Allocates no more than a
// small multiple of the bytes it has actually read. Errors: kDataLoss (truncated, or contradicts
// itself), kInvalidArgument (not such a file), kOutOfRange (beyond a stated limit), kUnimplemented
// (version, byte order, tensor type); each names `name`, the place, what was found and the limit.
Result<GgufContents> ReadGguf(std::span<const std::byte> bytes, const std::string& name);

}  // namespace holdfast

#endif  // HOLDFAST_WEIGHTS_GGUF_READER_H_

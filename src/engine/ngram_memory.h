#ifndef HOLDFAST_ENGINE_NGRAM_MEMORY_H_
#define HOLDFAST_ENGINE_NGRAM_MEMORY_H_

// Whether the n-gram table stays where the file is mapped, or how much memory its rows get. Pure
// arithmetic.

#include <cstdint>
#include <string>

#include "base/async_reader.h"
#include "base/status.h"
#include "weights/ngram_tier.h"

namespace holdfast {

// --ngram-memory and --expert-reader.
struct NgramMemory {
  enum class Kind {
    kAuto,  // mapped when it fits beside the rest, else some of its rows in memory
    kAll,   // mapped, whatever fits
    kSize,  // `bytes` for its rows, the others are read
  };
  Kind kind = Kind::kAuto;
  uint64_t bytes = 0;
  ReaderKind reader = ReaderKind::kAuto;
};

// Memory for rows of the table when it is not mapped; 0: it is. `room` is for all weights and
// conversations, `others` is what is wanted of it beside the table. kInvalidArgument when
// --ngram-memory is less than a step needs.
Result<uint64_t> PlanNgramRows(const NgramMemory& memory, const NgramSizes& sizes, uint64_t room,
                               uint64_t others);

// "1000000 of 320001536 in memory, the others are read by io_uring, O_DIRECT".
std::string DescribeNgramRows(const NgramTierStats& stats);

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_NGRAM_MEMORY_H_

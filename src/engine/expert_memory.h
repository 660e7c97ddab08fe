#ifndef HOLDFAST_ENGINE_EXPERT_MEMORY_H_
#define HOLDFAST_ENGINE_EXPERT_MEMORY_H_

// Which weights stay where the file is mapped and how many experts get a place in memory of their
// own, when not all fit. Pure arithmetic, except for PlaceWeights().

#include <cstdint>
#include <optional>
#include <string>

#include "base/async_reader.h"
#include "base/status.h"
#include "engine/ngram_memory.h"
#include "engine/repack_plan.h"
#include "model/model.h"
#include "weights/expert_tier.h"

namespace holdfast {

// --expert-memory, --expert-reader and --expert-file.
struct ExpertMemory {
  enum class Kind {
    kAuto,  // all where they are mapped when they fit, else what conversations leave
    kAll,   // where they are mapped, whatever fits
    kSize,  // `bytes` of them in memory, the others are read
  };
  Kind kind = Kind::kAuto;
  uint64_t bytes = 0;
  ReaderKind reader = ReaderKind::kAuto;
  // --expert-file: of `holdfast prepare`; empty: none.
  std::string file;
  bool file_required = false;  // else one that cannot be used is only said
};

// Lets the model read its experts from that file. Before anything is planned.
Status OpenExpertFile(const ExpertMemory& memory, Model* model);

struct WeightSizes {
  uint64_t file_bytes = 0;  // of all files of the model
  NgramSizes ngram;         // of it the n-gram table
  ExpertSizes experts;      // of it the routed experts
  Model::RepackSizes repack;
};
WeightSizes WeightSizesOf(const Model& model);

struct WeightPlan {
  uint64_t mapped_bytes = 0;  // want to stay in the page cache
  uint64_t arena_bytes = 0;   // of expert slots; 0: experts are mapped with the rest
  int64_t n_slots = 0;
  uint64_t ngram_bytes = 0;  // for rows of the n-gram table; 0: it is mapped
  // Of weights that are repacked instead of being used where they are mapped; 0: none are.
  uint64_t repacked_bytes = 0;
  // Of an n-gram table that is mapped and does not count: it was asked for (--ngram-memory all)
  // where experts do not fit, and few of its rows are used again.
  uint64_t table_bytes = 0;
};

// What of `room` (for weights and conversations together) is whose. Conversations want at least
// `least_state`; when experts do not fit beside that, `state_share` is left to them. The n-gram
// table goes out of memory before experts do. kInvalidArgument when --expert-memory has no room for
// one expert, or --ngram-memory none for the rows of a step.
Result<WeightPlan> PlanWeights(const ExpertMemory& memory, const NgramMemory& ngram,
                               const WeightSizes& sizes, uint64_t room, uint64_t least_state,
                               uint64_t state_share);

// What the model's weights take of the memory as it is loaded: mapped ones, and what is allocated
// for those that are read.
uint64_t WeightBytesInMemory(const Model& model);

// For commands without an engine: opens the expert file, plans from the host's memory, leaving a
// quarter of it for states, and lets the model stream or repack when that is what the plan says.
Status PlaceWeights(const ExpertMemory& memory, const NgramMemory& ngram, RepackMode repack,
                    std::optional<uint64_t> memory_limit_bytes, Model* model);

// "1280 of 5120 in memory (25 %), the others are read by io_uring, O_DIRECT".
std::string DescribeExperts(const ExpertTierStats& stats);

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_EXPERT_MEMORY_H_

#ifndef HOLDFAST_STORE_SEGMENT_TABLE_H_
#define HOLDFAST_STORE_SEGMENT_TABLE_H_

// What the catalogue says of segments: their sizes, and the parts in them that are needed.

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "store/store_core.h"

namespace holdfast {

// SegmentFootprint() of a part, in SQL.
#define HF_FOOTPRINT_SQL_ "((part.bytes + 64 + 4095) / 4096 * 4096)"

struct SegmentRow {
  int64_t id = 0;
  uint64_t bytes = 0;
  uint64_t live_bytes = 0;   // with their headers and padding
  bool quarantined = false;  // holds a part kept for a person
};

// All segments. Needs db_mutex.
Result<std::vector<SegmentRow>> ReadSegments(Database* db);

struct LivePart {
  int64_t id;
  PartRow row;
  PartType type;
};

// The parts of a segment that rows name, by offset. Takes db_mutex.
Result<std::vector<LivePart>> PartsOf(StoreCore* core, int64_t segment);

}  // namespace holdfast

#endif  // HOLDFAST_STORE_SEGMENT_TABLE_H_

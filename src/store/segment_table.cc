#include "store/segment_table.h"

namespace holdfast {

Result<std::vector<SegmentRow>> ReadSegments(Database* db) {
  std::vector<SegmentRow> segments;
  Query query(db, "SELECT segment.id, segment.bytes, coalesce(sum(" HF_FOOTPRINT_SQL_
                  "), 0), "
                  "count(quarantine.part) FROM segment LEFT JOIN part ON part.segment = segment.id "
                  "LEFT JOIN quarantine ON quarantine.part = part.id GROUP BY segment.id "
                  "ORDER BY segment.id");
  while (query.Next()) {
    segments.push_back({query.Int(0), static_cast<uint64_t>(query.Int(1)),
                        static_cast<uint64_t>(query.Int(2)), query.Int(3) != 0});
  }
  HF_RETURN_IF_ERROR(query.status());
  return segments;
}

Result<std::vector<LivePart>> PartsOf(StoreCore* core, int64_t segment) {
  std::lock_guard lock(core->db_mutex);
  Database* db = core->db.get();
  std::vector<std::pair<int64_t, PartType>> ids;
  {
    Query query(db,
                "SELECT id, CASE WHEN EXISTS (SELECT 1 FROM page WHERE trunk = part.id) THEN ?2 "
                "WHEN EXISTS (SELECT 1 FROM page WHERE draft = part.id) THEN ?3 "
                "WHEN EXISTS (SELECT 1 FROM state WHERE trunk = part.id) THEN ?4 ELSE ?5 END "
                "FROM part WHERE segment = ?1 ORDER BY offset",
                segment, static_cast<int>(PartType::kTrunkPage),
                static_cast<int>(PartType::kDraftPage), static_cast<int>(PartType::kTrunkRunning),
                static_cast<int>(PartType::kDraftRunning));
    while (query.Next()) ids.emplace_back(query.Int(0), static_cast<PartType>(query.Int(1)));
    HF_RETURN_IF_ERROR(query.status());
  }
  std::vector<LivePart> parts;
  for (const auto& [id, type] : ids) {
    HF_ASSIGN_OR_RETURN(const PartRow row, ReadPart(db, id));
    parts.push_back({id, row, type});
  }
  return parts;
}

}  // namespace holdfast

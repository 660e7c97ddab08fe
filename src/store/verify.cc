#include <fmt/format.h>

#include "store/segment_table.h"
#include "store/store_core.h"

namespace holdfast {

Result<VerifyReport> VerifyStore(StoreCore* core) {
  std::lock_guard write_lock(core->write_mutex);
  HF_RETURN_IF_ERROR(core->CheckPresent());
  VerifyReport report;
  std::vector<SegmentRow> segments;
  {
    std::lock_guard lock(core->db_mutex);
    HF_ASSIGN_OR_RETURN(segments, ReadSegments(core->db.get()));
  }
  std::vector<std::byte> buffer;
  for (const SegmentRow& segment : segments) {
    HF_ASSIGN_OR_RETURN(const std::vector<LivePart> parts, PartsOf(core, segment.id));
    const std::string path = core->SegmentPath(segment.id);
    const auto file = core->file_system->Open(path, OpenMode::kRead);
    if (!file.ok() && file.status().code() != StatusCode::kNotFound) return file.status();
    for (const LivePart& part : parts) {
      Status status = OkStatus();
      if (file.ok()) {
        buffer.resize(part.row.bytes);
        status = ReadChecked(file->get(), part.row.offset, buffer, part.row.hash, path);
      } else {
        status = DataLossError("segment is missing: " + file.status().message());
      }
      ++report.parts_checked;
      report.bytes_checked += part.row.bytes;
      if (status.code() == StatusCode::kDataLoss) {
        report.problems.push_back(fmt::format("{} at {}: {}", PartTypeName(part.type),
                                              part.row.offset, status.message()));
        HF_RETURN_IF_ERROR(QuarantinePartUsers(core, part.id, status.message()));
      } else {
        HF_RETURN_IF_ERROR(status);
      }
    }
  }
  return report;
}

Result<DiskUsage> MeasureStore(StoreCore* core) {
  HF_ASSIGN_OR_RETURN(const std::vector<ConversationInfo> list, ListConversations(core));
  std::lock_guard lock(core->db_mutex);
  Database* db = core->db.get();
  DiskUsage usage;
  usage.n_conversations = static_cast<int64_t>(list.size());
  for (const ConversationInfo& info : list) usage.conversation_bytes += info.bytes;
  const auto number = [db](const char* sql) -> Result<int64_t> {
    Query query(db, sql);
    const int64_t value = query.Next() ? query.Int(0) : 0;
    HF_RETURN_IF_ERROR(query.status());
    return value;
  };
  HF_ASSIGN_OR_RETURN(const auto segments, ReadSegments(db));
  usage.n_segments = static_cast<int64_t>(segments.size());
  for (const SegmentRow& segment : segments) usage.segment_bytes += segment.bytes;
  HF_ASSIGN_OR_RETURN(usage.n_pages, number("SELECT count(*) FROM page"));
  HF_ASSIGN_OR_RETURN(usage.n_states, number("SELECT count(*) FROM state"));
  HF_ASSIGN_OR_RETURN(const int64_t bad,
                      number("SELECT coalesce(sum(bytes), 0) FROM part WHERE id IN (SELECT part "
                             "FROM quarantine)"));
  HF_ASSIGN_OR_RETURN(const int64_t all, number("SELECT coalesce(sum(bytes), 0) FROM part"));
  usage.quarantine_bytes = static_cast<uint64_t>(bad);
  usage.live_bytes = static_cast<uint64_t>(all - bad);
  HF_ASSIGN_OR_RETURN(const int64_t n_db_pages, number("PRAGMA page_count"));
  HF_ASSIGN_OR_RETURN(const int64_t db_page_bytes, number("PRAGMA page_size"));
  usage.catalogue_bytes = static_cast<uint64_t>(n_db_pages * db_page_bytes);
  return usage;
}

}  // namespace holdfast

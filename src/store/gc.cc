#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "store/store_core.h"

namespace holdfast {
namespace {

struct SegmentRow {
  int64_t id = 0;
  uint64_t bytes = 0, live_bytes = 0;
  bool quarantined = false;  // holds a part kept for a person
};

Result<std::vector<SegmentRow>> ReadSegments(Database* db) {
  std::vector<SegmentRow> segments;
  Query query(db,
              "SELECT segment.id, segment.bytes, coalesce(sum(part.bytes), 0), "
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

// The catalogue forgets the segment first: killed in between, the file is a leftover.
Status DeleteSegment(StoreCore* core, const SegmentRow& segment, GcReport* report) {
  {
    std::lock_guard lock(core->db_mutex);
    HF_RETURN_IF_ERROR(core->Change([&]() -> Status {
      return RunSql(core->db.get(), "DELETE FROM segment WHERE id = ?", segment.id);
    }));
  }
  const Status removed = core->file_system->Unlink(core->SegmentPath(segment.id));
  if (!removed.ok() && removed.code() != StatusCode::kNotFound) return removed;
  ++report->segments_deleted;
  report->bytes_freed += segment.bytes;
  return OkStatus();
}

struct LivePart {
  int64_t id;
  PartRow row;
  PartType type;
};

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

// Copies what is still needed into a new segment. A part that does not verify is quarantined and
// the segment left as it is.
Status RewriteSegment(StoreCore* core, const SegmentRow& segment, GcReport* report) {
  HF_ASSIGN_OR_RETURN(std::vector<LivePart> parts, PartsOf(core, segment.id));
  HF_ASSIGN_OR_RETURN(const auto file,
                      core->file_system->Open(core->SegmentPath(segment.id), OpenMode::kRead));
  int64_t new_id;
  {
    std::lock_guard lock(core->db_mutex);
    HF_ASSIGN_OR_RETURN(new_id, core->NewSegmentId());
  }
  HF_ASSIGN_OR_RETURN(const auto writer,
                      PartFileWriter::Create(core->file_system, core->TemporaryPath(new_id),
                                             core->SegmentPath(new_id), PartFileKind::kSegment,
                                             static_cast<uint64_t>(new_id), core->store_id));
  std::vector<std::byte> buffer;
  for (LivePart& part : parts) {
    buffer.resize(part.row.bytes);
    const Status read = ReadChecked(file.get(), part.row.offset, buffer, part.row.hash,
                                    core->SegmentPath(segment.id));
    if (read.code() == StatusCode::kDataLoss) {
      return QuarantinePartUsers(core, part.id, read.message());
    }
    HF_RETURN_IF_ERROR(read);
    HF_ASSIGN_OR_RETURN(const PartInfo info, writer->Add(part.type, 0, buffer));
    part.row = {new_id, info.offset, info.bytes, info.hash};
  }
  HF_RETURN_IF_ERROR(writer->Finish());
  {
    std::lock_guard lock(core->db_mutex);
    Database* db = core->db.get();
    HF_RETURN_IF_ERROR(core->Change([&]() -> Status {
      HF_RETURN_IF_ERROR(RunSql(db, "INSERT INTO segment(id, bytes, created) VALUES(?, ?, ?)",
                                new_id, writer->bytes(), core->options.now_ms()));
      for (const LivePart& part : parts) {
        HF_RETURN_IF_ERROR(RunSql(db, "UPDATE part SET segment = ?, offset = ? WHERE id = ?",
                                  new_id, part.row.offset, part.id));
      }
      return OkStatus();
    }));
  }
  ++report->segments_rewritten;
  report->bytes_rewritten += writer->bytes();
  SegmentRow old = segment;
  old.bytes -= std::min(old.bytes, writer->bytes());
  const Status deleted = DeleteSegment(core, old, report);
  if (deleted.ok()) --report->segments_deleted;
  return deleted;
}

// A file the catalogue does not know. One of this store is what an interrupted save or GC left;
// any other is not ours to delete.
Status RemoveUnknown(StoreCore* core, const std::string& name, GcReport* report) {
  const std::string path = core->segments_dir + "/" + name;
  bool ours = name.ends_with(".tmp");
  if (!ours) {
    const auto reader = PartFileReader::Open(core->file_system, path, PartFileKind::kSegment);
    ours = reader.ok() && (*reader)->store_id() == core->store_id;
    const StatusCode code = reader.status().code();
    if (!reader.ok() && code != StatusCode::kDataLoss && code != StatusCode::kInvalidArgument &&
        code != StatusCode::kUnimplemented && code != StatusCode::kPermissionDenied) {
      return reader.status();  // the disk failed; nothing is known of the file
    }
  }
  if (ours) {
    HF_RETURN_IF_ERROR(core->file_system->Unlink(path));
    ++report->orphans_removed;
    return OkStatus();
  }
  HF_RETURN_IF_ERROR(MakeDirs(core->file_system, core->quarantine_dir));
  HF_RETURN_IF_ERROR(core->file_system->Rename(path, core->quarantine_dir + "/" + name));
  HF_RETURN_IF_ERROR(core->file_system->SyncDir(core->quarantine_dir));
  ++report->orphans_kept;
  return OkStatus();
}

struct Candidate {
  std::string id;
  int64_t space;
};

Result<std::vector<Candidate>> LeastRecentlyUsed(StoreCore* core, std::string_view except) {
  std::lock_guard lock(core->db_mutex);
  std::vector<Candidate> candidates;
  Query query(core->db.get(),
              "SELECT id, space FROM conversation WHERE pinned = 0 AND id <> ? ORDER BY used, id",
              except);
  while (query.Next()) candidates.push_back({query.Text(0), query.Int(1)});
  HF_RETURN_IF_ERROR(query.status());
  return candidates;
}

// Runs one removal, drops what became unreachable, and gives the bytes that are still needed.
Result<uint64_t> Shrink(StoreCore* core, const std::function<Status(Database*)>& removal) {
  std::lock_guard lock(core->db_mutex);
  Database* db = core->db.get();
  HF_RETURN_IF_ERROR(core->Change([&]() -> Status {
    HF_RETURN_IF_ERROR(removal(db));
    return DropUnreachable(db);
  }));
  Query query(db, "SELECT coalesce(sum(bytes), 0) FROM part");
  const int64_t bytes = query.Next() ? query.Int(0) : 0;
  HF_RETURN_IF_ERROR(query.status());
  return static_cast<uint64_t>(bytes);
}

// The first and the deepest state of a conversation are worth more than those between.
Status ThinStates(Database* db, std::string_view id) {
  return RunSql(db,
                "DELETE FROM kept WHERE conversation = ?1 AND kind < ?2 AND state NOT IN ("
                "SELECT kept.state FROM kept JOIN state ON state.id = kept.state "
                "WHERE kept.conversation = ?1 ORDER BY state.position DESC LIMIT 1)",
                id, static_cast<int>(StateKind::kSystem));
}

Status DeleteConversationRows(Database* db, std::string_view id) {
  for (const char* sql :
       {"DELETE FROM conversation WHERE id = ?", "DELETE FROM kept WHERE conversation = ?",
        "DELETE FROM message WHERE conversation = ?",
        "DELETE FROM tool_call WHERE conversation = ?"}) {
    HF_RETURN_IF_ERROR(RunSql(db, sql, id));
  }
  return OkStatus();
}

}  // namespace

Status RemoveOrphans(StoreCore* core, GcReport* report) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      core->file_system->List(core->segments_dir));
  std::set<std::string> known;
  {
    std::lock_guard lock(core->db_mutex);
    HF_ASSIGN_OR_RETURN(const std::vector<SegmentRow> segments, ReadSegments(core->db.get()));
    for (const SegmentRow& segment : segments) {
      known.insert(core->SegmentPath(segment.id).substr(core->segments_dir.size() + 1));
    }
  }
  for (const std::string& name : names) {
    if (!known.contains(name)) HF_RETURN_IF_ERROR(RemoveUnknown(core, name, report));
  }
  return OkStatus();
}

Result<GcReport> CollectLocked(StoreCore* core, double sparse_share) {
  HF_RETURN_IF_ERROR(core->CheckPresent());
  GcReport report;
  std::vector<SegmentRow> segments;
  {
    std::lock_guard lock(core->db_mutex);
    Database* db = core->db.get();
    // This commit also settles whether an earlier one that failed reached the disk: it takes its
    // place in the log. Only then are files nobody knows really leftovers.
    HF_RETURN_IF_ERROR(core->Change([&]() -> Status {
      HF_ASSIGN_OR_RETURN(const int64_t n_runs, MetaInt(db, "gc_runs"));
      HF_RETURN_IF_ERROR(SetMetaInt(db, "gc_runs", n_runs + 1));
      return DropUnreachable(db);
    }));
    HF_ASSIGN_OR_RETURN(segments, ReadSegments(db));
  }
  for (const SegmentRow& segment : segments) {
    if (segment.quarantined) continue;
    const double share = static_cast<double>(segment.live_bytes) /
                         static_cast<double>(std::max<uint64_t>(segment.bytes, 1));
    if (segment.live_bytes == 0) {
      HF_RETURN_IF_ERROR(DeleteSegment(core, segment, &report));
    } else if (share < sparse_share) {
      HF_RETURN_IF_ERROR(RewriteSegment(core, segment, &report));
    }
  }
  HF_RETURN_IF_ERROR(RemoveOrphans(core, &report));
  return report;
}

Result<GcReport> CollectGarbage(StoreCore* core) {
  std::lock_guard lock(core->write_mutex);
  return CollectLocked(core, core->options.sparse_share);
}

Status RemoveConversation(StoreCore* core, std::string_view id) {
  std::lock_guard write_lock(core->write_mutex);
  std::lock_guard lock(core->db_mutex);
  Database* db = core->db.get();
  return core->Change([&]() -> Status {
    {
      Query query(db, "SELECT 1 FROM conversation WHERE id = ?", id);
      const bool there = query.Next();
      HF_RETURN_IF_ERROR(query.status());
      if (!there) return NotFoundError(fmt::format("conversation {} is not in the store", id));
    }
    HF_RETURN_IF_ERROR(DeleteConversationRows(db, id));
    HF_RETURN_IF_ERROR(DropUnreachable(db));
    return RefreshAllDurable(core);
  });
}

Status MakeRoom(StoreCore* core, uint64_t bytes, std::string_view except) {
  const uint64_t budget = core->options.disk_budget_bytes;
  if (bytes > budget) {
    return ResourceExhaustedError(fmt::format("store {}: the save needs {} bytes, the budget is {}",
                                              core->options.dir, bytes, budget));
  }
  // Headers and padding, which the parts' sizes leave out, are within this share for real layouts.
  const uint64_t target = (budget - bytes) - (budget - bytes) / 64;
  HF_ASSIGN_OR_RETURN(uint64_t needed, Shrink(core, [](Database*) { return OkStatus(); }));
  HF_ASSIGN_OR_RETURN(const std::vector<Candidate> candidates, LeastRecentlyUsed(core, except));
  for (size_t i = 0; i < candidates.size() && needed > target; ++i) {
    HF_ASSIGN_OR_RETURN(
        needed, Shrink(core, [&](Database* db) { return ThinStates(db, candidates[i].id); }));
  }
  for (size_t i = 0; i < candidates.size() && needed > target; ++i) {
    HF_ASSIGN_OR_RETURN(needed, Shrink(core, [&](Database* db) {
                          return DeleteConversationRows(db, candidates[i].id);
                        }));
  }
  // A rewrite may itself need room: first what is mostly empty, then everything not quite full.
  HF_RETURN_IF_ERROR(CollectLocked(core, core->options.sparse_share).status());
  uint64_t used = 0;
  {
    std::lock_guard lock(core->db_mutex);
    HF_ASSIGN_OR_RETURN(const auto segments, ReadSegments(core->db.get()));
    for (const SegmentRow& segment : segments) used += segment.bytes;
    HF_RETURN_IF_ERROR(core->Change([&] { return RefreshAllDurable(core); }));
  }
  if (used + bytes <= budget) return OkStatus();
  return CollectLocked(core, 0.95).status();
}

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

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "store/segment_table.h"
#include "store/store_core.h"

namespace holdfast {
namespace {

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

// Copies what is still needed into a new segment. A part that does not verify is quarantined and
// the segment left as it is.
Status RewriteSegment(StoreCore* core, const SegmentRow& segment, GcReport* report) {
  HF_ASSIGN_OR_RETURN(std::vector<LivePart> parts, PartsOf(core, segment.id));
  const auto opened = core->file_system->Open(core->SegmentPath(segment.id), OpenMode::kRead);
  if (opened.status().code() == StatusCode::kNotFound) {
    for (const LivePart& part : parts) {
      HF_RETURN_IF_ERROR(QuarantinePartUsers(core, part.id, opened.status().message()));
    }
    return OkStatus();
  }
  HF_RETURN_IF_ERROR(opened.status());
  File* file = opened->get();
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
    const Status read =
        ReadChecked(file, part.row.offset, buffer, part.row.hash, core->SegmentPath(segment.id));
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

}  // namespace holdfast

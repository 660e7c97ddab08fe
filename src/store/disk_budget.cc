// Removing conversations: because a person says so, or because the disk budget does.

#include <fmt/format.h>

#include "store/segment_table.h"
#include "store/store_core.h"

namespace holdfast {
namespace {

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
  Query query(db, "SELECT coalesce(sum(" HF_FOOTPRINT_SQL_ "), 0) FROM part");
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
  // Segments are never quite full: a share is left for what a rewrite would not win back.
  const uint64_t target = (budget - bytes) - (budget - bytes) / 16;
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

}  // namespace holdfast

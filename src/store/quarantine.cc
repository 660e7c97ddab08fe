#include <fmt/format.h>

#include "store/store_core.h"

namespace holdfast {
namespace {

// Takes a part out of use wherever it is named. Inside a transaction.
Status Disable(StoreCore* core, int64_t part, std::string_view what, const std::string& reason) {
  Database* db = core->db.get();
  HF_RETURN_IF_ERROR(QuarantinePart(db, part, what, reason, core->options.now_ms()));
  HF_RETURN_IF_ERROR(RunSql(db, "UPDATE page SET bad = ? WHERE trunk = ?", reason, part));
  HF_RETURN_IF_ERROR(RunSql(db, "UPDATE state SET bad = ? WHERE trunk = ?", reason, part));
  HF_RETURN_IF_ERROR(
      RunSql(db, "UPDATE page SET draft = 0, draft_space = 0 WHERE draft = ?", part));
  return RunSql(db, "UPDATE state SET draft = 0, draft_space = 0 WHERE draft = ?", part);
}

}  // namespace

Status QuarantinePartUsers(StoreCore* core, int64_t part, const std::string& reason) {
  std::lock_guard lock(core->db_mutex);
  return core->Change([&]() -> Status {
    HF_RETURN_IF_ERROR(Disable(core, part, "does not verify", reason));
    return RefreshAllDurable(core);
  });
}

Status QuarantineState(StoreCore* core, const StoredPrefix& prefix, const std::string& reason) {
  HF_RETURN_IF_ERROR(core->NeedKeys());
  std::lock_guard lock(core->db_mutex);
  Database* db = core->db.get();
  return core->Change([&]() -> Status {
    // All checksums were right, so what was saved was wrong: the state or any of its pages. None of
    // them is used again; reading the prompt anew and saving it replaces them.
    int64_t part = 0;
    {
      Query query(db, "SELECT trunk FROM state WHERE id = ?", prefix.state_id);
      if (!query.Next()) {
        HF_RETURN_IF_ERROR(query.status());
        return NotFoundError("quarantine: the state is not in the store any more");
      }
      part = query.Int(0);
    }
    HF_RETURN_IF_ERROR(Disable(core, part, "failed its proof", reason));
    for (const int64_t page : prefix.page_ids) {
      HF_ASSIGN_OR_RETURN(const PageRow row, ReadPage(db, page));
      HF_RETURN_IF_ERROR(Disable(core, row.trunk, "page of a state that failed its proof", reason));
    }
    return RefreshAllDurable(core);
  });
}

Result<int64_t> SetFullModelIdentity(StoreCore* core, const Hash128& full) {
  HF_RETURN_IF_ERROR(core->NeedKeys());
  std::lock_guard write_lock(core->write_mutex);
  std::lock_guard lock(core->db_mutex);
  Database* db = core->db.get();
  StoreKeys keys = *core->keys;
  keys.model.full = full;
  SpaceIds spaces = core->spaces;
  int64_t n_quarantined = 0;
  if (spaces.space != 0) {
    HF_RETURN_IF_ERROR(core->Change([&]() -> Status {
      std::optional<Hash128> stored;
      {
        Query query(db, "SELECT full FROM space WHERE id = ?", spaces.space);
        if (query.Next()) stored = query.Hash(0);
        HF_RETURN_IF_ERROR(query.status());
      }
      if (!stored) {
        return RunSql(db, "UPDATE space SET full = ? WHERE id = ?", full, spaces.space);
      }
      if (*stored == full) return OkStatus();
      const std::string reason =
          fmt::format("full model identity {} of these sessions, this model's is {}", stored->Hex(),
                      full.Hex());
      HF_RETURN_IF_ERROR(RunSql(db, "UPDATE space SET bad = ? WHERE id = ?", reason, spaces.space));
      HF_RETURN_IF_ERROR(RunSql(db,
                                "UPDATE conversation SET bad = ?, durable = 0 "
                                "WHERE space = ? AND bad IS NULL",
                                reason, spaces.space));
      n_quarantined = db->n_changes();
      HF_ASSIGN_OR_RETURN(spaces, FindSpaces(db, keys));
      return OkStatus();
    }));
  }
  core->keys->model.full = full;  // read under db_mutex only
  core->spaces = spaces;
  return n_quarantined;
}

}  // namespace holdfast

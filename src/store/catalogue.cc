#include "store/catalogue.h"

#include <fmt/format.h>

namespace holdfast {
namespace {

constexpr int64_t kApplicationId = 0x48465354;  // "HFST"

// AUTOINCREMENT: an id is never given out twice, so a handle to something removed finds nothing;
// and a parent's id is always smaller than its child's, so chains cannot have loops.
constexpr const char* kSchema = R"sql(
CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
CREATE TABLE cache(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE space(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  model TEXT NOT NULL, config BLOB NOT NULL, vocabulary BLOB NOT NULL,
  provisional BLOB NOT NULL, full BLOB,
  trunk_layout INTEGER NOT NULL, kv_format TEXT NOT NULL, numerics TEXT NOT NULL,
  page_tokens INTEGER NOT NULL, page_bytes INTEGER NOT NULL, running_bytes INTEGER NOT NULL,
  vocab_size INTEGER NOT NULL, bad TEXT) STRICT;
CREATE INDEX space_by_keys ON space(provisional, trunk_layout);
CREATE TABLE draft_space(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  model BLOB NOT NULL, layout INTEGER NOT NULL,
  page_bytes INTEGER NOT NULL, running_bytes INTEGER NOT NULL) STRICT;
CREATE TABLE segment(id INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, created INTEGER NOT NULL)
  STRICT;
CREATE TABLE part(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  segment INTEGER NOT NULL, offset INTEGER NOT NULL, bytes INTEGER NOT NULL, hash BLOB NOT NULL)
  STRICT;
CREATE INDEX part_by_segment ON part(segment);
CREATE TABLE page(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  space INTEGER NOT NULL, parent INTEGER NOT NULL, hash INTEGER NOT NULL,
  tokens BLOB NOT NULL, content BLOB,
  trunk INTEGER NOT NULL, draft_space INTEGER NOT NULL DEFAULT 0, draft INTEGER NOT NULL DEFAULT 0,
  bad TEXT) STRICT;
CREATE INDEX page_by_parent ON page(parent, space, hash);
CREATE TABLE state(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  space INTEGER NOT NULL, parent INTEGER NOT NULL, position INTEGER NOT NULL,
  tail BLOB NOT NULL, content BLOB, page INTEGER NOT NULL,
  trunk INTEGER NOT NULL, draft_space INTEGER NOT NULL DEFAULT 0, draft INTEGER NOT NULL DEFAULT 0,
  next_token INTEGER, row BLOB, bad TEXT) STRICT;
CREATE INDEX state_by_parent ON state(parent, space, position);
CREATE INDEX state_by_page ON state(page);
CREATE TABLE conversation(
  id TEXT PRIMARY KEY, space INTEGER NOT NULL,
  title TEXT NOT NULL, tags TEXT NOT NULL, pinned INTEGER NOT NULL,
  forked_from TEXT NOT NULL, fork_position INTEGER NOT NULL,
  created INTEGER NOT NULL, used INTEGER NOT NULL,
  parent INTEGER NOT NULL, page INTEGER NOT NULL,
  tail BLOB NOT NULL, content BLOB, n_live INTEGER NOT NULL,
  durable INTEGER NOT NULL, bad TEXT) STRICT;
CREATE INDEX conversation_by_use ON conversation(used);
CREATE TABLE kept(
  conversation TEXT NOT NULL, state INTEGER NOT NULL, kind INTEGER NOT NULL,
  PRIMARY KEY(conversation, state)) STRICT, WITHOUT ROWID;
CREATE INDEX kept_by_state ON kept(state);
CREATE TABLE message(
  conversation TEXT NOT NULL, number INTEGER NOT NULL, role TEXT NOT NULL, content TEXT NOT NULL,
  hash BLOB NOT NULL, token_begin INTEGER NOT NULL, token_end INTEGER NOT NULL,
  PRIMARY KEY(conversation, number)) STRICT, WITHOUT ROWID;
CREATE INDEX message_by_hash ON message(hash);
CREATE TABLE tool_call(
  conversation TEXT NOT NULL, number INTEGER NOT NULL, place INTEGER NOT NULL, id TEXT NOT NULL,
  PRIMARY KEY(conversation, number, place)) STRICT, WITHOUT ROWID;
CREATE INDEX tool_call_by_id ON tool_call(id);
CREATE TABLE quarantine(
  part INTEGER PRIMARY KEY, what TEXT NOT NULL, reason TEXT NOT NULL, time INTEGER NOT NULL)
  STRICT;
)sql";

Result<int64_t> PragmaInt(Database* db, const char* sql) {
  Query query(db, sql);
  const int64_t value = query.Next() ? query.Int(0) : 0;
  HF_RETURN_IF_ERROR(query.status());
  return value;
}

Status CreateSchema(Database* db) {
  Transaction transaction(db);
  HF_RETURN_IF_ERROR(transaction.Begin());
  HF_RETURN_IF_ERROR(db->Execute(kSchema));
  HF_RETURN_IF_ERROR(
      db->Execute(fmt::format("PRAGMA application_id = {}", kApplicationId).c_str()));
  HF_RETURN_IF_ERROR(
      db->Execute(fmt::format("PRAGMA user_version = {}", kCatalogueVersion).c_str()));
  return transaction.Commit();
}

}  // namespace

Result<std::unique_ptr<Database>> OpenCatalogue(FileSystem* file_system, const std::string& path) {
  HF_ASSIGN_OR_RETURN(std::unique_ptr<Database> db, Database::Open(file_system, path));
  HF_ASSIGN_OR_RETURN(const int64_t version, PragmaInt(db.get(), "PRAGMA user_version"));
  HF_ASSIGN_OR_RETURN(const int64_t application, PragmaInt(db.get(), "PRAGMA application_id"));
  HF_ASSIGN_OR_RETURN(const int64_t n_tables,
                      PragmaInt(db.get(), "SELECT count(*) FROM sqlite_schema"));
  if (n_tables == 0 && version == 0) {
    HF_RETURN_IF_ERROR(CreateSchema(db.get()));
    return db;
  }
  if (application != kApplicationId) {
    return DataLossError(fmt::format("{}: application id {:#x}, wanted {:#x}: not a holdfast store",
                                     path, application, kApplicationId));
  }
  if (version > kCatalogueVersion) {
    return UnimplementedError(
        fmt::format("{}: catalogue of version {}, this holdfast reads up to "
                    "{}; use the newer one or another --store",
                    path, version, kCatalogueVersion));
  }
  if (version < 1) return DataLossError(fmt::format("{}: catalogue of version {}", path, version));
  return db;
}

Result<int64_t> MetaInt(Database* db, std::string_view key) {
  Query query(db, "SELECT value FROM meta WHERE key = ?", key);
  const int64_t value = query.Next() ? query.Int(0) : 0;
  HF_RETURN_IF_ERROR(query.status());
  return value;
}

Status SetMetaInt(Database* db, std::string_view key, int64_t value) {
  return RunSql(db,
                "INSERT INTO meta(key, value) VALUES(?, ?) "
                "ON CONFLICT(key) DO UPDATE SET value = excluded.value",
                key, value);
}

Result<SpaceIds> FindSpaces(Database* db, const StoreKeys& keys) {
  SpaceIds ids;
  // Before the full identity is known the newest that agrees so far is the best guess; it is
  // checked by SetFullIdentity() later.
  Query query(db,
              "SELECT id FROM space WHERE provisional = ?1 AND trunk_layout = ?2 AND numerics = ?3 "
              "AND bad IS NULL AND (full IS NULL OR ?4 IS NULL OR full = ?4) "
              "AND page_tokens = ?5 AND page_bytes = ?6 AND running_bytes = ?7 "
              "ORDER BY full IS NULL, id DESC LIMIT 1",
              keys.model.provisional, keys.trunk_layout_key, keys.numerics_key, keys.model.full,
              keys.page_tokens, static_cast<uint64_t>(keys.page_bytes),
              static_cast<uint64_t>(keys.running_bytes));
  if (query.Next()) ids.space = query.Int(0);
  HF_RETURN_IF_ERROR(query.status());
  if (keys.draft_layout_key == 0) return ids;
  Query draft(db,
              "SELECT id FROM draft_space WHERE model = ? AND layout = ? AND page_bytes = ? "
              "AND running_bytes = ? ORDER BY id LIMIT 1",
              keys.model.draft, keys.draft_layout_key, static_cast<uint64_t>(keys.draft_page_bytes),
              static_cast<uint64_t>(keys.draft_running_bytes));
  if (draft.Next()) ids.draft_space = draft.Int(0);
  HF_RETURN_IF_ERROR(draft.status());
  return ids;
}

Result<SpaceIds> EnsureSpaces(Database* db, const StoreKeys& keys) {
  HF_ASSIGN_OR_RETURN(SpaceIds ids, FindSpaces(db, keys));
  if (ids.space == 0) {
    HF_RETURN_IF_ERROR(
        RunSql(db,
               "INSERT INTO space(model, config, vocabulary, provisional, full, trunk_layout, "
               "kv_format, numerics, page_tokens, page_bytes, running_bytes, vocab_size) "
               "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
               keys.model.name, keys.model.config, keys.model.vocabulary, keys.model.provisional,
               keys.model.full, keys.trunk_layout_key, keys.kv_format, keys.numerics_key,
               keys.page_tokens, static_cast<uint64_t>(keys.page_bytes),
               static_cast<uint64_t>(keys.running_bytes), keys.vocab_size));
    ids.space = db->last_insert_id();
  }
  if (ids.draft_space == 0 && keys.draft_layout_key != 0) {
    HF_RETURN_IF_ERROR(RunSql(
        db, "INSERT INTO draft_space(model, layout, page_bytes, running_bytes) VALUES(?, ?, ?, ?)",
        keys.model.draft, keys.draft_layout_key, static_cast<uint64_t>(keys.draft_page_bytes),
        static_cast<uint64_t>(keys.draft_running_bytes)));
    ids.draft_space = db->last_insert_id();
  }
  return ids;
}

Result<StoreKeys> ReadSpaceKeys(Database* db, const SpaceIds& ids) {
  StoreKeys keys;
  Query query(db,
              "SELECT model, config, vocabulary, provisional, full, trunk_layout, kv_format, "
              "numerics, page_tokens, page_bytes, running_bytes, vocab_size FROM space "
              "WHERE id = ?",
              ids.space);
  if (!query.Next()) {
    HF_RETURN_IF_ERROR(query.status());
    return DataLossError(fmt::format("catalogue: no space {}", ids.space));
  }
  keys.model.name = query.Text(0);
  keys.model.config = query.Hash(1).value_or(Hash128{});
  keys.model.vocabulary = query.Hash(2).value_or(Hash128{});
  keys.model.provisional = query.Hash(3).value_or(Hash128{});
  keys.model.full = query.Hash(4);
  keys.trunk_layout_key = static_cast<uint64_t>(query.Int(5));
  keys.kv_format = query.Text(6);
  keys.numerics_key = query.Text(7);
  keys.page_tokens = static_cast<int>(query.Int(8));
  keys.page_bytes = static_cast<size_t>(query.Int(9));
  keys.running_bytes = static_cast<size_t>(query.Int(10));
  keys.vocab_size = query.Int(11);
  if (ids.draft_space != 0) {
    Query draft(db, "SELECT model, layout, page_bytes, running_bytes FROM draft_space WHERE id = ?",
                ids.draft_space);
    if (draft.Next()) {
      keys.model.draft = draft.Hash(0).value_or(Hash128{});
      keys.draft_layout_key = static_cast<uint64_t>(draft.Int(1));
      keys.draft_page_bytes = static_cast<size_t>(draft.Int(2));
      keys.draft_running_bytes = static_cast<size_t>(draft.Int(3));
    }
    HF_RETURN_IF_ERROR(draft.status());
  }
  HF_RETURN_IF_ERROR(keys.Validate());
  return keys;
}

Result<PartRow> ReadPart(Database* db, int64_t id) {
  Query query(db,
              "SELECT part.segment, part.offset, part.bytes, part.hash, segment.bytes FROM part "
              "JOIN segment ON segment.id = part.segment WHERE part.id = ?",
              id);
  if (!query.Next()) {
    HF_RETURN_IF_ERROR(query.status());
    return NotFoundError(fmt::format("catalogue: part {} is not there", id));
  }
  const int64_t offset = query.Int(1), bytes = query.Int(2), segment_bytes = query.Int(4);
  const std::optional<Hash128> hash = query.Hash(3);
  if (offset < 0 || bytes < 0 || offset > segment_bytes || bytes > segment_bytes - offset ||
      !hash) {
    return DataLossError(fmt::format("catalogue: part {} of {} bytes at {} in a segment of {}", id,
                                     bytes, offset, segment_bytes));
  }
  return PartRow{query.Int(0), static_cast<uint64_t>(offset), static_cast<uint64_t>(bytes), *hash};
}

Result<int64_t> InsertPart(Database* db, const PartRow& part) {
  HF_RETURN_IF_ERROR(RunSql(db, "INSERT INTO part(segment, offset, bytes, hash) VALUES(?, ?, ?, ?)",
                            part.segment, part.offset, part.bytes, part.hash));
  return db->last_insert_id();
}

Status QuarantinePart(Database* db, int64_t part, std::string_view what, std::string_view reason,
                      int64_t now_ms) {
  return RunSql(db, "INSERT OR IGNORE INTO quarantine(part, what, reason, time) VALUES(?, ?, ?, ?)",
                part, what, reason, now_ms);
}

Status DropUnreachable(Database* db) {
  HF_RETURN_IF_ERROR(RunSql(db, "DELETE FROM state WHERE id NOT IN (SELECT state FROM kept)"));
  HF_RETURN_IF_ERROR(RunSql(db,
                            "WITH RECURSIVE live(id) AS ("
                            "  SELECT parent FROM conversation UNION SELECT page FROM conversation"
                            "  UNION SELECT parent FROM state UNION SELECT page FROM state"
                            "  UNION SELECT page.parent FROM page JOIN live ON page.id = live.id)"
                            "DELETE FROM page WHERE id NOT IN (SELECT id FROM live)"));
  return RunSql(db,
                "DELETE FROM part WHERE id NOT IN ("
                "  SELECT trunk FROM page UNION SELECT draft FROM page"
                "  UNION SELECT trunk FROM state UNION SELECT draft FROM state"
                "  UNION SELECT part FROM quarantine)");
}

}  // namespace holdfast

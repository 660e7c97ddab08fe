#include "store/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <bit>
#include <cstring>

namespace holdfast {

Result<std::unique_ptr<Database>> Database::Open(FileSystem* file_system, const std::string& path) {
  HF_ASSIGN_OR_RETURN(auto vfs, SqliteVfs::Register(file_system));
  const std::string vfs_name = vfs->name();
  std::unique_ptr<Database> db(new Database(std::move(vfs)));
  db->path_ = path;
  const int code = sqlite3_open_v2(
      path.c_str(), &db->handle_,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
      vfs_name.c_str());
  if (code != SQLITE_OK) return db->Error(code, "opening");
  sqlite3_extended_result_codes(db->handle_, 1);
  sqlite3_db_config(db->handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db->handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  HF_RETURN_IF_ERROR(
      db->Execute("PRAGMA locking_mode = EXCLUSIVE;"
                  "PRAGMA temp_store = MEMORY;"
                  "PRAGMA mmap_size = 0;"
                  "PRAGMA cell_size_check = ON;"
                  "PRAGMA secure_delete = ON;"
                  "PRAGMA journal_mode = WAL;"
                  "PRAGMA synchronous = FULL;"
                  // Frames whose fsync failed in an earlier process may be in the page cache only;
                  // moved into the database and synced they are what they seem.
                  "PRAGMA wal_checkpoint(TRUNCATE);"));
  return db;
}

Database::~Database() {
  for (const auto& [sql, statement] : idle_) sqlite3_finalize(statement);
  sqlite3_close_v2(handle_);
}

Status Database::Error(int code, std::string_view what) {
  const Status cause = vfs_->TakeError();
  const std::string text =
      fmt::format("{}: {}: {}", path_, what,
                  handle_ == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(handle_));
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
      return DataLossError(text);
    case SQLITE_NOMEM:
      return ResourceExhaustedError(text);
    case SQLITE_FULL:
      return ResourceExhaustedError(cause.ok() ? text : text + ": " + cause.message());
    default:
      break;
  }
  if (!cause.ok()) return Status(cause.code(), text + ": " + cause.message());
  return InternalError(text);
}

Status Database::Execute(const char* sql) {
  static_cast<void>(vfs_->TakeError());
  const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? OkStatus() : Error(code, sql);
}

int64_t Database::last_insert_id() const { return sqlite3_last_insert_rowid(handle_); }
int Database::n_changes() const { return sqlite3_changes(handle_); }

Result<sqlite3_stmt*> Database::TakeStatement(const char* sql) {
  static_cast<void>(vfs_->TakeError());
  const auto found = idle_.find(std::string_view(sql));
  if (found != idle_.end()) {
    sqlite3_stmt* statement = found->second;
    idle_.erase(found);
    return statement;
  }
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v3(handle_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return Error(code, sql);
  return statement;
}

Query::Query(Database* db, const char* sql, Unbound) : db_(db), sql_(sql) {
  Result<sqlite3_stmt*> statement = db->TakeStatement(sql);
  if (statement.ok()) {
    statement_ = *statement;
  } else {
    status_ = statement.status();
  }
}

Query::~Query() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  db_->idle_.emplace(std::move(sql_), statement_);
}

void Query::Check(int code) {
  if (code != SQLITE_OK && status_.ok()) status_ = db_->Error(code, sql_);
}

void Query::Bind(int index, int64_t value) {
  if (status_.ok()) Check(sqlite3_bind_int64(statement_, index, value));
}

void Query::Bind(int index, std::string_view text) {
  if (!status_.ok()) return;
  Check(sqlite3_bind_text64(statement_, index, text.data() == nullptr ? "" : text.data(),
                            text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

void Query::Bind(int index, std::span<const std::byte> blob) {
  if (!status_.ok()) return;
  // A null pointer would bind NULL, not an empty blob.
  const void* data = blob.empty() ? static_cast<const void*>("") : blob.data();
  Check(sqlite3_bind_blob64(statement_, index, data, blob.size(), SQLITE_TRANSIENT));
}

void Query::Bind(int index, const Hash128& hash) {
  static_assert(std::endian::native == std::endian::little);
  std::byte bytes[16];
  std::memcpy(bytes, &hash.low, 8);
  std::memcpy(bytes + 8, &hash.high, 8);
  Bind(index, std::span<const std::byte>(bytes));
}

void Query::Bind(int index, std::nullptr_t) {
  if (status_.ok()) Check(sqlite3_bind_null(statement_, index));
}

bool Query::Next() {
  if (!status_.ok()) return false;
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) status_ = db_->Error(code, sql_);
  return false;
}

Status Query::Run() {
  while (Next()) {
  }
  return status_;
}

bool Query::IsNull(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

int64_t Query::Int(int column) const {
  if (sqlite3_column_type(statement_, column) != SQLITE_INTEGER) return 0;
  return sqlite3_column_int64(statement_, column);
}

std::string Query::Text(int column) const {
  if (sqlite3_column_type(statement_, column) != SQLITE_TEXT) return "";
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  if (text == nullptr) return "";
  return std::string(text, sqlite3_column_bytes(statement_, column));
}

std::span<const std::byte> Query::Blob(int column) const {
  if (sqlite3_column_type(statement_, column) != SQLITE_BLOB) return {};
  const auto* data = static_cast<const std::byte*>(sqlite3_column_blob(statement_, column));
  if (data == nullptr) return {};
  return {data, static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

std::optional<Hash128> Query::Hash(int column) const {
  const std::span<const std::byte> bytes = Blob(column);
  if (bytes.size() != 16) return std::nullopt;
  Hash128 hash;
  std::memcpy(&hash.low, bytes.data(), 8);
  std::memcpy(&hash.high, bytes.data() + 8, 8);
  return hash;
}

Transaction::~Transaction() {
  // SQLite may have rolled back by itself; then this does nothing.
  if (open_ && sqlite3_get_autocommit(db_->handle_) == 0) {
    static_cast<void>(db_->Execute("ROLLBACK"));
  }
}

Status Transaction::Begin() {
  HF_RETURN_IF_ERROR(db_->Execute("BEGIN IMMEDIATE"));
  open_ = true;
  return OkStatus();
}

Status Transaction::Commit() {
  HF_RETURN_IF_ERROR(db_->Execute("COMMIT"));
  open_ = false;
  return OkStatus();
}

}  // namespace holdfast

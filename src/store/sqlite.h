#ifndef HOLDFAST_STORE_SQLITE_H_
#define HOLDFAST_STORE_SQLITE_H_

// A thin layer over SQLite: one connection, prepared statements kept for reuse, errors as Status.
//
// Errors: kResourceExhausted for a full disk, kDataLoss for a damaged database, else what the file
// system said or kInternal.
// Threads: one caller at a time.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash128.h"
#include "base/status.h"
#include "store/sqlite_vfs.h"

struct sqlite3;
struct sqlite3_stmt;

namespace holdfast {

class Database {
 public:
  // Opens or creates; WAL, every commit synced, nobody else (see sqlite_vfs.h). Whatever a crash
  // left in the log is moved into the database and synced before this returns.
  static Result<std::unique_ptr<Database>> Open(FileSystem* file_system, const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Runs statements without parameters.
  Status Execute(const char* sql);
  int64_t last_insert_id() const;
  int n_changes() const;

 private:
  friend class Query;
  friend class Transaction;
  explicit Database(std::unique_ptr<SqliteVfs> vfs) : vfs_(std::move(vfs)) {}
  Status Error(int code, std::string_view what);
  Result<sqlite3_stmt*> TakeStatement(const char* sql);

  std::unique_ptr<SqliteVfs> vfs_;
  sqlite3* handle_ = nullptr;
  std::string path_;
  std::multimap<std::string, sqlite3_stmt*, std::less<>> idle_;  // by text
};

// One run of a statement, its parameters bound in order:
//   Query query(db, "SELECT id FROM page WHERE parent = ?", parent);
//   while (query.Next()) use(query.Int(0));
//   HF_RETURN_IF_ERROR(query.status());
class Query {
 public:
  template <typename... Args>
  Query(Database* db, const char* sql, const Args&... args) : Query(db, sql, Unbound{}) {
    int index = 0;
    (Bind(++index, args), ...);
  }
  ~Query();
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  // The next row; false at the end and on error.
  bool Next();
  const Status& status() const { return status_; }
  // Runs to the end.
  Status Run();

  // Columns of the present row. A column of another type reads as 0, empty or nothing.
  bool IsNull(int column) const;
  int64_t Int(int column) const;
  std::string Text(int column) const;
  std::span<const std::byte> Blob(int column) const;  // until the next call of Next()
  std::optional<Hash128> Hash(int column) const;      // nothing unless 16 bytes

 private:
  struct Unbound {};
  Query(Database* db, const char* sql, Unbound);
  void Bind(int index, int64_t value);
  void Bind(int index, uint64_t value) { Bind(index, static_cast<int64_t>(value)); }
  void Bind(int index, int value) { Bind(index, static_cast<int64_t>(value)); }
  void Bind(int index, bool value) { Bind(index, static_cast<int64_t>(value)); }
  void Bind(int index, std::string_view text);
  void Bind(int index, const std::string& text) { Bind(index, std::string_view(text)); }
  void Bind(int index, const char* text) { Bind(index, std::string_view(text)); }
  void Bind(int index, std::span<const std::byte> blob);
  void Bind(int index, const std::vector<std::byte>& blob) {
    Bind(index, std::span<const std::byte>(blob));
  }
  void Bind(int index, const Hash128& hash);
  void Bind(int index, std::nullptr_t);
  template <typename T>
  void Bind(int index, const std::optional<T>& value) {
    if (value) {
      Bind(index, *value);
    } else {
      Bind(index, nullptr);
    }
  }
  void Check(int code);

  Database* db_;
  std::string sql_;
  sqlite3_stmt* statement_ = nullptr;
  Status status_;
};

// Runs one statement to its end.
template <typename... Args>
Status RunSql(Database* db, const char* sql, const Args&... args) {
  Query query(db, sql, args...);
  return query.Run();
}

// Everything between Begin() and Commit() happens, or nothing does.
class Transaction {
 public:
  explicit Transaction(Database* db) : db_(db) {}
  ~Transaction();  // rolls back unless committed
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  Status Begin();
  // OK: durable.
  Status Commit();

 private:
  Database* db_;
  bool open_ = false;
};

}  // namespace holdfast

#endif  // HOLDFAST_STORE_SQLITE_H_

#ifndef HOLDFAST_STORE_SQLITE_VFS_H_
#define HOLDFAST_STORE_SQLITE_VFS_H_

#include <memory>
#include <string>

#include "base/status.h"
#include "store/file_system.h"

namespace holdfast {

// Lets SQLite reach its files only through a FileSystem, so that the store's fault tests cover the
// catalogue too. Promises SQLite nothing about the disk: sectors of 4 KiB that may be torn, names
// that are durable only after a directory fsync. No shared memory (WAL needs locking_mode =
// EXCLUSIVE) and no locks: the store's lock file gives one owner.
//
// Threads: one connection at a time. Must outlive the connections opened with it.
class SqliteVfs {
 public:
  // kInternal when SQLite refuses it (out of memory).
  static Result<std::unique_ptr<SqliteVfs>> Register(FileSystem* file_system);
  ~SqliteVfs();
  SqliteVfs(const SqliteVfs&) = delete;
  SqliteVfs& operator=(const SqliteVfs&) = delete;

  // For sqlite3_open_v2.
  const std::string& name() const;
  // The first error of the file system since the last call, which SQLite reports as a mere number.
  Status TakeError();

  struct Context;  // of the callbacks

 private:
  explicit SqliteVfs(std::unique_ptr<Context> context);
  std::unique_ptr<Context> context_;
};

}  // namespace holdfast

#endif  // HOLDFAST_STORE_SQLITE_VFS_H_

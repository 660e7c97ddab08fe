#ifndef HOLDFAST_STORE_FILE_SYSTEM_H_
#define HOLDFAST_STORE_FILE_SYSTEM_H_

// Everything the store asks of a disk, so that a test can stand in for one (faulty_file_system.h).
//
// Durability is the caller's to ask for: bytes survive power loss after File::Sync(), a new or
// renamed name after SyncDir() of its directory. After a failed Sync() the file's content is not to
// be trusted, even when a second Sync() succeeds.
// Errors: by errno (ErrnoError); the message names the path.
// Threads: all calls may come from any thread; one File is used by one thread at a time, except
// ReadAt.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace holdfast {

class File {
 public:
  virtual ~File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Reads until `dst` is full or the file ends; returns the bytes read.
  virtual Result<size_t> ReadAt(uint64_t offset, std::span<std::byte> dst) = 0;
  // Writes all of `src`; on error part of it may have been written.
  virtual Status WriteAt(uint64_t offset, std::span<const std::byte> src) = 0;
  virtual Status Truncate(uint64_t size) = 0;
  virtual Status Sync() = 0;
  virtual Result<uint64_t> Size() = 0;
  // A hint that [offset, offset + n_bytes) may be written back already. Cannot fail.
  virtual void StartWriteback(uint64_t /*offset*/, uint64_t /*n_bytes*/) {}

  // Fails unless all of `dst` was read: kDataLoss naming `what`.
  Status ReadExactly(uint64_t offset, std::span<std::byte> dst, const std::string& what);

 protected:
  File() = default;
};

// Held until destroyed.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

enum class OpenMode {
  kRead,       // an existing regular file
  kReadWrite,  // an existing regular file
  kCreate,     // opens or creates
  kCreateNew,  // O_EXCL: kAlreadyExists when the name is taken
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Never follows a symbolic link in the last part of `path`; created files are 0600.
  virtual Result<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode) = 0;
  // Replaces `to` when it exists.
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  virtual Status Unlink(const std::string& path) = 0;
  // 0700; fine when it is there already (and is a directory).
  virtual Status MakeDir(const std::string& path) = 0;
  // Makes a directory of ours 0700; kPermissionDenied when it belongs to another user.
  virtual Status MakePrivate(const std::string& path) = 0;
  // Names in `path`, without . and .., in no particular order.
  virtual Result<std::vector<std::string>> List(const std::string& path) = 0;
  virtual Status SyncDir(const std::string& path) = 0;
  virtual Result<bool> Exists(const std::string& path) = 0;
  // Creates the file and takes its lock; kUnavailable naming the owner when another has it.
  virtual Result<std::unique_ptr<FileLock>> Lock(const std::string& path) = 0;
  // Bytes an unprivileged writer may still use on the file system that holds `path`.
  virtual Result<uint64_t> FreeBytes(const std::string& path) = 0;
};

// Creates `path` and what is missing above it (0700), making each new name durable.
Status MakeDirs(FileSystem* fs, const std::string& path);
// "a/b" of "a/b/c"; "." when there is no slash.
std::string ParentPath(const std::string& path);

// The operating system's. Lives as long as the process.
FileSystem* PosixFileSystem();

}  // namespace holdfast

#endif  // HOLDFAST_STORE_FILE_SYSTEM_H_

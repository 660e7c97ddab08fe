#ifndef HOLDFAST_STORE_FAULTY_FILE_SYSTEM_H_
#define HOLDFAST_STORE_FAULTY_FILE_SYSTEM_H_

// A disk in memory that fails on request and forgets what was not synced. For tests and fuzzers.
//
// Model of a power loss: a file's content is what its last successful Sync() saw, with any of the
// 4 KiB pages written since either there, torn (its first 512-byte sectors new, the rest old) or
// absent; a directory's names are those of its last SyncDir(), with a beginning of the later
// changes (creations, renames, removals) applied in their order. After a failed Sync() the pages
// it covered read as written but never become durable unless they are written again, as Linux does.

#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "store/file_system.h"

namespace holdfast {

// What happens at the chosen operation.
enum class Fault {
  kIoError,    // EIO; a write stops half way
  kNoSpace,    // ENOSPC for what allocates, EIO for the rest; a write stops half way
  kPowerLoss,  // this operation and all later ones fail; then call Crash()
};

// How much of the unsynced changes a power loss keeps.
enum class CrashKeeps {
  kNothing,
  kEverything,  // but what a failed sync lost
  kSome,
  kPageCache,  // only the process was killed: all that programs could read
};

class FaultyFileSystem final : public FileSystem {
 public:
  FaultyFileSystem();
  ~FaultyFileSystem() override;

  // The `k`-th operation from now (1 is the next) fails; 0: none.
  void FailAt(int64_t k, Fault fault);
  // Operations since the last FailAt().
  int64_t n_operations() const;
  bool fault_happened() const;
  // Forgets unsynced changes and all locks. Files that are still open stay usable as orphans.
  void Crash(CrashKeeps keeps, uint32_t seed);
  // The same files, all of it durable; no faults, no locks.
  std::unique_ptr<FaultyFileSystem> Clone() const;
  // Whole content, as a program would read it now. For damage by tests; durable at once.
  Result<std::vector<std::byte>> Contents(const std::string& path) const;
  void SetContents(const std::string& path, std::vector<std::byte> bytes);
  void RemoveTree(const std::string& path);  // as if somebody deleted it; durable at once
  // Reported by FreeBytes().
  void SetFreeBytes(uint64_t bytes);

  Result<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status Unlink(const std::string& path) override;
  Status MakeDir(const std::string& path) override;
  Status MakePrivate(const std::string& path) override;
  Result<std::vector<std::string>> List(const std::string& path) override;
  Status SyncDir(const std::string& path) override;
  Result<bool> Exists(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> Lock(const std::string& path) override;
  Result<uint64_t> FreeBytes(const std::string& path) override;

 private:
  struct Inode;
  class OpenFile;
  class HeldLock;
  // A change to one name: null removes it.
  struct NameChange {
    std::string path;
    std::shared_ptr<Inode> inode;
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;

  // Counts one operation; an error when it is the one to fail. Holds mutex_.
  Status Step(const char* what, const std::string& path, bool allocates);
  Status CheckParent(const std::string& path) const;
  // One atomic group of changes, as a rename is.
  void Apply(std::vector<NameChange> changes);

  mutable std::mutex mutex_;
  int64_t n_operations_ = 0, fail_at_ = 0;
  Fault fault_ = Fault::kIoError;
  bool happened_ = false;
  uint64_t free_bytes_ = uint64_t{1} << 40;
  Names names_;                                   // as programs see them; directories included
  Names durable_names_;                           // as a power loss leaves them at least
  std::vector<std::vector<NameChange>> pending_;  // later changes, oldest first
  std::shared_ptr<int> lock_generation_;          // replaced by a crash
  std::map<std::string, int*> locks_;
};

}  // namespace holdfast

#endif  // HOLDFAST_STORE_FAULTY_FILE_SYSTEM_H_

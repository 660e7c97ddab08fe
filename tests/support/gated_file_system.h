#ifndef HOLDFAST_TESTS_SUPPORT_GATED_FILE_SYSTEM_H_
#define HOLDFAST_TESTS_SUPPORT_GATED_FILE_SYSTEM_H_

// The disk, as slow as a test wants it: what is read from or written to segment files waits while a
// gate is shut.

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "store/file_system.h"

namespace holdfast {

class Gate {
 public:
  ~Gate() { Open(); }
  void Shut() { Set(false); }
  void Open() { Set(true); }
  void Pass() {
    std::unique_lock lock(mutex_);
    ++n_waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    --n_waiting_;
  }
  // Until something waits in front of it. False when nothing comes for five minutes.
  bool AwaitWaiting() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(5),
                             [&] { return !open_ && n_waiting_ > 0; });
  }

 private:
  void Set(bool open) {
    const std::lock_guard lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  bool open_ = true;
  int n_waiting_ = 0;
};

class GatedFileSystem : public FileSystem {
 public:
  Gate reads, writes;  // of segment files; a sync is a write

  Result<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode) override {
    HF_ASSIGN_OR_RETURN(std::unique_ptr<File> file, disk_->Open(path, mode));
    if (path.find("/segments/") == std::string::npos) return file;
    return std::unique_ptr<File>(std::make_unique<GatedFile>(this, std::move(file)));
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return disk_->Rename(from, to);
  }
  Status Unlink(const std::string& path) override { return disk_->Unlink(path); }
  Status MakeDir(const std::string& path) override { return disk_->MakeDir(path); }
  Status MakePrivate(const std::string& path) override { return disk_->MakePrivate(path); }
  Result<std::vector<std::string>> List(const std::string& path) override {
    return disk_->List(path);
  }
  Status SyncDir(const std::string& path) override { return disk_->SyncDir(path); }
  Result<bool> Exists(const std::string& path) override { return disk_->Exists(path); }
  Result<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    return disk_->Lock(path);
  }
  Result<uint64_t> FreeBytes(const std::string& path) override { return disk_->FreeBytes(path); }

 private:
  class GatedFile : public File {
   public:
    GatedFile(GatedFileSystem* owner, std::unique_ptr<File> file)
        : owner_(owner), file_(std::move(file)) {}
    Result<size_t> ReadAt(uint64_t offset, std::span<std::byte> dst) override {
      owner_->reads.Pass();
      return file_->ReadAt(offset, dst);
    }
    Status WriteAt(uint64_t offset, std::span<const std::byte> src) override {
      owner_->writes.Pass();
      return file_->WriteAt(offset, src);
    }
    Status Truncate(uint64_t size) override { return file_->Truncate(size); }
    Status Sync() override {
      owner_->writes.Pass();
      return file_->Sync();
    }
    Result<uint64_t> Size() override { return file_->Size(); }

   private:
    GatedFileSystem* const owner_;
    const std::unique_ptr<File> file_;
  };

  FileSystem* const disk_ = PosixFileSystem();
};

}  // namespace holdfast

#endif  // HOLDFAST_TESTS_SUPPORT_GATED_FILE_SYSTEM_H_

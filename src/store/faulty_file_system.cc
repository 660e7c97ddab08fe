#include "store/faulty_file_system.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/check.h"

namespace holdfast {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kSector = 512;

std::vector<std::byte> PageOf(const std::vector<std::byte>& bytes, size_t page) {
  std::vector<std::byte> out(kPage);
  const size_t begin = std::min(page * kPage, bytes.size());
  const size_t end = std::min(begin + kPage, bytes.size());
  std::copy(bytes.begin() + begin, bytes.begin() + end, out.begin());
  return out;
}

}  // namespace

struct FaultyFileSystem::Inode {
  bool is_dir = false;
  std::vector<std::byte> bytes;    // as programs read them
  std::vector<std::byte> durable;  // as the last sync left them
  std::set<size_t> dirty;          // pages written since, or lost by a failed sync
  std::set<size_t> lost;           // of `dirty`, those a later sync will not write

  void Touch(uint64_t offset, uint64_t n_bytes) {
    for (uint64_t page = offset / kPage; page * kPage < offset + n_bytes; ++page) {
      dirty.insert(page);
      lost.erase(page);
    }
  }

  void Sync() {
    durable.resize(bytes.size());
    for (auto page = dirty.begin(); page != dirty.end();) {
      if (lost.contains(*page)) {
        ++page;
        continue;
      }
      const std::vector<std::byte> now = PageOf(bytes, *page);
      const size_t begin = std::min(*page * kPage, durable.size());
      const size_t n = std::min(kPage, durable.size() - begin);
      std::copy_n(now.begin(), n, durable.begin() + begin);
      page = dirty.erase(page);
    }
  }

  void Crash(CrashKeeps keeps, std::mt19937* random) {
    std::vector<std::byte> after = keeps == CrashKeeps::kPageCache ? bytes : durable;
    if (keeps == CrashKeeps::kEverything || keeps == CrashKeeps::kSome) {
      const bool new_size = keeps == CrashKeeps::kEverything || (*random)() % 2 == 0;
      if (new_size) after.resize(bytes.size());
      for (const size_t page : dirty) {
        const unsigned fate = keeps == CrashKeeps::kEverything ? 0 : (*random)() % 3;
        if (fate == 1 || lost.contains(page) || page * kPage >= after.size()) continue;
        const std::vector<std::byte> now = PageOf(bytes, page);
        const size_t n = std::min(kPage, after.size() - page * kPage);
        const size_t kept = fate == 0 ? n : std::min(n, (*random)() % (kPage / kSector) * kSector);
        std::copy_n(now.begin(), kept, after.begin() + page * kPage);
      }
    }
    bytes = durable = std::move(after);
    dirty.clear();
    lost.clear();
  }
};

class FaultyFileSystem::OpenFile final : public File {
 public:
  OpenFile(FaultyFileSystem* fs, std::shared_ptr<Inode> inode, std::string path, bool writable)
      : fs_(fs), inode_(std::move(inode)), path_(std::move(path)), writable_(writable) {}

  Result<size_t> ReadAt(uint64_t offset, std::span<std::byte> dst) override {
    std::lock_guard lock(fs_->mutex_);
    HF_RETURN_IF_ERROR(fs_->Step("reading", path_, false));
    const std::vector<std::byte>& bytes = inode_->bytes;
    if (offset >= bytes.size()) return size_t{0};
    const size_t n = std::min<uint64_t>(dst.size(), bytes.size() - offset);
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(offset), n, dst.begin());
    return n;
  }

  Status WriteAt(uint64_t offset, std::span<const std::byte> src) override {
    std::lock_guard lock(fs_->mutex_);
    if (!writable_) return PermissionDeniedError(path_ + ": opened for reading");
    const Status status = fs_->Step("writing", path_, true);
    if (!status.ok()) src = src.first(src.size() / 2);
    if (!src.empty()) {
      std::vector<std::byte>& bytes = inode_->bytes;
      const size_t old_size = bytes.size();
      if (bytes.size() < offset + src.size()) bytes.resize(offset + src.size());
      std::copy(src.begin(), src.end(), bytes.begin() + static_cast<ptrdiff_t>(offset));
      const uint64_t begin = std::min<uint64_t>(offset, old_size);
      inode_->Touch(begin, offset + src.size() - begin);
    }
    return status;
  }

  Status Truncate(uint64_t size) override {
    std::lock_guard lock(fs_->mutex_);
    HF_RETURN_IF_ERROR(fs_->Step("truncating", path_, true));
    const uint64_t old_size = inode_->bytes.size();
    inode_->bytes.resize(size);
    if (size > old_size) inode_->Touch(old_size, size - old_size);
    return OkStatus();
  }

  Status Sync() override {
    std::lock_guard lock(fs_->mutex_);
    const Status status = fs_->Step("fsync of", path_, false);
    if (status.ok()) {
      inode_->Sync();
    } else {
      inode_->lost = inode_->dirty;
    }
    return status;
  }

  Result<uint64_t> Size() override {
    std::lock_guard lock(fs_->mutex_);
    HF_RETURN_IF_ERROR(fs_->Step("size of", path_, false));
    return static_cast<uint64_t>(inode_->bytes.size());
  }

 private:
  FaultyFileSystem* fs_;
  std::shared_ptr<Inode> inode_;
  std::string path_;
  bool writable_;
};

class FaultyFileSystem::HeldLock final : public FileLock {
 public:
  HeldLock(FaultyFileSystem* fs, std::string path)
      : fs_(fs), path_(std::move(path)), generation_(fs->lock_generation_) {
    fs_->locks_[path_] = generation_.get();
  }
  ~HeldLock() override {
    std::lock_guard lock(fs_->mutex_);
    const auto found = fs_->locks_.find(path_);
    if (found != fs_->locks_.end() && found->second == generation_.get()) fs_->locks_.erase(found);
  }

 private:
  FaultyFileSystem* fs_;
  std::string path_;
  std::shared_ptr<int> generation_;
};

FaultyFileSystem::FaultyFileSystem() : lock_generation_(std::make_shared<int>()) {
  for (const char* root : {"/", "."}) {
    auto inode = std::make_shared<Inode>();
    inode->is_dir = true;
    names_[root] = durable_names_[root] = inode;
  }
}

FaultyFileSystem::~FaultyFileSystem() = default;

void FaultyFileSystem::FailAt(int64_t k, Fault fault) {
  std::lock_guard lock(mutex_);
  n_operations_ = 0;
  fail_at_ = k;
  fault_ = fault;
  happened_ = false;
}

int64_t FaultyFileSystem::n_operations() const {
  std::lock_guard lock(mutex_);
  return n_operations_;
}

bool FaultyFileSystem::fault_happened() const {
  std::lock_guard lock(mutex_);
  return happened_;
}

void FaultyFileSystem::SetFreeBytes(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  free_bytes_ = bytes;
}

Status FaultyFileSystem::Step(const char* what, const std::string& path, bool allocates) {
  ++n_operations_;
  const bool off = happened_ && fault_ == Fault::kPowerLoss;
  if (!off && (fail_at_ == 0 || n_operations_ != fail_at_)) return OkStatus();
  happened_ = true;
  const int error_number = fault_ == Fault::kNoSpace && allocates ? ENOSPC : EIO;
  return ErrnoError(error_number, fmt::format("{} {}", what, path));
}

Status FaultyFileSystem::CheckParent(const std::string& path) const {
  const auto parent = names_.find(ParentPath(path));
  if (parent == names_.end() || !parent->second->is_dir) return ErrnoError(ENOENT, path);
  return OkStatus();
}

void FaultyFileSystem::Apply(std::vector<NameChange> changes) {
  for (const NameChange& change : changes) {
    if (change.inode == nullptr) {
      names_.erase(change.path);
    } else {
      names_[change.path] = change.inode;
    }
  }
  pending_.push_back(std::move(changes));
}

void FaultyFileSystem::Crash(CrashKeeps keeps, uint32_t seed) {
  std::lock_guard lock(mutex_);
  std::mt19937 random(seed);
  size_t n_kept = 0;
  if (keeps == CrashKeeps::kEverything || keeps == CrashKeeps::kPageCache) {
    n_kept = pending_.size();
  }
  if (keeps == CrashKeeps::kSome) n_kept = random() % (pending_.size() + 1);
  for (size_t i = 0; i < n_kept; ++i) {
    for (const NameChange& change : pending_[i]) {
      if (change.inode == nullptr) {
        durable_names_.erase(change.path);
      } else {
        durable_names_[change.path] = change.inode;
      }
    }
  }
  pending_.clear();
  names_ = durable_names_;
  for (const auto& [path, inode] : names_) {
    if (!inode->is_dir) inode->Crash(keeps, &random);
  }
  locks_.clear();
  lock_generation_ = std::make_shared<int>();
  fail_at_ = 0;
  happened_ = false;
  n_operations_ = 0;
}

std::unique_ptr<FaultyFileSystem> FaultyFileSystem::Clone() const {
  std::lock_guard lock(mutex_);
  auto clone = std::make_unique<FaultyFileSystem>();
  for (const auto& [path, inode] : names_) {
    auto copy = std::make_shared<Inode>();
    copy->is_dir = inode->is_dir;
    copy->bytes = copy->durable = inode->bytes;
    clone->names_[path] = clone->durable_names_[path] = copy;
  }
  clone->free_bytes_ = free_bytes_;
  return clone;
}

Result<std::vector<std::byte>> FaultyFileSystem::Contents(const std::string& path) const {
  std::lock_guard lock(mutex_);
  const auto found = names_.find(path);
  if (found == names_.end()) return ErrnoError(ENOENT, path);
  return found->second->bytes;
}

void FaultyFileSystem::SetContents(const std::string& path, std::vector<std::byte> bytes) {
  std::lock_guard lock(mutex_);
  auto inode = std::make_shared<Inode>();
  inode->bytes = inode->durable = std::move(bytes);
  names_[path] = durable_names_[path] = inode;
}

void FaultyFileSystem::RemoveTree(const std::string& path) {
  std::lock_guard lock(mutex_);
  const auto below = [&path](const auto& entry) {
    return entry.first == path || entry.first.starts_with(path + "/");
  };
  std::erase_if(names_, below);
  std::erase_if(durable_names_, below);
}

Result<std::unique_ptr<File>> FaultyFileSystem::Open(const std::string& path, OpenMode mode) {
  std::lock_guard lock(mutex_);
  const bool creates = mode == OpenMode::kCreate || mode == OpenMode::kCreateNew;
  HF_RETURN_IF_ERROR(Step("opening", path, creates));
  HF_RETURN_IF_ERROR(CheckParent(path));
  auto found = names_.find(path);
  if (found != names_.end() && mode == OpenMode::kCreateNew) return ErrnoError(EEXIST, path);
  if (found == names_.end()) {
    if (!creates) return ErrnoError(ENOENT, path);
    Apply({{path, std::make_shared<Inode>()}});
    found = names_.find(path);
  }
  if (found->second->is_dir) return InvalidArgumentError(path + ": is not a regular file");
  return std::unique_ptr<File>(
      std::make_unique<OpenFile>(this, found->second, path, mode != OpenMode::kRead));
}

Status FaultyFileSystem::Rename(const std::string& from, const std::string& to) {
  std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Step("renaming", from, true));
  HF_RETURN_IF_ERROR(CheckParent(to));
  const auto found = names_.find(from);
  if (found == names_.end()) return ErrnoError(ENOENT, from);
  std::vector<NameChange> changes;
  for (const auto& [path, inode] : names_) {  // a directory takes what is in it along
    if (path == from || path.starts_with(from + "/")) {
      changes.push_back({to + path.substr(from.size()), inode});
      changes.push_back({path, nullptr});
    }
  }
  Apply(std::move(changes));
  return OkStatus();
}

Status FaultyFileSystem::Unlink(const std::string& path) {
  std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Step("removing", path, false));
  if (!names_.contains(path)) return ErrnoError(ENOENT, path);
  Apply({{path, nullptr}});
  return OkStatus();
}

Status FaultyFileSystem::MakeDir(const std::string& path) {
  std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Step("making directory", path, true));
  HF_RETURN_IF_ERROR(CheckParent(path));
  const auto found = names_.find(path);
  if (found != names_.end()) {
    if (!found->second->is_dir) return AlreadyExistsError(path + ": is not a directory");
    return OkStatus();
  }
  auto inode = std::make_shared<Inode>();
  inode->is_dir = true;
  Apply({{path, inode}});
  return OkStatus();
}

Status FaultyFileSystem::MakePrivate(const std::string& path) {
  std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Step("protecting", path, false));
  return names_.contains(path) ? OkStatus() : ErrnoError(ENOENT, path);
}

Result<std::vector<std::string>> FaultyFileSystem::List(const std::string& path) {
  std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Step("listing", path, false));
  if (!names_.contains(path)) return ErrnoError(ENOENT, path);
  std::vector<std::string> names;
  for (const auto& [name, inode] : names_) {
    if (name != path && ParentPath(name) == path) names.push_back(name.substr(path.size() + 1));
  }
  return names;
}

Status FaultyFileSystem::SyncDir(const std::string& path) {
  std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Step("fsync of directory", path, false));
  if (!names_.contains(path)) return ErrnoError(ENOENT, path);
  // Only this directory's names become durable; the order of the others is kept.
  for (auto group = pending_.begin(); group != pending_.end();) {
    const bool here = std::any_of(group->begin(), group->end(), [&](const NameChange& change) {
      return ParentPath(change.path) == path;
    });
    if (!here) {
      ++group;
      continue;
    }
    for (const NameChange& change : *group) {
      if (change.inode == nullptr) {
        durable_names_.erase(change.path);
      } else {
        durable_names_[change.path] = change.inode;
      }
    }
    group = pending_.erase(group);
  }
  return OkStatus();
}

Result<bool> FaultyFileSystem::Exists(const std::string& path) {
  std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Step("looking for", path, false));
  return names_.contains(path);
}

Result<std::unique_ptr<FileLock>> FaultyFileSystem::Lock(const std::string& path) {
  std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Step("locking", path, true));
  HF_RETURN_IF_ERROR(CheckParent(path));
  if (locks_.contains(path)) {
    return UnavailableError(path +
                            " is held by another process; one process at a time may own a "
                            "store");
  }
  if (!names_.contains(path)) Apply({{path, std::make_shared<Inode>()}});
  return std::unique_ptr<FileLock>(std::make_unique<HeldLock>(this, path));
}

Result<uint64_t> FaultyFileSystem::FreeBytes(const std::string& path) {
  std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Step("free space of", path, false));
  return free_bytes_;
}

}  // namespace holdfast

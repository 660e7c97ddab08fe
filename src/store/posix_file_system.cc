#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "store/file_system.h"

namespace holdfast {
namespace {

// Linux moves at most 0x7ffff000 bytes in one call; smaller steps also keep signals responsive.
constexpr size_t kMaxTransfer = size_t{1} << 30;

class UniqueFd {
 public:
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&&) = delete;
  ~UniqueFd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

int OpenRetrying(const std::string& path, int flags) {
  int fd;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

Status OpenError(int error_number, const std::string& path) {
  if (error_number == ELOOP) {
    return PermissionDeniedError(path + ": is a symbolic link, wanted a regular file");
  }
  return ErrnoError(error_number, path);
}

class PosixFile final : public File {
 public:
  PosixFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Result<size_t> ReadAt(uint64_t offset, std::span<std::byte> dst) override {
    size_t done = 0;
    while (done < dst.size()) {
      const size_t want = std::min(dst.size() - done, kMaxTransfer);
      const ssize_t n =
          ::pread(fd_.get(), dst.data() + done, want, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoError(errno, "reading " + path_);
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    return done;
  }

  Status WriteAt(uint64_t offset, std::span<const std::byte> src) override {
    size_t done = 0;
    while (done < src.size()) {
      const size_t want = std::min(src.size() - done, kMaxTransfer);
      const ssize_t n =
          ::pwrite(fd_.get(), src.data() + done, want, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoError(errno, "writing " + path_);
      if (n == 0) return ErrnoError(ENOSPC, "writing " + path_);
      done += static_cast<size_t>(n);
    }
    return OkStatus();
  }

  Status Truncate(uint64_t size) override {
    if (::ftruncate(fd_.get(), static_cast<off_t>(size)) != 0) {
      return ErrnoError(errno, "truncating " + path_);
    }
    return OkStatus();
  }

  Status Sync() override {
    if (::fsync(fd_.get()) != 0) return ErrnoError(errno, "fsync of " + path_);
    return OkStatus();
  }

  Result<uint64_t> Size() override {
    struct stat info;
    if (::fstat(fd_.get(), &info) != 0) return ErrnoError(errno, path_);
    return static_cast<uint64_t>(info.st_size);
  }

  void StartWriteback([[maybe_unused]] uint64_t offset,
                      [[maybe_unused]] uint64_t n_bytes) override {
#ifdef __linux__
    ::sync_file_range(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(n_bytes),
                      SYNC_FILE_RANGE_WRITE);
#endif
  }

 private:
  UniqueFd fd_;
  std::string path_;
};

class PosixFileLock final : public FileLock {
 public:
  explicit PosixFileLock(UniqueFd fd) : fd_(std::move(fd)) {}

 private:
  UniqueFd fd_;
};

class PosixFileSystemImpl final : public FileSystem {
 public:
  Result<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode) override {
    // O_NONBLOCK, so that a FIFO of that name cannot hang us; it means nothing for regular files.
    int flags = O_NOFOLLOW | O_NONBLOCK;
    switch (mode) {
      case OpenMode::kRead:
        flags |= O_RDONLY;
        break;
      case OpenMode::kReadWrite:
        flags |= O_RDWR;
        break;
      case OpenMode::kCreate:
        flags |= O_RDWR | O_CREAT;
        break;
      case OpenMode::kCreateNew:
        flags |= O_RDWR | O_CREAT | O_EXCL;
        break;
    }
    UniqueFd fd(OpenRetrying(path, flags));
    if (fd.get() < 0) return OpenError(errno, path);
    struct stat info;
    if (::fstat(fd.get(), &info) != 0) return ErrnoError(errno, path);
    if (!S_ISREG(info.st_mode)) {
      return InvalidArgumentError(path + ": is not a regular file");
    }
    return std::unique_ptr<File>(std::make_unique<PosixFile>(std::move(fd), path));
  }

  Status Rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) {
      return ErrnoError(errno, fmt::format("renaming {} to {}", from, to));
    }
    return OkStatus();
  }

  Status Unlink(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) return ErrnoError(errno, "removing " + path);
    return OkStatus();
  }

  Status MakeDir(const std::string& path) override {
    if (::mkdir(path.c_str(), 0700) == 0) return OkStatus();
    const int error_number = errno;
    struct stat info;
    if (error_number == EEXIST && ::stat(path.c_str(), &info) == 0) {
      if (!S_ISDIR(info.st_mode)) return AlreadyExistsError(path + ": is not a directory");
      return OkStatus();
    }
    return ErrnoError(error_number, "making directory " + path);
  }

  Status MakePrivate(const std::string& path) override {
    struct stat info;
    if (::stat(path.c_str(), &info) != 0) return ErrnoError(errno, path);
    if (info.st_uid != ::geteuid()) {
      return PermissionDeniedError(fmt::format("{}: belongs to user {}, wanted our own ({})", path,
                                               info.st_uid, ::geteuid()));
    }
    if ((info.st_mode & 077) == 0) return OkStatus();
    if (::chmod(path.c_str(), 0700) != 0) return ErrnoError(errno, "chmod of " + path);
    return OkStatus();
  }

  Result<std::vector<std::string>> List(const std::string& path) override {
    DIR* dir = ::opendir(path.c_str());
    if (dir == nullptr) return ErrnoError(errno, "listing " + path);
    std::vector<std::string> names;
    int error_number = 0;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(dir);
      if (entry == nullptr) {
        error_number = errno;
        break;
      }
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    ::closedir(dir);
    if (error_number != 0) return ErrnoError(error_number, "listing " + path);
    return names;
  }

  Status SyncDir(const std::string& path) override {
    const UniqueFd fd(OpenRetrying(path, O_RDONLY | O_DIRECTORY));
    if (fd.get() < 0) return ErrnoError(errno, path);
    if (::fsync(fd.get()) != 0) return ErrnoError(errno, "fsync of directory " + path);
    return OkStatus();
  }

  Result<bool> Exists(const std::string& path) override {
    struct stat info;
    if (::lstat(path.c_str(), &info) == 0) return true;
    if (errno == ENOENT) return false;
    return ErrnoError(errno, path);
  }

  Result<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    UniqueFd fd(OpenRetrying(path, O_RDWR | O_CREAT | O_NOFOLLOW));
    if (fd.get() < 0) return OpenError(errno, path);
    char owner[32] = {};
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return ErrnoError(errno, "locking " + path);
      if (::pread(fd.get(), owner, sizeof(owner) - 1, 0) <= 0) owner[0] = '\0';
      const std::string_view digits(owner, std::strspn(owner, "0123456789"));
      return UnavailableError(fmt::format(
          "{} is held by {}; one process at a time may own a store", path,
          digits.empty() ? std::string("another process") : fmt::format("process {}", digits)));
    }
    // Only for that message: a reader may see an old number, never a wrong decision.
    const int n = std::snprintf(owner, sizeof(owner), "%ld\n", static_cast<long>(::getpid()));
    if (::ftruncate(fd.get(), 0) != 0 || ::pwrite(fd.get(), owner, n, 0) != n) {
      return ErrnoError(errno, "writing " + path);
    }
    return std::unique_ptr<FileLock>(std::make_unique<PosixFileLock>(std::move(fd)));
  }

  Result<uint64_t> FreeBytes(const std::string& path) override {
    struct statvfs info;
    if (::statvfs(path.c_str(), &info) != 0) return ErrnoError(errno, path);
    return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  }
};

}  // namespace

FileSystem* PosixFileSystem() {
  static PosixFileSystemImpl file_system;
  return &file_system;
}

}  // namespace holdfast

#include "base/source_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace holdfast {
namespace {

// Some file systems take the flag and then refuse to read.
bool ReadsDirectly(int fd) {
  constexpr size_t kBlock = 4096;
  alignas(kBlock) std::byte block[kBlock];
  return ::pread(fd, block, kBlock, 0) >= 0;
}

}  // namespace

Result<SourceFile::Identity> SourceFile::IdentityOf(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return ErrnoError(errno, path);
#ifdef __APPLE__
  const timespec modified = info.st_mtimespec;
#else
  const timespec modified = info.st_mtim;
#endif
  return Identity{static_cast<uint64_t>(info.st_dev), static_cast<uint64_t>(info.st_ino),
                  int64_t{info.st_size}, int64_t{modified.tv_sec}, int64_t{modified.tv_nsec}};
}

Result<std::unique_ptr<SourceFile>> SourceFile::Open(const MappedFile& mapped, bool direct) {
  std::unique_ptr<SourceFile> file(new SourceFile);
  file->path_ = mapped.path();
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
#ifdef O_DIRECT
  if (direct) {
    file->fd_ = ::open(file->path_.c_str(), kFlags | O_DIRECT);
    if (file->fd_ >= 0 && !ReadsDirectly(file->fd_)) {
      ::close(file->fd_);
      file->fd_ = -1;
    }
    file->direct_ = file->fd_ >= 0;
  }
#else
  (void)direct;
#endif
  if (file->fd_ < 0) file->fd_ = ::open(file->path_.c_str(), kFlags);
  if (file->fd_ < 0) return ErrnoError(errno, file->path_);
  HF_ASSIGN_OR_RETURN(file->identity_, IdentityOf(mapped.fd(), file->path_));
  HF_ASSIGN_OR_RETURN(const Identity reopened, IdentityOf(file->fd_, file->path_));
  if (reopened != file->identity_ || reopened.size != static_cast<int64_t>(mapped.size())) {
    return FailedPreconditionError(file->path_ +
                                   ": another file, or written to, since it was opened");
  }
  return file;
}

SourceFile::~SourceFile() {
  if (fd_ >= 0) ::close(fd_);
}

Status SourceFile::CheckUnchanged() const {
  HF_ASSIGN_OR_RETURN(const Identity now, IdentityOf(fd_, path_));
  if (now == identity_) return OkStatus();
  return DataLossError(path_ + (now.size != identity_.size
                                    ? ": " + std::to_string(now.size) + " bytes, it had " +
                                          std::to_string(identity_.size) + " when it was opened"
                                    : ": written to since it was opened"));
}

}  // namespace holdfast

#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

namespace holdfast {

Result<MappedFile> MappedFile::Open(const std::string& path) {
  MappedFile file;
  file.path_ = path;
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd_ < 0) return ErrnoError(errno, path);
  struct stat info {};
  if (::fstat(file.fd_, &info) != 0) return ErrnoError(errno, path);
  if (!S_ISREG(info.st_mode)) return InvalidArgumentError(path + " is not a regular file");
  file.size_ = static_cast<size_t>(info.st_size);
  if (file.size_ > 0) {
    void* data = ::mmap(nullptr, file.size_, PROT_READ, MAP_SHARED, file.fd_, 0);
    if (data == MAP_FAILED) {
      const int error = errno;
      return ErrnoError(error, path + ": mapping " + std::to_string(file.size_) + " bytes");
    }
    file.data_ = static_cast<const std::byte*>(data);
    file.guard_ = MappingGuard(data, file.size_);
  }
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      fd_(std::exchange(other.fd_, -1)),
      guard_(std::move(other.guard_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    Release();
    path_ = std::move(other.path_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    fd_ = std::exchange(other.fd_, -1);
    guard_ = std::move(other.guard_);
  }
  return *this;
}

MappedFile::~MappedFile() { Release(); }

void MappedFile::ReadIn(std::span<const std::byte> part) {
  if (part.empty()) return;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(part.data()) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(part.data()) + part.size();
#ifdef MADV_POPULATE_READ
  if (::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ) == 0) return;
#endif
  // Older kernels, and reads that fail: page by page.
  (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);
  for (uintptr_t at = begin; at < end; at += page) {
    (void)*reinterpret_cast<const volatile std::byte*>(at);
  }
}

namespace {

// About the whole pages of a part; advice that is not taken costs only speed.
void Advise(std::span<const std::byte> part, int advice) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(part.data()) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(part.data()) + part.size()) / page * page;
  if (begin < end) (void)::madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

}  // namespace

void MappedFile::AdviseRandom(std::span<const std::byte> part) { Advise(part, MADV_RANDOM); }
// Of a file mapping, so nothing is lost: what is read all the same comes from the file again.
void MappedFile::AdviseUnused(std::span<const std::byte> part) { Advise(part, MADV_DONTNEED); }

Status MappedFile::CheckReads() const {
  if (!guard_.failed()) return OkStatus();
  return DataLossError(
      path_ +
      ": reading it has failed (a disk that does not answer, or a file that became "
      "shorter); it must be opened anew");
}

void MappedFile::Release() {
  guard_ = MappingGuard();
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  if (fd_ >= 0) ::close(fd_);
  data_ = nullptr;
  fd_ = -1;
}

}  // namespace holdfast

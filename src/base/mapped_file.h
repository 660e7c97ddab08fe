#ifndef HOLDFAST_BASE_MAPPED_FILE_H_
#define HOLDFAST_BASE_MAPPED_FILE_H_

#include <cstddef>
#include <span>
#include <string>

#include "base/mapping_guard.h"
#include "base/status.h"

namespace holdfast {

// A regular file mapped read-only, whole. Pages are read when they are touched; nothing is copied.
// The descriptor stays open for callers that would rather read(2) than fault.
//
// Threads: immutable. Where the file cannot be read, or has become shorter, zeros are read, and
// CheckReads() fails from then on.
class MappedFile {
 public:
  // kNotFound, kPermissionDenied or kResourceExhausted by errno; kInvalidArgument for what is not a
  // regular file.
  static Result<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  int fd() const { return fd_; }
  // kDataLoss naming the file when a read of bytes() has failed: what was computed with them since
  // the last OK is not to be used.
  Status CheckReads() const;
  // Reads `part` (of a mapping) into the page cache, and waits. Failing reads are CheckReads()'s.
  static void ReadIn(std::span<const std::byte> part);
  // Nobody will read the bytes around a byte of `part` (of a mapping) next: nothing is read ahead.
  static void AdviseRandom(std::span<const std::byte> part);
  // A mapped part will not be read any more: its pages may leave this process.
  static void AdviseUnused(std::span<const std::byte> part);

 private:
  MappedFile() = default;
  void Release();

  std::string path_;
  const std::byte* data_ = nullptr;  // page-aligned; null for an empty file
  size_t size_ = 0;
  int fd_ = -1;
  MappingGuard guard_;
};

}  // namespace holdfast

#endif  // HOLDFAST_BASE_MAPPED_FILE_H_

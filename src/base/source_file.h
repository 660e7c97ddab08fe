#ifndef HOLDFAST_BASE_SOURCE_FILE_H_
#define HOLDFAST_BASE_SOURCE_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/mapped_file.h"
#include "base/status.h"

namespace holdfast {

// A mapped file, opened once more for reads past the page cache, that must stay as it is.
//
// Threads: immutable.
class SourceFile {
 public:
  // With O_DIRECT where the file system has it and `direct` is true. kFailedPrecondition when the
  // path names another file by now.
  static Result<std::unique_ptr<SourceFile>> Open(const MappedFile& mapped, bool direct);
  ~SourceFile();
  SourceFile(const SourceFile&) = delete;
  SourceFile& operator=(const SourceFile&) = delete;

  const std::string& path() const { return path_; }
  int fd() const { return fd_; }
  // Reads leave nothing in the page cache and want multiples of 4 KiB.
  bool direct() const { return direct_; }
  // kDataLoss naming the file once its size or time of modification is another. What was read
  // before an OK is what the file held when it was opened. (A file that another one took the place
  // of under the same name is still there for whoever has it open.)
  Status CheckUnchanged() const;

 private:
  struct Identity {
    uint64_t device = 0, inode = 0;
    int64_t size = 0, seconds = 0, nanoseconds = 0;
    bool operator==(const Identity&) const = default;
  };
  SourceFile() = default;
  static Result<Identity> IdentityOf(int fd, const std::string& path);

  std::string path_;
  int fd_ = -1;
  bool direct_ = false;
  Identity identity_;
};

}  // namespace holdfast

#endif  // HOLDFAST_BASE_SOURCE_FILE_H_

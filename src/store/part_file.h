#ifndef HOLDFAST_STORE_PART_FILE_H_
#define HOLDFAST_STORE_PART_FILE_H_

// The file format that segments and session files share: a header, then parts, each with a header
// and checksums, then an end part that counts them (docs/session_format.md, byte by byte). Written
// once under a temporary name, then never changed.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/hash128.h"
#include "base/status.h"
#include "store/file_system.h"

namespace holdfast {

enum class PartFileKind {
  kSession,  // payloads aligned to 64 bytes
  kSegment,  // payloads aligned to 4 KiB
};

inline constexpr uint32_t kPartFileVersion = 1;
inline constexpr size_t kPartHeaderBytes = 64;

enum class PartType : uint16_t {
  kManifest = 1,   // JSON; index 0
  kTokens = 2,     // i32 per token; index 0
  kContent = 3,    // u64 per token; index 0
  kTrunkPage = 4,  // index: page number
  kDraftPage = 5,
  kTrunkRunning = 6,  // index: position
  kDraftRunning = 7,
  kEnd = 8,
};
std::string_view PartTypeName(PartType type);

struct PartInfo {
  PartType type = PartType::kEnd;
  int64_t index = 0;
  uint64_t offset = 0;  // of the payload, in the file
  uint64_t bytes = 0;
  Hash128 hash;  // of the payload
};

// What a payload takes in a session file with its header, and the end part in the last of it.
constexpr uint64_t SessionFootprint(uint64_t payload_bytes) {
  return kPartHeaderBytes + (payload_bytes + 63) / 64 * 64;
}
// A session file without any part but the end.
inline constexpr uint64_t kEmptySessionBytes = 2 * kPartHeaderBytes + 24;

// What a payload takes in a segment with its header and padding, and a segment by itself.
inline constexpr uint64_t kSegmentOverheadBytes = 8192;
constexpr uint64_t SegmentFootprint(uint64_t payload_bytes) {
  return (payload_bytes + kPartHeaderBytes + 4095) / 4096 * 4096;
}

// Writes `final_path`: nothing under that name is touched before Finish(), which returns OK only
// when content and name are durable. Dropped unfinished, it removes the temporary file.
class PartFileWriter {
 public:
  // `temporary_path`, in the same directory, must be free.
  static Result<std::unique_ptr<PartFileWriter>> Create(FileSystem* file_system,
                                                        const std::string& temporary_path,
                                                        const std::string& final_path,
                                                        PartFileKind kind, uint64_t uid,
                                                        uint64_t store_id);
  // Writes to an open file, from its beginning to its end; Finish() leaves names alone.
  static Result<std::unique_ptr<PartFileWriter>> CreateOn(std::unique_ptr<File> file,
                                                          PartFileKind kind, uint64_t uid);
  ~PartFileWriter();
  PartFileWriter(const PartFileWriter&) = delete;
  PartFileWriter& operator=(const PartFileWriter&) = delete;

  Result<PartInfo> Add(PartType type, int64_t index, std::span<const std::byte> payload);
  // fsync, rename, fsync of the directory. After an error the temporary file is gone; after one of
  // the last step the final name may exist all the same.
  Status Finish();
  uint64_t bytes() const { return end_; }
  // Finish() failed in fsync: the content is lost, though writing it again may succeed.
  bool sync_failed() const { return sync_failed_; }

 private:
  PartFileWriter() = default;

  FileSystem* file_system_ = nullptr;
  std::string temporary_path_, final_path_;
  std::unique_ptr<File> file_;
  uint64_t alignment_ = 0, uid_ = 0;
  uint64_t end_ = 0;
  uint64_t n_parts_ = 0;
  Hash128Stream headers_;
  uint64_t written_back_ = 0;
  bool finished_ = false, sync_failed_ = false;
};

// Reads such a file part by part; every size is checked against the file before it is used.
// Errors: kInvalidArgument when it is no such file at all, kUnimplemented for a newer version,
// kDataLoss for damage, each naming the byte.
class PartFileReader {
 public:
  // `name`: what messages call it; empty: its path.
  static Result<std::unique_ptr<PartFileReader>> Open(FileSystem* file_system,
                                                      const std::string& path, PartFileKind kind,
                                                      const std::string& name = "");

  uint64_t uid() const { return uid_; }
  uint64_t store_id() const { return store_id_; }
  // The next part; nothing after the end part was found, complete and at the end of the file.
  Result<std::optional<PartInfo>> Next();
  // The size that the next part's header gives, which need not be true: of a file that is still
  // growing.
  Result<uint64_t> PeekBytes();
  // Reads and checks a payload; `dst` has info.bytes.
  Status Read(const PartInfo& info, std::span<std::byte> dst);
  // Checks a payload in pieces of at most `piece_bytes`, without keeping it.
  Status Check(const PartInfo& info, size_t piece_bytes);
  uint64_t file_bytes() const { return size_; }

 private:
  PartFileReader() = default;
  Status CheckEnd(const PartInfo& end);
  Status Damaged(uint64_t offset, const std::string& what) const;
  std::string Describe(const PartInfo& info) const;

  std::unique_ptr<File> file_;
  std::string name_;
  uint64_t alignment_ = 0, size_ = 0, uid_ = 0, store_id_ = 0;
  uint64_t position_ = 0;
  uint64_t n_parts_ = 0;
  Hash128Stream headers_;
};

// kDataLoss naming `what` and both checksums.
Status ChecksumError(const std::string& what, uint64_t offset, uint64_t n_bytes,
                     const Hash128& found, const Hash128& wanted);

// Reads `dst` from `file` at `offset` and checks it, in pieces that are hashed while they are in
// the processor's cache. kDataLoss naming `what` when the checksum differs.
Status ReadChecked(File* file, uint64_t offset, std::span<std::byte> dst, const Hash128& hash,
                   const std::string& what);

}  // namespace holdfast

#endif  // HOLDFAST_STORE_PART_FILE_H_

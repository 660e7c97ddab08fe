#include "store/part_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "store/little_endian.h"

namespace holdfast {
namespace {

constexpr size_t kMagicBytes = 8;
// The line ending shows a transfer that changed it.
constexpr char kSessionMagic[kMagicBytes + 1] = "HFSESS\r\n";
constexpr char kSegmentMagic[kMagicBytes + 1] = "HFSEGM\r\n";
constexpr uint32_t kPartMagic = 0x54524150;  // "PART"
constexpr size_t kFileHeaderBytes = 64;
constexpr size_t kHashedHeaderBytes = 48;
constexpr size_t kEndBytes = 24;
// In the second-level cache of anything recent, and large enough for a system call to be cheap.
constexpr size_t kReadPiece = 512 << 10;
// Writing back early overlaps the disk with the hashing of what follows.
constexpr uint64_t kWritebackStep = 16 << 20;

using Header = std::array<std::byte, kPartHeaderBytes>;

const char* MagicOf(PartFileKind kind) {
  return kind == PartFileKind::kSession ? kSessionMagic : kSegmentMagic;
}

uint64_t AlignmentOf(PartFileKind kind) { return kind == PartFileKind::kSession ? 64 : 4096; }

uint64_t AlignUp(uint64_t n, uint64_t alignment) {
  return (n + alignment - 1) / alignment * alignment;
}

// Where the payload of a part begins whose predecessor ended at `end`.
uint64_t PayloadOffset(uint64_t end, uint64_t alignment) {
  return AlignUp(end + kPartHeaderBytes, alignment);
}

void PutHash(std::byte* to, const Hash128& hash) {
  PutU64(to, hash.low);
  PutU64(to + 8, hash.high);
}

Hash128 GetHash(const std::byte* from) { return {GetU64(from), GetU64(from + 8)}; }

void SealHeader(Header* header) {
  const std::span<const std::byte> hashed(header->data(), kHashedHeaderBytes);
  PutHash(header->data() + kHashedHeaderBytes, Hash128Of(hashed));
}

bool HeaderIsSound(const Header& header) {
  const std::span<const std::byte> hashed(header.data(), kHashedHeaderBytes);
  return GetHash(header.data() + kHashedHeaderBytes) == Hash128Of(hashed);
}

Header FileHeader(PartFileKind kind, uint64_t uid, uint64_t store_id) {
  Header header{};
  std::memcpy(header.data(), MagicOf(kind), kMagicBytes);
  PutU32(header.data() + 8, kPartFileVersion);
  PutU32(header.data() + 12, static_cast<uint32_t>(AlignmentOf(kind)));
  PutU64(header.data() + 16, uid);
  PutU64(header.data() + 24, store_id);
  SealHeader(&header);
  return header;
}

Header PartHeader(const PartInfo& info, uint64_t uid) {
  Header header{};
  PutU32(header.data(), kPartMagic);
  PutU16(header.data() + 4, static_cast<uint16_t>(info.type));
  PutU64(header.data() + 8, static_cast<uint64_t>(info.index));
  PutU64(header.data() + 16, info.bytes);
  // The file's own number and the place, so that a part of another file is not taken for one.
  PutU64(header.data() + 24, uid ^ info.offset);
  PutHash(header.data() + 32, info.hash);
  SealHeader(&header);
  return header;
}

}  // namespace

std::string_view PartTypeName(PartType type) {
  switch (type) {
    case PartType::kManifest:
      return "manifest";
    case PartType::kTokens:
      return "tokens";
    case PartType::kContent:
      return "content hashes";
    case PartType::kTrunkPage:
      return "trunk page";
    case PartType::kDraftPage:
      return "draft page";
    case PartType::kTrunkRunning:
      return "trunk running state";
    case PartType::kDraftRunning:
      return "draft running state";
    case PartType::kEnd:
      return "end";
  }
  return "?";
}

Status ChecksumError(const std::string& what, uint64_t offset, uint64_t n_bytes,
                     const Hash128& found, const Hash128& wanted) {
  return DataLossError(fmt::format("{}: checksum {} of {} bytes at {}, wanted {}", what,
                                   found.Hex(), n_bytes, offset, wanted.Hex()));
}

Status ReadChecked(File* file, uint64_t offset, std::span<std::byte> dst, const Hash128& hash,
                   const std::string& what) {
  Hash128Stream stream;
  for (size_t done = 0; done < dst.size();) {
    const std::span<std::byte> piece = dst.subspan(done, std::min(kReadPiece, dst.size() - done));
    HF_RETURN_IF_ERROR(file->ReadExactly(offset + done, piece, what));
    stream.Add(piece);
    done += piece.size();
  }
  const Hash128 found = stream.Value();
  if (found == hash) return OkStatus();
  return ChecksumError(what, offset, dst.size(), found, hash);
}

Result<std::unique_ptr<PartFileWriter>> PartFileWriter::Create(FileSystem* file_system,
                                                               const std::string& temporary_path,
                                                               const std::string& final_path,
                                                               PartFileKind kind, uint64_t uid,
                                                               uint64_t store_id) {
  std::unique_ptr<PartFileWriter> writer(new PartFileWriter());
  HF_ASSIGN_OR_RETURN(writer->file_, file_system->Open(temporary_path, OpenMode::kCreateNew));
  // From here on the destructor removes it.
  writer->file_system_ = file_system;
  writer->temporary_path_ = temporary_path;
  writer->final_path_ = final_path;
  writer->alignment_ = AlignmentOf(kind);
  writer->uid_ = uid;
  HF_RETURN_IF_ERROR(writer->file_->WriteAt(0, FileHeader(kind, uid, store_id)));
  writer->end_ = kFileHeaderBytes;
  return writer;
}

Result<std::unique_ptr<PartFileWriter>> PartFileWriter::CreateOn(std::unique_ptr<File> file,
                                                                 PartFileKind kind, uint64_t uid) {
  std::unique_ptr<PartFileWriter> writer(new PartFileWriter());
  writer->file_ = std::move(file);
  writer->alignment_ = AlignmentOf(kind);
  writer->uid_ = uid;
  HF_RETURN_IF_ERROR(writer->file_->WriteAt(0, FileHeader(kind, uid, 0)));
  writer->end_ = kFileHeaderBytes;
  return writer;
}

PartFileWriter::~PartFileWriter() {
  if (file_system_ == nullptr || finished_) return;
  file_.reset();
  // What cannot be removed now is removed as a leftover when the store is opened or tended.
  static_cast<void>(file_system_->Unlink(temporary_path_));
}

Result<PartInfo> PartFileWriter::Add(PartType type, int64_t index,
                                     std::span<const std::byte> payload) {
  PartInfo info{type, index, PayloadOffset(end_, alignment_), payload.size(), Hash128Of(payload)};
  const Header header = PartHeader(info, uid_);
  // The gap before the header is a hole, which reads as zeros.
  HF_RETURN_IF_ERROR(file_->WriteAt(info.offset - kPartHeaderBytes, header));
  HF_RETURN_IF_ERROR(file_->WriteAt(info.offset, payload));
  end_ = info.offset + info.bytes;
  headers_.Add(header);
  ++n_parts_;
  if (end_ - written_back_ >= kWritebackStep) {
    file_->StartWriteback(written_back_, end_ - written_back_);
    written_back_ = end_;
  }
  return info;
}

Status PartFileWriter::Finish() {
  std::array<std::byte, kEndBytes> end;
  PutU64(end.data(), n_parts_);
  PutHash(end.data() + 8, headers_.Value());
  HF_RETURN_IF_ERROR(Add(PartType::kEnd, 0, end).status());
  const Status synced = file_->Sync();
  sync_failed_ = !synced.ok();
  HF_RETURN_IF_ERROR(synced);
  file_.reset();
  if (file_system_ == nullptr) return OkStatus();
  HF_RETURN_IF_ERROR(file_system_->Rename(temporary_path_, final_path_));
  finished_ = true;
  return file_system_->SyncDir(ParentPath(final_path_));
}

Result<std::unique_ptr<PartFileReader>> PartFileReader::Open(FileSystem* file_system,
                                                             const std::string& path,
                                                             PartFileKind kind,
                                                             const std::string& name) {
  std::unique_ptr<PartFileReader> reader(new PartFileReader());
  reader->name_ = name.empty() ? path : name;
  HF_ASSIGN_OR_RETURN(reader->file_, file_system->Open(path, OpenMode::kRead));
  HF_ASSIGN_OR_RETURN(reader->size_, reader->file_->Size());
  const char* what = kind == PartFileKind::kSession ? "session file" : "segment file";
  Header header{};
  HF_ASSIGN_OR_RETURN(const size_t n_read, reader->file_->ReadAt(0, header));
  if (n_read < kMagicBytes || std::memcmp(header.data(), MagicOf(kind), kMagicBytes) != 0) {
    return InvalidArgumentError(fmt::format("{}: is not a holdfast {}", reader->name_, what));
  }
  if (n_read < kFileHeaderBytes) {
    return DataLossError(fmt::format("{}: truncated: {} bytes, the header needs {}", reader->name_,
                                     n_read, kFileHeaderBytes));
  }
  const uint32_t version = GetU32(header.data() + 8);
  if (version > kPartFileVersion) {
    return UnimplementedError(fmt::format("{}: {} of version {}, this holdfast reads up to {}",
                                          reader->name_, what, version, kPartFileVersion));
  }
  const bool reserved_zero = std::all_of(header.begin() + 32, header.begin() + kHashedHeaderBytes,
                                         [](std::byte b) { return b == std::byte{0}; });
  if (!HeaderIsSound(header) || version == 0 || !reserved_zero ||
      GetU32(header.data() + 12) != AlignmentOf(kind)) {
    return reader->Damaged(0, "the file header does not verify");
  }
  reader->alignment_ = AlignmentOf(kind);
  reader->uid_ = GetU64(header.data() + 16);
  reader->store_id_ = GetU64(header.data() + 24);
  reader->position_ = kFileHeaderBytes;
  return reader;
}

Status PartFileReader::Damaged(uint64_t offset, const std::string& what) const {
  return DataLossError(fmt::format("{}: at byte {}: {}", name_, offset, what));
}

Result<std::optional<PartInfo>> PartFileReader::Next() {
  PartInfo info;
  info.offset = PayloadOffset(position_, alignment_);
  const uint64_t header_offset = info.offset - kPartHeaderBytes;
  if (info.offset > size_) {
    return DataLossError(fmt::format("{}: truncated: {} bytes, the next part begins at {}", name_,
                                     size_, header_offset));
  }
  std::vector<std::byte> gap(header_offset - position_);
  HF_RETURN_IF_ERROR(file_->ReadExactly(position_, gap, name_));
  if (std::any_of(gap.begin(), gap.end(), [](std::byte b) { return b != std::byte{0}; })) {
    return Damaged(position_, "padding is not zero");
  }
  Header header;
  HF_RETURN_IF_ERROR(file_->ReadExactly(header_offset, header, name_));
  info.index = static_cast<int64_t>(GetU64(header.data() + 8));
  info.bytes = GetU64(header.data() + 16);
  info.hash = GetHash(header.data() + 32);
  const uint16_t type = GetU16(header.data() + 4);
  if (!HeaderIsSound(header) || GetU32(header.data()) != kPartMagic ||
      GetU16(header.data() + 6) != 0 || GetU64(header.data() + 24) != (uid_ ^ info.offset) ||
      type < static_cast<uint16_t>(PartType::kManifest) ||
      type > static_cast<uint16_t>(PartType::kEnd) || info.index < 0) {
    return Damaged(header_offset, "the part header does not verify");
  }
  info.type = static_cast<PartType>(type);
  if (info.bytes > size_ - info.offset) {
    return DataLossError(fmt::format("{}: truncated: {} bytes, part {} ends at {}", name_, size_,
                                     n_parts_, info.offset + info.bytes));
  }
  position_ = info.offset + info.bytes;
  if (info.type == PartType::kEnd) {
    HF_RETURN_IF_ERROR(CheckEnd(info));
    return std::optional<PartInfo>();
  }
  headers_.Add(header);
  ++n_parts_;
  return std::optional<PartInfo>(info);
}

Result<uint64_t> PartFileReader::PeekBytes() {
  Header header;
  HF_RETURN_IF_ERROR(
      file_->ReadExactly(PayloadOffset(position_, alignment_) - kPartHeaderBytes, header, name_));
  return GetU64(header.data() + 16);
}

Status PartFileReader::CheckEnd(const PartInfo& end) {
  if (end.bytes != kEndBytes || end.index != 0) return Damaged(end.offset, "wrong end part");
  std::array<std::byte, kEndBytes> payload;
  HF_RETURN_IF_ERROR(Read(end, payload));
  if (GetU64(payload.data()) != n_parts_ || GetHash(payload.data() + 8) != headers_.Value()) {
    return Damaged(end.offset, fmt::format("the end part counts {} parts, found {} or others",
                                           GetU64(payload.data()), n_parts_));
  }
  if (position_ != size_) {
    return Damaged(position_, fmt::format("{} bytes after the end", size_ - position_));
  }
  return OkStatus();
}

std::string PartFileReader::Describe(const PartInfo& info) const {
  return fmt::format("{}: {} {}", name_, PartTypeName(info.type), info.index);
}

Status PartFileReader::Read(const PartInfo& info, std::span<std::byte> dst) {
  HF_CHECK(dst.size() == info.bytes);
  return ReadChecked(file_.get(), info.offset, dst, info.hash, Describe(info));
}

Status PartFileReader::Check(const PartInfo& info, size_t piece_bytes) {
  std::vector<std::byte> piece(std::min<uint64_t>(piece_bytes, info.bytes));
  Hash128Stream stream;
  for (uint64_t done = 0; done < info.bytes;) {
    const std::span<std::byte> dst(piece.data(),
                                   std::min<uint64_t>(piece.size(), info.bytes - done));
    HF_RETURN_IF_ERROR(file_->ReadExactly(info.offset + done, dst, Describe(info)));
    stream.Add(dst);
    done += dst.size();
  }
  if (stream.Value() == info.hash) return OkStatus();
  return ChecksumError(Describe(info), info.offset, info.bytes, stream.Value(), info.hash);
}

}  // namespace holdfast

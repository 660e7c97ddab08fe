#include "store/session_upload.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "store/session_manifest.h"
#include "store/store_core.h"

namespace holdfast {
namespace {

// What messages call it: where it waits is nobody's business.
constexpr char kName[] = "the session file";

}  // namespace

Result<std::unique_ptr<SessionUpload>> SessionUpload::Begin(StoreCore* core) {
  HF_RETURN_IF_ERROR(core->CheckPresent());
  HF_RETURN_IF_ERROR(MakeDirs(core->file_system, core->incoming_dir));
  const std::string path =
      fmt::format("{}/{:016x}.hfs", core->incoming_dir, core->options.random());
  std::unique_ptr<SessionUpload> self(new SessionUpload(core, path));
  HF_ASSIGN_OR_RETURN(self->file_, core->file_system->Open(path, OpenMode::kCreateNew));
  self->next_check_ = kSessionPrefixBytes;
  return self;
}

SessionUpload::~SessionUpload() {
  if (file_ == nullptr) return;
  file_.reset();
  // What cannot be removed now is removed when the store is opened.
  static_cast<void>(core_->file_system->Unlink(path_));
}

Status SessionUpload::Write(std::span<const std::byte> bytes) {
  if (file_bytes_ != 0 && bytes.size() > file_bytes_ - n_bytes_) {
    return DataLossError(fmt::format("{}: {} bytes, its manifest says {}", kName,
                                     n_bytes_ + bytes.size(), file_bytes_));
  }
  HF_RETURN_IF_ERROR(file_->WriteAt(n_bytes_, bytes));
  n_bytes_ += bytes.size();
  while (file_bytes_ == 0 && n_bytes_ >= next_check_) HF_RETURN_IF_ERROR(CheckBeginning());
  return OkStatus();
}

// First that it is a session file at all and how large its manifest is, then the manifest.
Status SessionUpload::CheckBeginning() {
  if (next_check_ == kSessionPrefixBytes) {
    HF_ASSIGN_OR_RETURN(const uint64_t manifest_bytes, ReadManifestBytes(core_, path_, kName));
    next_check_ += std::max<uint64_t>(manifest_bytes, 1);
    return OkStatus();
  }
  HF_ASSIGN_OR_RETURN(const SessionHead head, ReadSessionHead(core_, path_, kName));
  if (head.file_bytes < n_bytes_) {
    return DataLossError(
        fmt::format("{}: {} bytes, its manifest says {}", kName, n_bytes_, head.file_bytes));
  }
  const uint64_t budget = core_->options.disk_budget_bytes;
  if (budget != 0 && head.file_bytes > budget) {
    return ResourceExhaustedError(
        fmt::format("{}: {} bytes do not fit into the store's {} (--cache-disk)", kName,
                    head.file_bytes, budget));
  }
  // The rest of it and the copy that the store makes.
  const uint64_t needed = head.file_bytes - n_bytes_ + head.file_bytes;
  HF_ASSIGN_OR_RETURN(const uint64_t free, core_->file_system->FreeBytes(core_->incoming_dir));
  if (needed > free) {
    return ResourceExhaustedError(
        fmt::format("{}: taking it needs {} bytes, the store's disk has {}", kName, needed, free));
  }
  conversation_ = head.conversation;
  file_bytes_ = head.file_bytes;
  return OkStatus();
}

Result<ImportReport> SessionUpload::Import(ImportOptions options) {
  options.name = kName;
  return ImportSession(core_, path_, options);
}

}  // namespace holdfast

#include "engine/prepare_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "store/little_endian.h"
#include "weights/expert_file.h"

namespace holdfast {
namespace {

constexpr size_t kHashBytes = 16;
// Hashed or copied between two signs of progress.
constexpr size_t kStep = size_t{16} << 20;

Hash128 HashAt(const std::byte* from) { return {GetU64(from), GetU64(from + 8)}; }

void PutHash(std::byte* to, const Hash128& hash) {
  PutU64(to, hash.low);
  PutU64(to + 8, hash.high);
}

// Checksums of what is durable, unit by unit: the layers in order, then all other tensors as one.
// A record is its checksums and one over them, the unit's number and what is being made.
class Journal {
 public:
  // `target` names what is being made: a journal of something else has no records.
  static Result<Journal> Open(FileSystem* file_system, const std::string& path,
                              const Hash128& target) {
    Journal journal(target);
    HF_ASSIGN_OR_RETURN(journal.file_, file_system->Open(path, OpenMode::kCreate));
    return journal;
  }
  // Reads the next record into `hashes`; false when it is not there, or torn.
  Result<bool> Read(std::span<Hash128> hashes) {
    std::vector<std::byte> record(kHashBytes * (hashes.size() + 1));
    HF_ASSIGN_OR_RETURN(const size_t n, file_->ReadAt(at_, record));
    if (n < record.size()) return false;
    const auto content = std::span(record).first(kHashBytes * hashes.size());
    if (HashAt(record.data() + content.size()) != Seal(content)) return false;
    for (size_t i = 0; i < hashes.size(); ++i) hashes[i] = HashAt(record.data() + kHashBytes * i);
    Next(record.size());
    return true;
  }
  // What has not been read is of a call that began anew in between, and not to be gone on with.
  Status DropTheRest() {
    HF_RETURN_IF_ERROR(file_->Truncate(at_));
    return file_->Sync();
  }
  Status Write(std::span<const Hash128> hashes) {
    std::vector<std::byte> record(kHashBytes * (hashes.size() + 1));
    for (size_t i = 0; i < hashes.size(); ++i) PutHash(record.data() + kHashBytes * i, hashes[i]);
    const auto content = std::span(record).first(kHashBytes * hashes.size());
    PutHash(record.data() + content.size(), Seal(content));
    HF_RETURN_IF_ERROR(file_->WriteAt(at_, record));
    Next(record.size());
    return file_->Sync();
  }

 private:
  explicit Journal(const Hash128& target) : target_(target) {}
  void Next(size_t n_bytes) {
    at_ += n_bytes;
    ++unit_;
  }
  Hash128 Seal(std::span<const std::byte> content) const {
    Hash128Stream stream;
    stream.Add(target_.low);
    stream.Add(target_.high);
    stream.Add(unit_);
    stream.Add(content);
    return stream.Value();
  }

  const Hash128 target_;
  std::unique_ptr<File> file_;
  uint64_t at_ = 0, unit_ = 0;
};

std::string Mb(uint64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

class Preparation {
 public:
  Preparation(const GgufFile& model, std::span<const ExpertLayer> layers,
              const PrepareOptions& options)
      : model_(model),
        layers_(layers),
        options_(options),
        fs_(options.file_system),
        part_path_(options.out_path + ".part"),
        journal_path_(options.out_path + ".journal"),
        content_(ContentOf(model, layers)) {}

  Result<PrepareReport> Run() {
    if (content_.layers.empty()) {
      return InvalidArgumentError(model_.name() + ": no routed experts");
    }
    HF_ASSIGN_OR_RETURN(const GgufWriter blank, DescribeExpertFile(model_, content_));
    const std::vector<std::byte> header = blank.HeaderBytes();
    header_bytes_ = header.size();
    report_.file_bytes = header_bytes_ + static_cast<uint64_t>(blank.tensor_bytes());
    report_.n_layers = static_cast<int64_t>(content_.layers.size());
    for (const auto& layer : content_.blob_checksums) {
      report_.n_experts += static_cast<int64_t>(layer.size());
    }
    HF_ASSIGN_OR_RETURN(report_.was_done, IsDone());
    if (report_.was_done) return report_;

    HF_ASSIGN_OR_RETURN(const auto lock, Lock());
    HF_ASSIGN_OR_RETURN(Journal journal, Journal::Open(fs_, journal_path_, Hash128Of(header)));
    HF_ASSIGN_OR_RETURN(part_, fs_->Open(part_path_, OpenMode::kCreate));
    bool all_tensors = false;
    HF_RETURN_IF_ERROR(Resume(&journal, &all_tensors));
    HF_RETURN_IF_ERROR(CheckRoom());
    HF_RETURN_IF_ERROR(journal.DropTheRest());
    HF_RETURN_IF_ERROR(part_->Truncate(report_.file_bytes));
    for (size_t i = static_cast<size_t>(report_.n_layers_resumed); i < content_.layers.size();
         ++i) {
      HF_RETURN_IF_ERROR(WriteLayer(i));
      HF_RETURN_IF_ERROR(journal.Write(content_.blob_checksums[i]));
    }
    if (!all_tensors) {
      HF_RETURN_IF_ERROR(HashTensors());
      HF_RETURN_IF_ERROR(journal.Write(content_.tensor_checksums));
    }
    HF_RETURN_IF_ERROR(Finish(Hash128Of(header)));
    return report_;
  }

 private:
  // OUT is there and is what would be written.
  Result<bool> IsDone() {
    HF_ASSIGN_OR_RETURN(const bool exists, fs_->Exists(options_.out_path));
    if (!exists) return false;
    const auto opened = ExpertFile::Open(options_.out_path, model_, layers_);
    if (opened.ok()) return true;
    return AlreadyExistsError(
        fmt::format("{} exists and is not the experts of {}: remove it, or "
                    "name another file ({})",
                    options_.out_path, model_.name(), opened.status().message()));
  }

  Result<std::unique_ptr<FileLock>> Lock() { return fs_->Lock(options_.out_path + ".lock"); }

  Status Resume(Journal* journal, bool* all_tensors) {
    HF_ASSIGN_OR_RETURN(const uint64_t size, part_->Size());
    if (size != report_.file_bytes) return OkStatus();
    for (auto& checksums : content_.blob_checksums) {
      HF_ASSIGN_OR_RETURN(const bool there, journal->Read(checksums));
      if (!there) return OkStatus();
      ++report_.n_layers_resumed;
    }
    HF_ASSIGN_OR_RETURN(*all_tensors, journal->Read(content_.tensor_checksums));
    return OkStatus();
  }

  uint64_t LayerBytes(size_t i) const {
    return BlobOf(content_.layers[i]).padded_bytes() * content_.blob_checksums[i].size();
  }

  Status CheckRoom() {
    uint64_t there = 0;
    for (int64_t i = 0; i < report_.n_layers_resumed; ++i)
      there += LayerBytes(static_cast<size_t>(i));
    const uint64_t wanted = report_.file_bytes - there;
    HF_ASSIGN_OR_RETURN(const uint64_t free, fs_->FreeBytes(ParentPath(options_.out_path)));
    n_all_ = report_.file_bytes;
    for (const GgufTensor* tensor : content_.tensors) n_all_ += tensor->data.size();
    n_done_ = there;
    if (wanted <= free) return OkStatus();
    // Nothing has been begun: nothing is left behind.
    if (report_.n_layers_resumed == 0) {
      (void)fs_->Unlink(part_path_);
      (void)fs_->Unlink(journal_path_);
    }
    return ResourceExhaustedError(fmt::format(
        "{}: takes {}, {} of it there already, so {} more; the disk has {} free, {} too "
        "little",
        options_.out_path, Mb(report_.file_bytes), Mb(there), Mb(wanted), Mb(free),
        Mb(wanted - free)));
  }

  void Progress(uint64_t n_bytes) {
    n_done_ += n_bytes;
    if (!options_.progress) return;
    options_.progress(static_cast<double>(n_done_) / static_cast<double>(n_all_));
  }

  Status WriteLayer(size_t i) {
    const ExpertLayer& layer = content_.layers[i];
    const size_t blob_bytes = BlobOf(layer).padded_bytes();
    uint64_t offset = header_bytes_;
    for (size_t before = 0; before < i; ++before) offset += LayerBytes(before);
    const size_t n_experts = content_.blob_checksums[i].size();
    const size_t n_at_once = std::max<size_t>(kStep / blob_bytes, 1);
    std::vector<std::byte> buffer;
    for (size_t first = 0; first < n_experts; first += n_at_once) {
      const size_t n = std::min(n_at_once, n_experts - first);
      buffer.resize(n * blob_bytes);
      for (size_t e = 0; e < n; ++e) {
        const auto blob = std::span(buffer).subspan(e * blob_bytes, blob_bytes);
        CopyBlob(layer, static_cast<int64_t>(first + e), blob);
        content_.blob_checksums[i][first + e] = Hash128Of(blob);
      }
      HF_RETURN_IF_ERROR(part_->WriteAt(offset + first * blob_bytes, buffer));
      part_->StartWriteback(offset + first * blob_bytes, buffer.size());
      Progress(buffer.size());
    }
    HF_RETURN_IF_ERROR(model_.CheckReads());
    return part_->Sync();
  }

  Status HashTensors() {
    for (size_t i = 0; i < content_.tensors.size(); ++i) {
      const auto data = content_.tensors[i]->data;
      Hash128Stream stream;
      for (size_t at = 0; at < data.size(); at += kStep) {
        const auto piece = data.subspan(at, std::min(kStep, data.size() - at));
        stream.Add(piece);
        Progress(piece.size());
      }
      content_.tensor_checksums[i] = stream.Value();
    }
    return model_.CheckReads();
  }

  Status Finish(const Hash128& target) {
    // Described once more: a model that was written to meanwhile is another one.
    HF_ASSIGN_OR_RETURN(const GgufWriter blank,
                        DescribeExpertFile(model_, ContentOf(model_, layers_)));
    if (Hash128Of(blank.HeaderBytes()) != target) {
      return DataLossError(model_.name() + ": was written to while its experts were copied");
    }
    HF_ASSIGN_OR_RETURN(const GgufWriter writer, DescribeExpertFile(model_, content_));
    const std::vector<std::byte> header = writer.HeaderBytes();
    HF_CHECK(header.size() == header_bytes_);
    HF_RETURN_IF_ERROR(part_->WriteAt(0, header));
    HF_RETURN_IF_ERROR(part_->Sync());
    // Whoever may read the model may read this.
    std::error_code error;
    const auto status = std::filesystem::status(model_.name(), error);
    if (!error) std::filesystem::permissions(part_path_, status.permissions(), error);
    HF_RETURN_IF_ERROR(fs_->Rename(part_path_, options_.out_path));
    HF_RETURN_IF_ERROR(fs_->SyncDir(ParentPath(options_.out_path)));
    HF_RETURN_IF_ERROR(fs_->Unlink(journal_path_));
    (void)fs_->Unlink(options_.out_path + ".lock");
    return ExpertFile::Open(options_.out_path, model_, layers_).status();
  }

  const GgufFile& model_;
  const std::span<const ExpertLayer> layers_;
  const PrepareOptions& options_;
  FileSystem* const fs_;
  const std::string part_path_, journal_path_;
  ExpertFileContent content_;
  std::unique_ptr<File> part_;
  uint64_t header_bytes_ = 0, n_all_ = 0, n_done_ = 0;
  PrepareReport report_;
};

}  // namespace

Result<PrepareReport> PrepareExperts(const GgufFile& model, std::span<const ExpertLayer> layers,
                                     const PrepareOptions& options) {
  return Preparation(model, layers, options).Run();
}

}  // namespace holdfast

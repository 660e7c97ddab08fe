#include "weights/expert_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace holdfast {
namespace {

constexpr uint64_t kBlock = 4096;
constexpr std::string_view kArchitecture = "holdfast-experts";
constexpr int64_t kVersion = 1;
constexpr std::string_view kArchitectureKey = "general.architecture";
constexpr std::string_view kVersionKey = "holdfast.version";
constexpr std::string_view kFingerprintKey = "holdfast.model.fingerprint";
constexpr std::string_view kSizesKey = "holdfast.model.sizes";
constexpr std::string_view kModifiedKey = "holdfast.model.modified";
constexpr std::string_view kBlobsKey = "holdfast.experts.checksums";
constexpr std::string_view kTensorsKey = "holdfast.tensors.checksums";
constexpr std::string_view kSealKey = "holdfast.seal";
// Of each matrix that is looked at when the file is opened.
constexpr size_t kSampleBytes = 4096;
// Read between two signs of progress.
constexpr size_t kStep = size_t{16} << 20;

// "blk.3.ffn_down_exps.weight" -> "blk.3.experts".
std::string BlobName(const ExpertLayer& layer) {
  const std::string name(layer.down.name);
  return name.substr(0, name.find("ffn_")) + "experts";
}

std::span<const std::byte> MatrixOf(const WeightView& view, int64_t expert) {
  return {view.Row(0, expert), static_cast<size_t>(view.row_bytes * view.n_rows)};
}

std::vector<uint64_t> Words(std::span<const Hash128> hashes) {
  std::vector<uint64_t> words;
  for (const Hash128& hash : hashes) words.insert(words.end(), {hash.low, hash.high});
  return words;
}

// Every tensor's place and kind, and samples of the experts, so that another model with the same
// shapes is another one.
Hash128 FingerprintOf(const GgufFile& model, const ExpertFileContent& content) {
  Hash128Stream stream;
  stream.Add(kArchitecture);
  for (const GgufTensor& tensor : model.tensors()) {
    stream.Add(std::string_view(tensor.name));
    stream.Add(static_cast<uint64_t>(tensor.type));
    for (const int64_t n : tensor.ne) stream.Add(static_cast<uint64_t>(n));
    stream.Add(static_cast<uint64_t>(tensor.part));
    stream.Add(tensor.file_offset);
  }
  for (const ExpertLayer& layer : content.layers) {
    for (const WeightView* view : {&layer.gate, &layer.up, &layer.down}) {
      for (const int64_t expert : {int64_t{0}, view->n_mats - 1}) {
        const auto matrix = MatrixOf(*view, expert);
        stream.Add(matrix.first(std::min(matrix.size(), kSampleBytes)));
      }
    }
  }
  return stream.Value();
}

struct PartState {
  std::vector<uint64_t> sizes, modified_s;
};
Result<PartState> StateOf(const GgufFile& model) {
  PartState state;
  for (int part = 0; part < model.n_parts(); ++part) {
    const MappedFile* const mapped = model.part_file(part);
    if (mapped == nullptr) return FailedPreconditionError(model.name() + ": not a file on disk");
    struct stat info {};
    if (::fstat(mapped->fd(), &info) != 0) return ErrnoError(errno, mapped->path());
    state.sizes.push_back(static_cast<uint64_t>(info.st_size));
    // Whole seconds: what copies and archives keep.
    state.modified_s.push_back(static_cast<uint64_t>(info.st_mtime));
  }
  return state;
}

Status Damaged(const std::string& path, const std::string& what) {
  return DataLossError(fmt::format("{}: {} (holdfast prepare makes it anew)", path, what));
}

// The checksums under `key`, which must be as many as there is room for.
Status ReadHashes(const GgufFile& file, std::string_view key,
                  std::span<const std::span<Hash128>> to) {
  HF_ASSIGN_OR_RETURN(const std::vector<uint64_t> words, file.GetUint64s(key));
  size_t n = 0, at = 0;
  for (const auto& hashes : to) n += hashes.size();
  if (words.size() != 2 * n) {
    return Damaged(file.name(),
                   fmt::format("{} checksums in {}, wanted {}", words.size() / 2, key, n));
  }
  for (const auto& hashes : to) {
    for (Hash128& hash : hashes) {
      hash = {.low = words[at], .high = words[at + 1]};
      at += 2;
    }
  }
  return OkStatus();
}

// Tells progress by bytes.
class Meter {
 public:
  Meter(uint64_t n_all, const std::function<void(double)>& progress)
      : n_all_(n_all), progress_(progress) {}
  void Add(uint64_t n_bytes) {
    n_done_ += n_bytes;
    progress_(static_cast<double>(n_done_) / static_cast<double>(std::max<uint64_t>(n_all_, 1)));
  }

 private:
  const uint64_t n_all_;
  uint64_t n_done_ = 0;
  const std::function<void(double)>& progress_;
};

Hash128 HashTensor(const GgufTensor& tensor, Meter* meter) {
  Hash128Stream stream;
  for (size_t at = 0; at < tensor.data.size(); at += kStep) {
    const auto piece = tensor.data.subspan(at, std::min(kStep, tensor.data.size() - at));
    stream.Add(piece);
    meter->Add(piece.size());
  }
  return stream.Value();
}

}  // namespace

uint64_t ExpertBlob::padded_bytes() const { return (used_bytes() + kBlock - 1) / kBlock * kBlock; }

ExpertBlob BlobOf(const ExpertLayer& layer) {
  const auto bytes = [](const WeightView& view) {
    return static_cast<uint64_t>(view.row_bytes * view.n_rows);
  };
  return {bytes(layer.gate), bytes(layer.up), bytes(layer.down)};
}

void CopyBlob(const ExpertLayer& layer, int64_t expert, std::span<std::byte> to) {
  size_t at = 0;
  for (const WeightView* view : {&layer.gate, &layer.up, &layer.down}) {
    const auto matrix = MatrixOf(*view, expert);
    std::memcpy(to.data() + at, matrix.data(), matrix.size());
    at += matrix.size();
  }
  std::memset(to.data() + at, 0, to.size() - at);
}

ExpertFileContent ContentOf(const GgufFile& model, std::span<const ExpertLayer> layers) {
  ExpertFileContent content;
  for (const ExpertLayer& layer : layers) {
    if (layer.file != &model) continue;
    content.layers.push_back(layer);
    content.blob_checksums.emplace_back(static_cast<size_t>(layer.gate.n_mats));
  }
  for (const GgufTensor& tensor : model.tensors()) {
    const bool is_expert = std::ranges::any_of(content.layers, [&](const ExpertLayer& layer) {
      return &tensor == layer.gate.tensor || &tensor == layer.up.tensor ||
             &tensor == layer.down.tensor;
    });
    if (!is_expert) content.tensors.push_back(&tensor);
  }
  content.tensor_checksums.resize(content.tensors.size());
  return content;
}

Result<GgufWriter> DescribeExpertFile(const GgufFile& model, const ExpertFileContent& content) {
  HF_ASSIGN_OR_RETURN(const PartState state, StateOf(model));
  const Hash128 fingerprint = FingerprintOf(model, content);
  std::vector<Hash128> blobs;
  for (const auto& layer : content.blob_checksums) {
    blobs.insert(blobs.end(), layer.begin(), layer.end());
  }
  const auto describe = [&](const Hash128& seal) {
    GgufWriter writer(kBlock);
    writer.SetString(kArchitectureKey, kArchitecture);
    writer.SetU32("general.alignment", kBlock);
    writer.SetU32(kVersionKey, kVersion);
    writer.SetUint64s(kFingerprintKey, Words({&fingerprint, 1}));
    writer.SetUint64s(kSizesKey, state.sizes);
    writer.SetUint64s(kModifiedKey, state.modified_s);
    writer.SetUint64s(kBlobsKey, Words(blobs));
    writer.SetUint64s(kTensorsKey, Words(content.tensor_checksums));
    writer.SetUint64s(kSealKey, Words({&seal, 1}));
    for (const ExpertLayer& layer : content.layers) {
      writer.AddTensor(BlobName(layer), QuantType::kI8,
                       {static_cast<int64_t>(BlobOf(layer).padded_bytes()), layer.gate.n_mats},
                       nullptr);
    }
    return writer;
  };
  return describe(Hash128Of(describe({}).HeaderBytes()));
}

std::string ExpertFile::PathBeside(const std::string& model_path) {
  return model_path + ".experts";
}

Result<std::unique_ptr<ExpertFile>> ExpertFile::Open(const std::string& path, const GgufFile& model,
                                                     std::span<const ExpertLayer> layers) {
  std::unique_ptr<ExpertFile> opened(new ExpertFile);
  HF_ASSIGN_OR_RETURN(opened->file_, GgufFile::Open(path));
  const GgufFile& file = *opened->file_;
  HF_ASSIGN_OR_RETURN(const std::string_view architecture, file.GetString(kArchitectureKey));
  if (architecture != kArchitecture || file.n_parts() != 1) {
    return InvalidArgumentError(path + ": was not made by holdfast prepare");
  }
  HF_ASSIGN_OR_RETURN(const int64_t version, file.GetInt(kVersionKey, 0, INT32_MAX));
  if (version != kVersion) {
    return UnimplementedError(
        fmt::format("{}: version {}, this program reads {} (holdfast prepare "
                    "makes it anew)",
                    path, version, kVersion));
  }
  opened->model_name_ = model.name();
  ExpertFileContent& content = opened->content_;
  content = ContentOf(model, layers);
  HF_ASSIGN_OR_RETURN(const PartState state, StateOf(model));
  const Hash128 fingerprint = FingerprintOf(model, content);
  HF_ASSIGN_OR_RETURN(const auto model_fingerprint, file.GetUint64s(kFingerprintKey));
  HF_ASSIGN_OR_RETURN(const auto sizes, file.GetUint64s(kSizesKey));
  HF_ASSIGN_OR_RETURN(const auto modified_s, file.GetUint64s(kModifiedKey));
  if (model_fingerprint != Words({&fingerprint, 1}) || sizes != state.sizes) {
    return FailedPreconditionError(
        fmt::format("{}: was made from another file than {}", path, model.name()));
  }
  if (modified_s != state.modified_s) {
    return FailedPreconditionError(
        fmt::format("{}: {} has been written since it was made (holdfast prepare makes it anew)",
                    path, model.name()));
  }
  std::vector<std::span<Hash128>> wanted = {content.tensor_checksums};
  HF_RETURN_IF_ERROR(ReadHashes(file, kTensorsKey, wanted));
  wanted.assign(content.blob_checksums.begin(), content.blob_checksums.end());
  HF_RETURN_IF_ERROR(ReadHashes(file, kBlobsKey, wanted));
  // With the checksums it holds it must be what would be written, to the last byte.
  HF_ASSIGN_OR_RETURN(const GgufWriter writer, DescribeExpertFile(model, content));
  const std::vector<std::byte> header = writer.HeaderBytes();
  const auto bytes = file.part_file(0)->bytes();
  if (bytes.size() != header.size() + static_cast<uint64_t>(writer.tensor_bytes()) ||
      std::memcmp(bytes.data(), header.data(), header.size()) != 0) {
    return Damaged(path, "what describes its content is damaged");
  }
  for (const ExpertLayer& layer : content.layers) {
    opened->blobs_.push_back(file.FindTensor(BlobName(layer)));
    HF_CHECK(opened->blobs_.back() != nullptr);
  }
  HF_RETURN_IF_ERROR(model.CheckReads());
  HF_RETURN_IF_ERROR(file.CheckReads());
  return opened;
}

void ExpertFile::Attach(std::span<ExpertLayer> layers) const {
  for (ExpertLayer& layer : layers) {
    for (size_t i = 0; i < content_.layers.size(); ++i) {
      if (content_.layers[i].down.tensor != layer.down.tensor) continue;
      layer.blob_file = file_.get();
      layer.blobs = blobs_[i];
    }
  }
}

Status ExpertFile::Verify(bool mapped, const std::function<void(double)>& progress) const {
  uint64_t n_all = 0;
  for (const GgufTensor* tensor : content_.tensors) n_all += tensor->data.size();
  for (const GgufTensor* blobs : blobs_) n_all += blobs->data.size();
  Meter meter(n_all, progress);
  for (size_t i = 0; i < content_.tensors.size(); ++i) {
    const GgufTensor& tensor = *content_.tensors[i];
    if (HashTensor(tensor, &meter) == content_.tensor_checksums[i]) continue;
    return DataLossError(fmt::format("{}: tensor {} is not what it was when {} was made",
                                     model_name_, Quoted(tensor.name), file_->name()));
  }
  std::vector<std::byte> copy;
  for (size_t i = 0; i < blobs_.size(); ++i) {
    const size_t n_bytes = static_cast<size_t>(blobs_[i]->ne[0]);
    for (size_t e = 0; e < content_.blob_checksums[i].size(); ++e) {
      auto blob = blobs_[i]->data.subspan(e * n_bytes, n_bytes);
      if (mapped) {
        copy.resize(n_bytes);
        CopyBlob(content_.layers[i], static_cast<int64_t>(e), copy);
        blob = copy;
      }
      meter.Add(n_bytes);
      if (Hash128Of(blob) == content_.blob_checksums[i][e]) continue;
      const std::string expert = fmt::format("expert {} of {}", e, blobs_[i]->name);
      if (!mapped) return Damaged(file_->name(), expert + " is damaged");
      return DataLossError(fmt::format("{}: {} is not what it was when {} was made", model_name_,
                                       expert, file_->name()));
    }
  }
  return OkStatus();
}

Status ReadAllTensors(const GgufFile& model, const std::function<void(double)>& progress) {
  uint64_t n_all = 0;
  for (const GgufTensor& tensor : model.tensors()) n_all += tensor.data.size();
  Meter meter(n_all, progress);
  for (const GgufTensor& tensor : model.tensors()) {
    (void)HashTensor(tensor, &meter);
    HF_RETURN_IF_ERROR(model.CheckReads());
  }
  return OkStatus();
}

}  // namespace holdfast

#include "weights/gguf_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "weights/gguf_split.h"

namespace holdfast {
namespace {

// Rows are produced and written in pieces of about this size.
constexpr int64_t kPieceBytes = 4 << 20;

void Append(std::vector<std::byte>* out, const void* data, size_t n_bytes) {
  const auto* bytes = static_cast<const std::byte*>(data);
  out->insert(out->end(), bytes, bytes + n_bytes);
}

template <typename T>
void AppendScalar(std::vector<std::byte>* out, T value) {
  Append(out, &value, sizeof value);
}

void AppendString(std::vector<std::byte>* out, std::string_view text) {
  AppendScalar<uint64_t>(out, text.size());
  Append(out, text.data(), text.size());
}

std::vector<std::byte> ArrayHead(GgufType element_type, size_t count) {
  std::vector<std::byte> out;
  AppendScalar(&out, static_cast<int32_t>(element_type));
  AppendScalar<uint64_t>(&out, count);
  return out;
}

Status WriteAt(int fd, const std::string& path, uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, path);
    offset += static_cast<uint64_t>(n);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return OkStatus();
}

// Closes a descriptor at the end of a scope.
struct FdCloser {
  int fd;
  ~FdCloser() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

void GgufWriter::SetRaw(std::string_view key, int32_t type_id, std::span<const std::byte> payload) {
  Value value{std::string(key), {}};
  AppendScalar(&value.bytes, type_id);
  Append(&value.bytes, payload.data(), payload.size());
  values_.push_back(std::move(value));
}

void GgufWriter::SetString(std::string_view key, std::string_view value) {
  std::vector<std::byte> payload;
  AppendString(&payload, value);
  SetRaw(key, static_cast<int32_t>(GgufType::kString), payload);
}

void GgufWriter::SetInt(std::string_view key, GgufType type, int64_t value) {
  std::vector<std::byte> payload;
  Append(&payload, &value, static_cast<size_t>(GgufTypeBytes(type)));
  SetRaw(key, static_cast<int32_t>(type), payload);
}

void GgufWriter::SetF32(std::string_view key, float value) {
  SetRaw(key, static_cast<int32_t>(GgufType::kF32), std::as_bytes(std::span(&value, 1)));
}

void GgufWriter::SetInts(std::string_view key, GgufType type, std::span<const int64_t> values) {
  std::vector<std::byte> payload = ArrayHead(type, values.size());
  for (int64_t value : values) Append(&payload, &value, static_cast<size_t>(GgufTypeBytes(type)));
  SetRaw(key, static_cast<int32_t>(GgufType::kArray), payload);
}

void GgufWriter::SetUint64s(std::string_view key, std::span<const uint64_t> values) {
  std::vector<std::byte> payload = ArrayHead(GgufType::kU64, values.size());
  Append(&payload, values.data(), values.size_bytes());
  SetRaw(key, static_cast<int32_t>(GgufType::kArray), payload);
}

void GgufWriter::SetF32s(std::string_view key, std::span<const float> values) {
  std::vector<std::byte> payload = ArrayHead(GgufType::kF32, values.size());
  Append(&payload, values.data(), values.size_bytes());
  SetRaw(key, static_cast<int32_t>(GgufType::kArray), payload);
}

void GgufWriter::SetStrings(std::string_view key, std::span<const std::string> values) {
  std::vector<std::byte> payload = ArrayHead(GgufType::kString, values.size());
  for (const std::string& value : values) AppendString(&payload, value);
  SetRaw(key, static_cast<int32_t>(GgufType::kArray), payload);
}

void GgufWriter::SetValue(const GgufValue& value) {
  std::vector<std::byte> payload;
  if (value.is_array()) payload = ArrayHead(value.element_type(), value.count());
  Append(&payload, value.bytes().data(), value.bytes().size());
  SetRaw(value.key(), static_cast<int32_t>(value.type()), payload);
}

void GgufWriter::AddTensor(std::string_view name, QuantType type, std::vector<int64_t> ne,
                           std::span<const std::byte> data) {
  const int64_t row_bytes = RowBytes(type, ne[0]).value();
  AddTensor(name, type, std::move(ne),
            [data, row_bytes](int64_t first_row, int64_t, std::span<std::byte> out) {
              std::memcpy(out.data(), data.data() + first_row * row_bytes, out.size());
            });
}

void GgufWriter::AddTensor(std::string_view name, QuantType type, std::vector<int64_t> ne,
                           RowSource source) {
  Tensor tensor{std::string(name), type, std::move(ne), std::move(source), 1, 0};
  for (size_t i = 1; i < tensor.ne.size(); ++i) tensor.n_rows *= tensor.ne[i];
  tensor.row_bytes = RowBytes(type, tensor.ne[0]).value();
  tensors_.push_back(std::move(tensor));
}

int64_t GgufWriter::tensor_bytes() const {
  int64_t sum = 0;
  for (const Tensor& tensor : tensors_) sum += tensor.n_rows * tensor.row_bytes;
  return sum;
}

uint64_t GgufWriter::Padded(uint64_t n) const {
  const auto alignment = static_cast<uint64_t>(alignment_);
  return (n + alignment - 1) / alignment * alignment;
}

std::vector<std::byte> GgufWriter::Header(std::span<const Tensor> tensors) const {
  std::vector<std::byte> out;
  Append(&out, "GGUF", 4);
  AppendScalar<uint32_t>(&out, 3);
  AppendScalar<uint64_t>(&out, tensors.size());
  AppendScalar<uint64_t>(&out, values_.size());
  for (const Value& value : values_) {
    AppendString(&out, value.key);
    Append(&out, value.bytes.data(), value.bytes.size());
  }
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors) {
    AppendString(&out, tensor.name);
    AppendScalar(&out, static_cast<uint32_t>(tensor.ne.size()));
    for (int64_t ne : tensor.ne) AppendScalar(&out, ne);
    AppendScalar(&out, static_cast<int32_t>(tensor.type));
    AppendScalar(&out, offset);
    offset += Padded(static_cast<uint64_t>(tensor.n_rows * tensor.row_bytes));
  }
  out.resize(Padded(out.size()));
  return out;
}

std::vector<std::byte> GgufWriter::ToBytes() const {
  std::vector<std::byte> out = Header(tensors_);
  for (const Tensor& tensor : tensors_) {
    const size_t start = out.size();
    const auto n_bytes = static_cast<size_t>(tensor.n_rows * tensor.row_bytes);
    out.resize(start + Padded(n_bytes));
    tensor.source(0, tensor.n_rows, std::span(out).subspan(start, n_bytes));
  }
  return out;
}

Status GgufWriter::WriteData(int fd, const std::string& path, uint64_t data_start,
                             int n_threads) const {
  struct Piece {
    const Tensor* tensor;
    int64_t first_row, n_rows;
    uint64_t offset;
  };
  std::vector<Piece> pieces;
  uint64_t offset = data_start;
  for (const Tensor& tensor : tensors_) {
    const int64_t step = std::max<int64_t>(1, kPieceBytes / std::max<int64_t>(1, tensor.row_bytes));
    for (int64_t row = 0; row < tensor.n_rows; row += step) {
      pieces.push_back({&tensor, row, std::min(step, tensor.n_rows - row),
                        offset + static_cast<uint64_t>(row * tensor.row_bytes)});
    }
    offset += Padded(static_cast<uint64_t>(tensor.n_rows * tensor.row_bytes));
  }
  // The last tensor is padded too: readers of other engines may want whole alignments.
  if (::ftruncate(fd, static_cast<off_t>(offset)) != 0) return ErrnoError(errno, path);

  std::atomic<size_t> next = 0;
  std::mutex mutex;
  Status status;
  const auto work = [&] {
    std::vector<std::byte> buffer;
    for (size_t i = next++; i < pieces.size(); i = next++) {
      const Piece& piece = pieces[i];
      buffer.resize(static_cast<size_t>(piece.n_rows * piece.tensor->row_bytes));
      piece.tensor->source(piece.first_row, piece.n_rows, buffer);
      Status written = WriteAt(fd, path, piece.offset, buffer);
      if (written.ok()) continue;
      const std::lock_guard lock(mutex);
      status = std::move(written);
      next = pieces.size();
    }
  };
  std::vector<std::jthread> threads;
  for (int i = 1; i < n_threads; ++i) threads.emplace_back(work);
  work();
  threads.clear();
  return status;
}

Status GgufWriter::WriteFile(const std::string& path, int n_threads) const {
  // A rename would put a file in the place of a device.
  struct stat existing;
  if (::stat(path.c_str(), &existing) == 0 && !S_ISREG(existing.st_mode)) {
    return InvalidArgumentError(path + ": exists and is not a regular file");
  }
  const std::string temporary = path + ".tmp";
  const FdCloser file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
  if (file.fd < 0) return ErrnoError(errno, temporary);
  const std::vector<std::byte> header = Header(tensors_);
  Status status = WriteAt(file.fd, temporary, 0, header);
  if (status.ok()) status = WriteData(file.fd, temporary, header.size(), n_threads);
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0)
    status = ErrnoError(errno, path);
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

Result<std::string> GgufWriter::WriteSplitFiles(const std::string& prefix,
                                                std::span<const int> n_tensors_of_part,
                                                int n_threads) const {
  const auto n_parts = static_cast<int64_t>(n_tensors_of_part.size());
  size_t first = 0;
  for (int64_t part = 0; part < n_parts; ++part) {
    GgufWriter writer(alignment_);
    if (part == 0) writer.values_ = values_;
    writer.SetInt("split.no", GgufType::kU16, part);
    writer.SetInt("split.count", GgufType::kU16, n_parts);
    writer.SetI32("split.tensors.count", static_cast<int32_t>(tensors_.size()));
    const size_t last = std::min(
        tensors_.size(), first + static_cast<size_t>(n_tensors_of_part[static_cast<size_t>(part)]));
    writer.tensors_.assign(tensors_.begin() + static_cast<ptrdiff_t>(first),
                           tensors_.begin() + static_cast<ptrdiff_t>(last));
    first = last;
    HF_RETURN_IF_ERROR(writer.WriteFile(SplitPath(prefix, part, n_parts), n_threads));
  }
  return SplitPath(prefix, 0, n_parts);
}

}  // namespace holdfast

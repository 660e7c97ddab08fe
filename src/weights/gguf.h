#ifndef HOLDFAST_WEIGHTS_GGUF_H_
#define HOLDFAST_WEIGHTS_GGUF_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "base/status.h"
#include "weights/gguf_value.h"
#include "weights/quant_type.h"

namespace holdfast {

// What a file may hold at most. Each is far above every published file (1,256 tensors, 48 keys,
// 248,320 tokens); a count is also compared with the bytes left in the file before anything is
// allocated for it.
inline constexpr uint64_t kGgufMaxKeys = 1 << 16;
inline constexpr uint64_t kGgufMaxTensors = 1 << 16;
inline constexpr uint64_t kGgufMaxKeyBytes = (1 << 16) - 1;
inline constexpr uint64_t kGgufMaxTensorNameBytes = 63;
inline constexpr uint64_t kGgufMaxStringBytes = uint64_t{1} << 30;
inline constexpr uint64_t kGgufMaxArrayCount = uint64_t{1} << 30;
inline constexpr int64_t kGgufMinAlignment = 8;
inline constexpr int64_t kGgufMaxAlignment = 1 << 16;
inline constexpr int64_t kGgufDefaultAlignment = 32;
inline constexpr int64_t kGgufMaxSplits = 512;

// A tensor of a file: shape, type and bytes, all checked against the file.
struct GgufTensor {
  std::string name;
  QuantType type = QuantType::kF32;
  int n_dims = 0;
  std::array<int64_t, 4> ne = {1, 1, 1, 1};  // ne[0] is contiguous; each >= 1
  std::span<const std::byte> data;           // in the mapping; aligned to 8 in files
  int part = 0;                              // which split file holds it, from 0
  uint64_t file_offset = 0;                  // of data, from the start of that part

  int64_t n_values() const { return ne[0] * ne[1] * ne[2] * ne[3]; }
  // "{2560, 512}".
  std::string ShapeText() const;
};

// A GGUF model file (version 2 or 3, little-endian), single or split, opened read-only by mmap.
// Everything is checked while opening: counts, types, strings, arrays, names, duplicates, shapes,
// offsets and sizes, splits. Nothing of it is trusted before, and a bad file is an error that names
// the file, the key or tensor, the value and the limit.
//
// Threads: immutable after Open(). The files must not be changed while it is open.
class GgufFile {
 public:
  // Opens `path`; if it is part 1 of a split model, the other parts too, found by its own name
  // (never by what a symbolic link resolves to).
  static Result<std::unique_ptr<GgufFile>> Open(const std::string& path);
  // Reads a single file from memory, which must outlive the result. `name` is for messages.
  static Result<std::unique_ptr<GgufFile>> Parse(std::span<const std::byte> bytes,
                                                 const std::string& name);

  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;
  ~GgufFile();

  // The path or name it was opened by.
  const std::string& name() const { return name_; }
  int version() const { return version_; }
  int64_t alignment() const { return alignment_; }
  int n_parts() const { return n_parts_; }
  // The file of part `part`; null when parsed from memory.
  const MappedFile* part_file(int part) const;
  // kDataLoss naming the file when bytes of a tensor could not be read (MappedFile::CheckReads()).
  Status CheckReads() const;
  // Of all parts together.
  uint64_t file_bytes() const { return file_bytes_; }

  // In file order, part after part.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  // Null when there is none.
  const GgufTensor* FindTensor(std::string_view name) const;

  // Metadata of part 1, in file order.
  const std::vector<GgufValue>& values() const { return values_; }
  // Null when there is none.
  const GgufValue* Find(std::string_view key) const;

  // The value of a key that must exist: kNotFound naming file and key, or the value's own error.
  Result<const GgufValue*> Require(std::string_view key) const;
  Result<int64_t> GetInt(std::string_view key, int64_t low, int64_t high) const;
  Result<double> GetFloat(std::string_view key, double low, double high) const;
  Result<bool> GetBool(std::string_view key) const;
  Result<std::string_view> GetString(std::string_view key) const;
  Result<std::vector<int64_t>> GetInts(std::string_view key, int64_t low, int64_t high) const;
  Result<std::vector<uint64_t>> GetUint64s(std::string_view key) const;
  Result<std::vector<std::string_view>> GetStrings(std::string_view key) const;

  // The same for a key that may be absent: `fallback` then; a present but wrong one is an error.
  Result<int64_t> GetIntOr(std::string_view key, int64_t low, int64_t high, int64_t fallback) const;
  Result<double> GetFloatOr(std::string_view key, double low, double high, double fallback) const;
  Result<bool> GetBoolOr(std::string_view key, bool fallback) const;
  Result<std::string_view> GetStringOr(std::string_view key, std::string_view fallback) const;

 private:
  GgufFile() = default;
  Status AddPart(std::span<const std::byte> bytes, const std::string& name, int part);
  Status AddSiblings(const std::string& path);

  std::string name_;
  int version_ = 0;
  int64_t alignment_ = kGgufDefaultAlignment;
  int n_parts_ = 1;
  uint64_t file_bytes_ = 0;
  std::vector<MappedFile> files_;
  std::vector<GgufValue> values_;
  std::map<std::string_view, size_t> value_index_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, size_t, std::less<>> tensor_index_;
};

}  // namespace holdfast

#endif  // HOLDFAST_WEIGHTS_GGUF_H_

#ifndef HOLDFAST_WEIGHTS_GGUF_WRITER_H_
#define HOLDFAST_WEIGHTS_GGUF_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "weights/gguf.h"

namespace holdfast {

// Writes GGUF version 3 files, for tests and tools. Metadata and tensors come out in the order they
// were added. Tensor data is asked for while writing, in pieces, so a file may be larger than
// memory.
//
// Keys, names, shapes and types are the caller's: they are not checked here, so that tests can make
// files which are wrong.
class GgufWriter {
 public:
  // Fills `out` with rows [first_row, first_row + n_rows) of a tensor (all dimensions above the
  // first flattened). Called from several threads at once, each row exactly once.
  using RowSource =
      std::function<void(int64_t first_row, int64_t n_rows, std::span<std::byte> out)>;

  explicit GgufWriter(int64_t alignment = kGgufDefaultAlignment) : alignment_(alignment) {}

  void SetString(std::string_view key, std::string_view value);
  void SetU32(std::string_view key, uint32_t value) { SetInt(key, GgufType::kU32, value); }
  void SetI32(std::string_view key, int32_t value) { SetInt(key, GgufType::kI32, value); }
  // Any integer type or bool, the value's low bytes.
  void SetInt(std::string_view key, GgufType type, int64_t value);
  void SetF32(std::string_view key, float value);
  void SetBool(std::string_view key, bool value) { SetInt(key, GgufType::kBool, value ? 1 : 0); }
  void SetInts(std::string_view key, GgufType type, std::span<const int64_t> values);
  void SetUint64s(std::string_view key, std::span<const uint64_t> values);
  void SetF32s(std::string_view key, std::span<const float> values);
  void SetStrings(std::string_view key, std::span<const std::string> values);
  // A copy of another file's value, under its own key.
  void SetValue(const GgufValue& value);
  // `payload` as it stands after the value's type id.
  void SetRaw(std::string_view key, int32_t type_id, std::span<const std::byte> payload);

  // ne[0] is contiguous. `data` must outlive the writing.
  void AddTensor(std::string_view name, QuantType type, std::vector<int64_t> ne,
                 std::span<const std::byte> data);
  void AddTensor(std::string_view name, QuantType type, std::vector<int64_t> ne, RowSource source);

  // What stands before the data: padded, so that the first tensor begins behind it.
  std::vector<std::byte> HeaderBytes() const { return Header(tensors_); }
  // The whole file in memory.
  std::vector<std::byte> ToBytes() const;
  // Writes `path` (under a temporary name first, so that a failure leaves no half file there).
  // kResourceExhausted and the like by errno, naming the path.
  Status WriteFile(const std::string& path, int n_threads = 1) const;
  // Writes "<prefix>-00001-of-<n>.gguf" and so on: part i holds the next n_tensors_of_part[i]
  // tensors in order (0 is allowed); all metadata is in part 1. Returns the path of part 1.
  Result<std::string> WriteSplitFiles(const std::string& prefix,
                                      std::span<const int> n_tensors_of_part,
                                      int n_threads = 1) const;

  int n_tensors() const { return static_cast<int>(tensors_.size()); }
  // Of all tensors' data, without padding.
  int64_t tensor_bytes() const;

 private:
  struct Tensor {
    std::string name;
    QuantType type;
    std::vector<int64_t> ne;
    RowSource source;
    int64_t n_rows = 0, row_bytes = 0;
  };
  struct Value {
    std::string key;
    std::vector<std::byte> bytes;  // from the type id on
  };

  std::vector<std::byte> Header(std::span<const Tensor> tensors) const;
  uint64_t Padded(uint64_t n) const;
  Status WriteData(int fd, const std::string& path, uint64_t data_start, int n_threads) const;

  int64_t alignment_;
  std::vector<Value> values_;
  std::vector<Tensor> tensors_;
};

}  // namespace holdfast

#endif  // HOLDFAST_WEIGHTS_GGUF_WRITER_H_

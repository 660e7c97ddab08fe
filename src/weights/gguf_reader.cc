#include "weights/gguf_reader.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

namespace holdfast {
namespace {

// The smallest things a file can count, in bytes: a key is its length, type and a 1-byte value; a
// tensor is its name's length, n_dims, type and offset.
constexpr uint64_t kMinKeyBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 4 + 8;

// Where a message points to. Made into text only when there is something to say.
struct Place {
  std::string_view what;  // "key", "tensor count"
  std::string_view name = {};
  int64_t index = -1;
  std::string_view detail = {};

  std::string Text() const {
    std::string text(what);
    if (index >= 0) text += fmt::format(" {}", index);
    if (name.data() != nullptr) text += " " + Quoted(name);
    return text.append(detail);
  }
};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  Result<GgufContents> Read() {
    GgufContents contents;
    HF_RETURN_IF_ERROR(ReadHeader(&contents));
    HF_RETURN_IF_ERROR(ReadValues(&contents));
    HF_RETURN_IF_ERROR(ReadAlignment(&contents));
    HF_RETURN_IF_ERROR(ReadTensors(&contents));
    HF_RETURN_IF_ERROR(PlaceTensors(&contents));
    return contents;
  }

 private:
  uint64_t left() const { return bytes_.size() - pos_; }

  Status Truncated(const Place& place, uint64_t wanted) const {
    return DataLossError(fmt::format("{}: {} at offset {}: needs {} bytes, the file has {} left",
                                     name_, place.Text(), pos_, wanted, left()));
  }

  template <typename T>
  Result<T> Scalar(const Place& place) {
    if (left() < sizeof(T)) return Truncated(place, sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + pos_, sizeof value);
    pos_ += sizeof value;
    return value;
  }

  Result<std::string_view> String(const Place& place, uint64_t max_bytes) {
    HF_ASSIGN_OR_RETURN(const uint64_t length, Scalar<uint64_t>(place));
    if (length > max_bytes) {
      return OutOfRangeError(fmt::format("{}: {} at offset {}: {} bytes long, the limit is {}",
                                         name_, place.Text(), pos_ - 8, length, max_bytes));
    }
    if (length > left()) return Truncated(place, length);
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + pos_, length);
    pos_ += length;
    return text;
  }

  Status ReadHeader(GgufContents* contents) {
    HF_ASSIGN_OR_RETURN(const uint32_t magic, Scalar<uint32_t>({"magic"}));
    if (magic != 0x46554747) {  // "GGUF"
      return InvalidArgumentError(
          fmt::format("{}: not a GGUF file (begins with 0x{:08x}, wanted \"GGUF\")", name_, magic));
    }
    HF_ASSIGN_OR_RETURN(const uint32_t version, Scalar<uint32_t>({"version"}));
    if (version != 2 && version != 3) {
      const bool swapped = __builtin_bswap32(version) == 2 || __builtin_bswap32(version) == 3;
      return UnimplementedError(fmt::format("{}: GGUF version {}{}, wanted 2 or 3", name_, version,
                                            swapped ? " (a big-endian file)" : ""));
    }
    contents->version = static_cast<int>(version);
    HF_ASSIGN_OR_RETURN(n_tensors_, Scalar<uint64_t>({"tensor count"}));
    HF_ASSIGN_OR_RETURN(n_values_, Scalar<uint64_t>({"key count"}));
    HF_RETURN_IF_ERROR(CheckCount({"tensor count"}, n_tensors_, kGgufMaxTensors, kMinTensorBytes));
    return CheckCount({"key count"}, n_values_, kGgufMaxKeys, kMinKeyBytes);
  }

  // Before anything is allocated for `count` things.
  Status CheckCount(const Place& place, uint64_t count, uint64_t limit, uint64_t min_bytes) const {
    if (count > limit) {
      return OutOfRangeError(
          fmt::format("{}: {}: found {}, the limit is {}", name_, place.Text(), count, limit));
    }
    if (count > left() / min_bytes) {
      return DataLossError(
          fmt::format("{}: {}: found {}, which need {} bytes each; the file has {} left", name_,
                      place.Text(), count, min_bytes, left()));
    }
    return OkStatus();
  }

  Status ReadValues(GgufContents* contents) {
    std::set<std::string_view> keys;
    contents->values.reserve(n_values_);
    for (uint64_t i = 0; i < n_values_; ++i) {
      HF_ASSIGN_OR_RETURN(
          const std::string_view key,
          String({.what = "name of key", .index = static_cast<int64_t>(i)}, kGgufMaxKeyBytes));
      if (key.empty()) return DataLossError(fmt::format("{}: key {} has no name", name_, i));
      if (!keys.insert(key).second) {
        return DataLossError(fmt::format("{}: key {} occurs twice", name_, Quoted(key)));
      }
      HF_RETURN_IF_ERROR(ReadValue(key, contents));
    }
    return OkStatus();
  }

  Status ReadValue(std::string_view key, GgufContents* contents) {
    const Place place{.what = "key", .name = key};
    HF_ASSIGN_OR_RETURN(const int32_t type_id, Scalar<int32_t>(place));
    HF_ASSIGN_OR_RETURN(const GgufType type, CheckType(place, type_id, /*element=*/false));
    GgufType element_type = type;
    uint64_t count = 1;
    if (type == GgufType::kArray) {
      HF_ASSIGN_OR_RETURN(const int32_t element_id, Scalar<int32_t>(place));
      HF_ASSIGN_OR_RETURN(element_type, CheckType(place, element_id, /*element=*/true));
      HF_ASSIGN_OR_RETURN(count, Scalar<uint64_t>(place));
      const int64_t fixed = GgufTypeBytes(element_type);
      HF_RETURN_IF_ERROR(CheckCount({.what = "key", .name = key, .detail = ": array length"}, count,
                                    kGgufMaxArrayCount,
                                    fixed > 0 ? static_cast<uint64_t>(fixed) : sizeof(uint64_t)));
    }
    const uint64_t start = pos_;
    if (element_type == GgufType::kString) {
      for (uint64_t i = 0; i < count; ++i)
        HF_RETURN_IF_ERROR(String(place, kGgufMaxStringBytes).status());
    } else {
      const uint64_t size = count * static_cast<uint64_t>(GgufTypeBytes(element_type));
      if (size > left()) return Truncated(place, size);
      pos_ += size;
    }
    contents->values.emplace_back(key, type, element_type, count,
                                  bytes_.subspan(start, pos_ - start));
    return OkStatus();
  }

  Result<GgufType> CheckType(const Place& place, int32_t id, bool element) const {
    const auto type = static_cast<GgufType>(id);
    const bool known = id >= 0 && id <= static_cast<int32_t>(GgufType::kF64);
    if (!known || (element && type == GgufType::kArray)) {
      return InvalidArgumentError(fmt::format(
          "{}: {}: {} {}, wanted {}", name_, place.Text(), element ? "array of" : "value of",
          GgufTypeName(type), element ? "u8 to f64 (arrays do not nest)" : "u8 to f64"));
    }
    return type;
  }

  Status ReadAlignment(GgufContents* contents) const {
    for (const GgufValue& value : contents->values) {
      if (value.key() != "general.alignment") continue;
      Result<int64_t> alignment = value.Int(kGgufMinAlignment, kGgufMaxAlignment);
      if (!alignment.ok()) {
        return Status(alignment.status().code(), name_ + ": " + alignment.status().message());
      }
      if (!std::has_single_bit(static_cast<uint64_t>(*alignment))) {
        return InvalidArgumentError(fmt::format(
            "{}: key \"general.alignment\": found {}, wanted a power of two", name_, *alignment));
      }
      contents->alignment = *alignment;
    }
    return OkStatus();
  }

  Status ReadTensors(GgufContents* contents) {
    std::set<std::string_view> names;
    contents->tensors.reserve(n_tensors_);
    for (uint64_t i = 0; i < n_tensors_; ++i) {
      GgufTensor tensor;
      HF_ASSIGN_OR_RETURN(const std::string_view name,
                          String({.what = "name of tensor", .index = static_cast<int64_t>(i)},
                                 kGgufMaxTensorNameBytes));
      if (name.empty()) return DataLossError(fmt::format("{}: tensor {} has no name", name_, i));
      if (!names.insert(name).second) {
        return DataLossError(fmt::format("{}: tensor {} occurs twice", name_, Quoted(name)));
      }
      tensor.name = name;
      HF_RETURN_IF_ERROR(ReadShape(&tensor));
      HF_RETURN_IF_ERROR(ReadTypeAndOffset(&tensor));
      contents->tensors.push_back(std::move(tensor));
    }
    return OkStatus();
  }

  Status ReadShape(GgufTensor* tensor) {
    const Place place{.what = "tensor", .name = tensor->name};
    HF_ASSIGN_OR_RETURN(const uint32_t n_dims, Scalar<uint32_t>(place));
    if (n_dims < 1 || n_dims > 4) {
      return OutOfRangeError(
          fmt::format("{}: {}: {} dimensions, wanted 1 to 4", name_, place.Text(), n_dims));
    }
    tensor->n_dims = static_cast<int>(n_dims);
    int64_t n_values = 1;
    for (uint32_t i = 0; i < n_dims; ++i) {
      HF_ASSIGN_OR_RETURN(const int64_t ne, Scalar<int64_t>(place));
      if (ne < 1) {
        return OutOfRangeError(fmt::format("{}: {}: dimension {} is {}, wanted 1 or more", name_,
                                           place.Text(), i, ne));
      }
      if (__builtin_mul_overflow(n_values, ne, &n_values)) {
        return OutOfRangeError(fmt::format("{}: {}: dimension {} is {}: more than 2^63 values",
                                           name_, place.Text(), i, ne));
      }
      tensor->ne[i] = ne;
    }
    return OkStatus();
  }

  // The data's size goes into n_bytes_, its offset into file_offset until it is placed.
  Status ReadTypeAndOffset(GgufTensor* tensor) {
    const Place place{.what = "tensor", .name = tensor->name};
    HF_ASSIGN_OR_RETURN(const int32_t type_id, Scalar<int32_t>(place));
    const QuantTypeInfo* info = FindQuantType(type_id);
    if (info == nullptr) {
      return UnimplementedError(
          fmt::format("{}: {}: no tensor type has id {}", name_, place.Text(), type_id));
    }
    tensor->type = info->type;
    Result<int64_t> row_bytes = RowBytes(info->type, tensor->ne[0]);
    if (!row_bytes.ok()) {
      return InvalidArgumentError(
          fmt::format("{}: {}: {}", name_, place.Text(), row_bytes.status().message()));
    }
    const int64_t n_rows = tensor->ne[1] * tensor->ne[2] * tensor->ne[3];
    int64_t n_bytes = 0;
    if (__builtin_mul_overflow(*row_bytes, n_rows, &n_bytes)) {
      return OutOfRangeError(fmt::format("{}: {}: shape {} of {} has more than 2^63 bytes", name_,
                                         place.Text(), tensor->ShapeText(), info->name));
    }
    n_bytes_.push_back(static_cast<uint64_t>(n_bytes));
    HF_ASSIGN_OR_RETURN(tensor->file_offset, Scalar<uint64_t>(place));
    return OkStatus();
  }

  // Tensors stand in order without gaps, each padded to the alignment, so they cannot overlap.
  Status PlaceTensors(GgufContents* contents) {
    if (contents->tensors.empty()) return OkStatus();
    const auto alignment = static_cast<uint64_t>(contents->alignment);
    const uint64_t data_start = (pos_ + alignment - 1) & ~(alignment - 1);
    uint64_t offset = 0;
    for (size_t i = 0; i < contents->tensors.size(); ++i) {
      GgufTensor& tensor = contents->tensors[i];
      if (tensor.file_offset != offset) {
        return DataLossError(
            fmt::format("{}: tensor {}: data at offset {}, wanted {} (the end of the tensor before "
                        "it, aligned to {}){}",
                        name_, Quoted(tensor.name), tensor.file_offset, offset, alignment,
                        tensor.file_offset < offset ? ": it overlaps" : ""));
      }
      uint64_t start = 0, end = 0;
      if (__builtin_add_overflow(data_start, offset, &start) ||
          __builtin_add_overflow(start, n_bytes_[i], &end) || end > bytes_.size()) {
        return DataLossError(
            fmt::format("{}: tensor {}: {} bytes at file offset {}, but the file has {}", name_,
                        Quoted(tensor.name), n_bytes_[i], start, bytes_.size()));
      }
      tensor.file_offset = start;
      tensor.data = bytes_.subspan(start, n_bytes_[i]);
      offset += (n_bytes_[i] + alignment - 1) & ~(alignment - 1);
    }
    return OkStatus();
  }

  std::span<const std::byte> bytes_;
  const std::string& name_;
  uint64_t pos_ = 0;
  uint64_t n_tensors_ = 0;
  uint64_t n_values_ = 0;
  std::vector<uint64_t> n_bytes_;  // of each tensor's data
};

}  // namespace

Result<GgufContents> ReadGguf(std::span<const std::byte> bytes, const std::string& name) {
  return Reader(bytes, name).Read();
}

}  // namespace holdfast

#ifndef HOLDFAST_WEIGHTS_GGUF_VALUE_H_
#define HOLDFAST_WEIGHTS_GGUF_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace holdfast {

// Type ids of metadata values, as GGUF files hold them.
enum class GgufType : int32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// "u32"; "type 99" for ids that do not exist.
std::string GgufTypeName(GgufType type);
// Bytes of one value of a fixed-size type; 0 for strings, arrays and unknown ids.
int64_t GgufTypeBytes(GgufType type);

// `text` in quotes, cut at 80 bytes, everything but printable ASCII escaped: names that come from a
// file go into messages this way only.
std::string Quoted(std::string_view text);

// One metadata value: a checked view into the file's bytes, which must outlive it. Getters return
// kInvalidArgument naming the key, what was found and what was wanted.
class GgufValue {
 public:
  GgufValue() = default;
  // `bytes` is the payload without type, element type and count, already checked to hold `count`
  // elements; a scalar has count 1 and element_type == type.
  GgufValue(std::string_view key, GgufType type, GgufType element_type, uint64_t count,
            std::span<const std::byte> bytes)
      : key_(key), type_(type), element_type_(element_type), count_(count), bytes_(bytes) {}

  std::string_view key() const { return key_; }
  GgufType type() const { return type_; }
  bool is_array() const { return type_ == GgufType::kArray; }
  GgufType element_type() const { return element_type_; }
  uint64_t count() const { return count_; }
  // The payload as it stands in the file (fixed-size types only have fixed strides in it).
  std::span<const std::byte> bytes() const { return bytes_; }

  // Integers of any width and sign whose value lies in [low, high]; a bool reads as 0 or 1.
  Result<int64_t> Int(int64_t low, int64_t high) const;
  Result<uint64_t> Uint64() const;
  // f32 or f64, finite, in [low, high]; integers are converted.
  Result<double> Float(double low, double high) const;
  // bool, or an integer that is 0 or 1.
  Result<bool> Bool() const;
  Result<std::string_view> String() const;

  // Arrays, element by element under the rules above. A scalar is not an array.
  Result<std::vector<int64_t>> Ints(int64_t low, int64_t high) const;
  Result<std::vector<uint64_t>> Uint64s() const;
  Result<std::vector<double>> Floats() const;
  Result<std::vector<bool>> Bools() const;
  // Views into the file.
  Result<std::vector<std::string_view>> Strings() const;

  // For people: "42", "\"text\"", "[1, 2, 3, … 2048 i32]".
  std::string ToText(size_t max_elements = 8) const;

 private:
  Status WrongType(std::string_view wanted) const;
  // Element i of a fixed-size integer or bool type.
  Result<__int128> IntegerAt(uint64_t i) const;
  Status WantArray(std::string_view of) const;
  Status WantScalar(std::string_view wanted) const;

  std::string_view key_;
  GgufType type_ = GgufType::kU8;
  GgufType element_type_ = GgufType::kU8;
  uint64_t count_ = 0;
  std::span<const std::byte> bytes_;
};

}  // namespace holdfast

#endif  // HOLDFAST_WEIGHTS_GGUF_VALUE_H_

#include "weights/gguf_value.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace holdfast {
namespace {

template <typename T>
T Load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

bool IsInteger(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kU16:
    case GgufType::kI16:
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kU64:
    case GgufType::kI64:
      return true;
    default:
      return false;
  }
}

std::string IntegerText(__int128 value) {
  return value < 0 ? std::to_string(static_cast<int64_t>(value))
                   : std::to_string(static_cast<uint64_t>(value));
}

}  // namespace

std::string GgufTypeName(GgufType type) {
  switch (type) {
    case GgufType::kU8:
      return "u8";
    case GgufType::kI8:
      return "i8";
    case GgufType::kU16:
      return "u16";
    case GgufType::kI16:
      return "i16";
    case GgufType::kU32:
      return "u32";
    case GgufType::kI32:
      return "i32";
    case GgufType::kF32:
      return "f32";
    case GgufType::kBool:
      return "bool";
    case GgufType::kString:
      return "string";
    case GgufType::kArray:
      return "array";
    case GgufType::kU64:
      return "u64";
    case GgufType::kI64:
      return "i64";
    case GgufType::kF64:
      return "f64";
  }
  return fmt::format("type {}", static_cast<int32_t>(type));
}

int64_t GgufTypeBytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

std::string Quoted(std::string_view text) {
  constexpr size_t kMaxBytes = 80;
  std::string out = "\"";
  for (char c : text.substr(0, kMaxBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += c;
    } else if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  out += text.size() > kMaxBytes ? "...\"" : "\"";
  return out;
}

Status GgufValue::WrongType(std::string_view wanted) const {
  const std::string found =
      is_array() ? fmt::format("an array of {} {}", count_, GgufTypeName(element_type_))
                 : fmt::format("{} {}", GgufTypeName(type_), ToText());
  return InvalidArgumentError(
      fmt::format("key {}: found {}, wanted {}", Quoted(key_), found, wanted));
}

Status GgufValue::WantScalar(std::string_view wanted) const {
  return is_array() ? WrongType(wanted) : OkStatus();
}

Status GgufValue::WantArray(std::string_view of) const {
  return is_array() ? OkStatus() : WrongType(fmt::format("an array of {}", of));
}

Result<__int128> GgufValue::IntegerAt(uint64_t i) const {
  const auto size = static_cast<uint64_t>(GgufTypeBytes(element_type_));
  const std::byte* p = bytes_.data() + i * size;
  switch (element_type_) {
    case GgufType::kU8:
      return __int128{Load<uint8_t>(p)};
    case GgufType::kI8:
      return __int128{Load<int8_t>(p)};
    case GgufType::kU16:
      return __int128{Load<uint16_t>(p)};
    case GgufType::kI16:
      return __int128{Load<int16_t>(p)};
    case GgufType::kU32:
      return __int128{Load<uint32_t>(p)};
    case GgufType::kI32:
      return __int128{Load<int32_t>(p)};
    case GgufType::kU64:
      return __int128{Load<uint64_t>(p)};
    case GgufType::kI64:
      return __int128{Load<int64_t>(p)};
    case GgufType::kBool:
      return __int128{Load<uint8_t>(p) != 0};
    default:
      return WrongType(is_array() ? "an array of integers" : "an integer");
  }
}

Result<int64_t> GgufValue::Int(int64_t low, int64_t high) const {
  HF_RETURN_IF_ERROR(WantScalar("an integer"));
  HF_ASSIGN_OR_RETURN(const __int128 value, IntegerAt(0));
  if (value < low || value > high) {
    return OutOfRangeError(fmt::format("key {}: found {}, wanted {} to {}", Quoted(key_),
                                       IntegerText(value), low, high));
  }
  return static_cast<int64_t>(value);
}

Result<uint64_t> GgufValue::Uint64() const {
  HF_RETURN_IF_ERROR(WantScalar("an integer"));
  HF_ASSIGN_OR_RETURN(const __int128 value, IntegerAt(0));
  if (value < 0) {
    return OutOfRangeError(
        fmt::format("key {}: found {}, wanted 0 or more", Quoted(key_), IntegerText(value)));
  }
  return static_cast<uint64_t>(value);
}

Result<double> GgufValue::Float(double low, double high) const {
  HF_RETURN_IF_ERROR(WantScalar("a number"));
  double value = 0;
  if (type_ == GgufType::kF32) {
    value = Load<float>(bytes_.data());
  } else if (type_ == GgufType::kF64) {
    value = Load<double>(bytes_.data());
  } else if (IsInteger(type_)) {
    HF_ASSIGN_OR_RETURN(const __int128 integer, IntegerAt(0));
    value = static_cast<double>(integer);
  } else {
    return WrongType("a number");
  }
  // Written so that a NaN is out of range too.
  if (!(value >= low && value <= high)) {
    return OutOfRangeError(
        fmt::format("key {}: found {}, wanted {} to {}", Quoted(key_), value, low, high));
  }
  return value;
}

Result<bool> GgufValue::Bool() const {
  HF_RETURN_IF_ERROR(WantScalar("a bool"));
  if (type_ != GgufType::kBool && !IsInteger(type_)) return WrongType("a bool");
  HF_ASSIGN_OR_RETURN(const int64_t value, Int(0, 1));
  return value == 1;
}

Result<std::string_view> GgufValue::String() const {
  if (type_ != GgufType::kString) return WrongType("a string");
  // The payload is the length (8 bytes, checked when the file was read) and the text.
  return std::string_view(reinterpret_cast<const char*>(bytes_.data()) + 8, bytes_.size() - 8);
}

Result<std::vector<int64_t>> GgufValue::Ints(int64_t low, int64_t high) const {
  HF_RETURN_IF_ERROR(WantArray("integers"));
  std::vector<int64_t> out;
  if (count_ > 0) HF_RETURN_IF_ERROR(IntegerAt(0).status());
  out.reserve(count_);
  for (uint64_t i = 0; i < count_; ++i) {
    HF_ASSIGN_OR_RETURN(const __int128 value, IntegerAt(i));
    if (value < low || value > high) {
      return OutOfRangeError(fmt::format("key {}: element {} is {}, wanted {} to {}", Quoted(key_),
                                         i, IntegerText(value), low, high));
    }
    out.push_back(static_cast<int64_t>(value));
  }
  return out;
}

Result<std::vector<uint64_t>> GgufValue::Uint64s() const {
  HF_RETURN_IF_ERROR(WantArray("integers"));
  std::vector<uint64_t> out;
  if (count_ > 0) HF_RETURN_IF_ERROR(IntegerAt(0).status());
  out.reserve(count_);
  for (uint64_t i = 0; i < count_; ++i) {
    HF_ASSIGN_OR_RETURN(const __int128 value, IntegerAt(i));
    if (value < 0) {
      return OutOfRangeError(fmt::format("key {}: element {} is {}, wanted 0 or more", Quoted(key_),
                                         i, IntegerText(value)));
    }
    out.push_back(static_cast<uint64_t>(value));
  }
  return out;
}

Result<std::vector<double>> GgufValue::Floats() const {
  HF_RETURN_IF_ERROR(WantArray("numbers"));
  const bool is_f32 = element_type_ == GgufType::kF32, is_f64 = element_type_ == GgufType::kF64;
  if (!is_f32 && !is_f64) return WrongType("an array of floating point numbers");
  std::vector<double> out(count_);
  for (uint64_t i = 0; i < count_; ++i) {
    out[i] =
        is_f32 ? double{Load<float>(bytes_.data() + 4 * i)} : Load<double>(bytes_.data() + 8 * i);
  }
  return out;
}

Result<std::vector<bool>> GgufValue::Bools() const {
  HF_ASSIGN_OR_RETURN(const std::vector<int64_t> values, Ints(0, 1));
  return std::vector<bool>(values.begin(), values.end());
}

Result<std::vector<std::string_view>> GgufValue::Strings() const {
  HF_RETURN_IF_ERROR(WantArray("strings"));
  if (element_type_ != GgufType::kString) return WrongType("an array of strings");
  std::vector<std::string_view> out;
  out.reserve(count_);
  const std::byte* p = bytes_.data();
  for (uint64_t i = 0; i < count_; ++i) {
    const auto length = Load<uint64_t>(p);
    out.emplace_back(reinterpret_cast<const char*>(p) + 8, length);
    p += 8 + length;
  }
  return out;
}

std::string GgufValue::ToText(size_t max_elements) const {
  const auto element = [&](uint64_t i) -> std::string {
    if (element_type_ == GgufType::kBool) {
      return Load<uint8_t>(bytes_.data() + i) != 0 ? "true" : "false";
    }
    if (element_type_ == GgufType::kF32)
      return fmt::format("{}", Load<float>(bytes_.data() + 4 * i));
    if (element_type_ == GgufType::kF64)
      return fmt::format("{}", Load<double>(bytes_.data() + 8 * i));
    const Result<__int128> integer = IntegerAt(i);
    return integer.ok() ? IntegerText(*integer) : "?";
  };
  if (type_ == GgufType::kString) return Quoted(String().value());
  if (!is_array()) return element(0);
  std::string out = "[";
  const std::byte* p = bytes_.data();
  for (uint64_t i = 0; i < count_ && i < max_elements; ++i) {
    if (i > 0) out += ", ";
    if (element_type_ == GgufType::kString) {
      const auto length = Load<uint64_t>(p);
      out += Quoted({reinterpret_cast<const char*>(p) + 8, length});
      p += 8 + length;
    } else {
      out += element(i);
    }
  }
  if (count_ > max_elements) out += fmt::format(", ... {} {}", count_, GgufTypeName(element_type_));
  return out + "]";
}

}  // namespace holdfast

#include "server/field_reader.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

namespace holdfast {

FieldReader::FieldReader(const Json& object, std::string path)
    : object_(object), path_(std::move(path)) {
  if (object_.is_object()) return;
  const std::string name = path_.empty() ? "the body" : path_.substr(0, path_.size() - 1);
  error_.status = InvalidArgumentError(
      fmt::format("{} is {}, must be a JSON object", name, ShortText(object_)));
  if (!path_.empty()) error_.param = name;
}

const Json* FieldReader::Find(std::string_view key) const {
  if (!ok()) return nullptr;
  const auto it = object_.find(std::string(key));
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

void FieldReader::Fail(std::string_view key, Status status) {
  if (!ok()) return;
  error_.status = std::move(status);
  error_.param = path_ + std::string(key);
}

void FieldReader::Refuse(std::string_view key, const Json& value, std::string_view wanted) {
  Fail(key, InvalidArgumentError(
                fmt::format("{}{} is {}, must be {}", path_, key, ShortText(value), wanted)));
}

void FieldReader::Read(std::string_view key, bool* out) {
  const Json* value = Find(key);
  if (value == nullptr) return;
  if (!value->is_boolean()) return Refuse(key, *value, "true or false");
  *out = value->get<bool>();
}

void FieldReader::Read(std::string_view key, std::optional<bool>* out) {
  bool value = false;
  if (Find(key) == nullptr) return;
  Read(key, &value);
  if (ok()) *out = value;
}

void FieldReader::Read(std::string_view key, int64_t* out, int64_t low, int64_t high) {
  const Json* value = Find(key);
  if (value == nullptr) return;
  const std::string wanted = fmt::format("an integer from {} to {}", low, high);
  int64_t integer = 0;
  if (value->is_number_unsigned()) {
    const uint64_t number = value->get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Refuse(key, *value, wanted);
    }
    integer = static_cast<int64_t>(number);
  } else if (value->is_number_integer()) {
    integer = value->get<int64_t>();
  } else if (value->is_number_float()) {
    // 100.0 is what some languages write for 100.
    const double number = value->get<double>();
    constexpr double kExact = 9007199254740992.0;  // 2^53
    if (!(number >= -kExact && number <= kExact)) return Refuse(key, *value, wanted);
    integer = static_cast<int64_t>(number);
    if (static_cast<double>(integer) != number) return Refuse(key, *value, wanted);
  } else {
    return Refuse(key, *value, wanted);
  }
  if (integer < low || integer > high) return Refuse(key, *value, wanted);
  *out = integer;
}

void FieldReader::Read(std::string_view key, int* out, int low, int high) {
  int64_t value = *out;
  Read(key, &value, int64_t{low}, int64_t{high});
  if (ok()) *out = static_cast<int>(value);
}

void FieldReader::Read(std::string_view key, float* out, double low, double high) {
  const Json* value = Find(key);
  if (value == nullptr) return;
  const std::string wanted = fmt::format("a number from {} to {}", low, high);
  if (!value->is_number()) return Refuse(key, *value, wanted);
  const double number = value->get<double>();
  if (!(number >= low && number <= high)) return Refuse(key, *value, wanted);
  *out = static_cast<float>(number);
}

void FieldReader::Read(std::string_view key, std::string* out) {
  const Json* value = Find(key);
  if (value == nullptr) return;
  if (!value->is_string()) return Refuse(key, *value, "a string");
  *out = value->get<std::string>();
}

void FieldReader::Read(std::string_view key, std::optional<std::string>* out) {
  if (Find(key) == nullptr) return;
  std::string value;
  Read(key, &value);
  if (ok()) *out = std::move(value);
}

void FieldReader::Read(std::string_view key, std::vector<std::string>* out) {
  const Json* value = Find(key);
  if (value == nullptr) return;
  std::vector<std::string> strings;
  if (value->is_string()) {
    strings.push_back(value->get<std::string>());
  } else if (value->is_array()) {
    for (const Json& element : *value) {
      if (!element.is_string()) return Refuse(key, element, "a string or an array of strings");
      strings.push_back(element.get<std::string>());
    }
  } else {
    return Refuse(key, *value, "a string or an array of strings");
  }
  *out = std::move(strings);
}

void FieldReader::RefuseUnsupported(std::span<const Unsupported> fields) {
  for (const auto& [key, instead] : fields) {
    const Json* value = Find(key);
    if (value == nullptr || *value == false || *value == 0 || *value == "none" ||
        (value->is_array() && value->empty())) {
      continue;
    }
    Fail(key, UnimplementedError(fmt::format("{}{} is not supported: {}", path_, key, instead)));
  }
}

const Json* FieldReader::Object(std::string_view key) {
  const Json* value = Find(key);
  if (value == nullptr) return nullptr;
  if (value->is_object()) return value;
  Refuse(key, *value, "an object");
  return nullptr;
}

}  // namespace holdfast

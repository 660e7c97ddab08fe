#include "ops/kv_format.h"

#include <string>

namespace holdfast {

std::string_view KvFormatName(KvFormat format) {
  switch (format) {
    case KvFormat::kF32:
      return "f32";
    case KvFormat::kF16:
      return "f16";
    case KvFormat::kInt8:
      return "int8";
  }
  return "?";
}

Result<KvFormat> ParseKvFormat(std::string_view name) {
  for (KvFormat format : {KvFormat::kF32, KvFormat::kF16, KvFormat::kInt8}) {
    if (name == KvFormatName(format)) return format;
  }
  return InvalidArgumentError("KV format '" + std::string(name) + "', wanted f32, f16 or int8");
}

std::string_view ActivationFormatName(ActivationFormat format) {
  switch (format) {
    case ActivationFormat::kF32:
      return "f32";
    case ActivationFormat::kAuto:
      return "auto";
    case ActivationFormat::kInt8:
      return "int8";
    case ActivationFormat::kInt16:
      return "int16";
  }
  return "?";
}

Result<ActivationFormat> ParseActivationFormat(std::string_view name) {
  for (ActivationFormat format : {ActivationFormat::kAuto, ActivationFormat::kF32,
                                  ActivationFormat::kInt8, ActivationFormat::kInt16}) {
    if (name == ActivationFormatName(format)) return format;
  }
  return InvalidArgumentError("activation format '" + std::string(name) +
                              "', wanted auto, f32, int8 or int16");
}

}  // namespace holdfast

#include "server/json.h"

#include <fmt/format.h>

#include <algorithm>

namespace holdfast {
namespace {

// Counts without parsing: brackets and commas outside of strings. Text that is not JSON is counted
// somehow and refused later.
Status CheckLimits(std::string_view text, const JsonLimits& limits) {
  int depth = 0;
  int64_t n_values = 1;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
      continue;
    }
    if (c == '\0') {  // the parser would take it for the end
      return InvalidArgumentError(fmt::format("not valid JSON: a zero byte at byte {}", i));
    }
    if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      ++n_values;
      if (++depth > limits.max_depth) {
        return InvalidArgumentError(fmt::format(
            "the JSON is nested more than {} levels deep at byte {}", limits.max_depth, i));
      }
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && ++n_values > limits.max_values) {
      return InvalidArgumentError(
          fmt::format("the JSON has more than {} values", limits.max_values));
    }
  }
  return OkStatus();
}

// nlohmann's message without its prefix in brackets.
std::string Reason(std::string_view what) {
  const size_t end = what.find("] ");
  return std::string(end == std::string_view::npos ? what : what.substr(end + 2));
}

}  // namespace

Result<Json> ParseJson(std::string_view text, const JsonLimits& limits) {
  HF_RETURN_IF_ERROR(CheckLimits(text, limits));
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    return InvalidArgumentError("not valid JSON: " + Reason(error.what()));
  }
}

std::string ToText(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string ShortText(const Json& value) {
  // Long strings are cut before they are written out.
  if (const auto* text = value.get_ptr<const std::string*>();
      text != nullptr && text->size() > 60) {
    return ToText(Json(text->substr(0, 57))) + "...";
  }
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  if (value.is_object()) return "an object";
  return ToText(value);
}

}  // namespace holdfast

#ifndef HOLDFAST_SERVER_JSON_H_
#define HOLDFAST_SERVER_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace holdfast {

// Key order is kept: tool schemas are rendered into prompts as the client wrote them.
using Json = nlohmann::ordered_json;

struct JsonLimits {
  int max_depth = 100;             // nested arrays and objects
  int64_t max_values = 1'000'000;  // a value costs at least 16 bytes once parsed
};

// Parses one JSON value. kInvalidArgument naming line and column for text that is not JSON (invalid
// UTF-8 included, numbers that overflow included), or the limit it runs past; limits are checked
// before anything is allocated.
Result<Json> ParseJson(std::string_view text, const JsonLimits& limits = {});

// Compact text. Never throws: bytes that are not UTF-8 become U+FFFD.
std::string ToText(const Json& value);

// A value for a message: its text cut at 60 bytes.
std::string ShortText(const Json& value);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_JSON_H_

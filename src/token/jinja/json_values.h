#ifndef HOLDFAST_TOKEN_JINJA_JSON_VALUES_H_
#define HOLDFAST_TOKEN_JINJA_JSON_VALUES_H_

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "base/status.h"
#include "token/jinja/value.h"

namespace holdfast::jinja {

// JSON deeper than this is refused.
inline constexpr int kMaxJsonDepth = 100;

// A JSON value as template value; every string and key in it came from `source`.
Result<Value> FromJson(const nlohmann::ordered_json& json, Source source);

// The same for JSON text. Numbers keep their spelling where 64-bit integers and printing back would
// not (1.50, 1e5, 123456789012345678901). kInvalidArgument when it is not one JSON value.
Result<Value> FromJsonText(std::string_view text, Source source);

}  // namespace holdfast::jinja

#endif  // HOLDFAST_TOKEN_JINJA_JSON_VALUES_H_

#ifndef HOLDFAST_TOKEN_TOOL_SCHEMA_H_
#define HOLDFAST_TOKEN_TOOL_SCHEMA_H_

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace holdfast {

// What a parameter's schema says about how its text is to be read.
enum class ParameterType {
  kUnknown,  // no schema, or one that does not say
  kString,   // strings only: raw text
  kJson,     // no strings: JSON
  kMixed,    // strings and others
};

// Parameters of the tools of a request. Accepts OpenAI's shape ({"type": "function", "function":
// {...}} or the function itself, with "parameters") and Anthropic's ("input_schema"); whatever else
// stands there is ignored, not refused.
class ToolSchemas {
 public:
  ToolSchemas() = default;
  explicit ToolSchemas(const nlohmann::ordered_json& tools);

  bool empty() const { return n_tools_ == 0; }
  bool HasParameter(std::string_view tool, std::string_view parameter) const;
  ParameterType TypeOf(std::string_view tool, std::string_view parameter) const;

 private:
  using Parameters = std::map<std::string, ParameterType, std::less<>>;
  const ParameterType* Find(std::string_view tool, std::string_view parameter) const;

  std::map<std::string, Parameters, std::less<>> tools_;
  size_t n_tools_ = 0;
};

// The JSON value for a parameter's text: raw text as a JSON string, or the text itself when it is
// valid JSON and the type allows that. Where only JSON can stand, Python's True, False and None are
// understood.
std::string ArgumentJson(std::string_view text, ParameterType type);

// `text` (valid UTF-8) between quotes, and without them.
std::string JsonString(std::string_view text);
std::string JsonStringInside(std::string_view text);

}  // namespace holdfast

#endif  // HOLDFAST_TOKEN_TOOL_SCHEMA_H_

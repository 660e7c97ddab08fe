#ifndef HOLDFAST_TOKEN_TOOL_CALL_PARSER_H_
#define HOLDFAST_TOKEN_TOOL_CALL_PARSER_H_

#include <string>
#include <string_view>

#include "token/tool_schema.h"

namespace holdfast {

// Reads what stands between <tool_call> and </tool_call> as it arrives, and gives the name and the
// arguments as growing JSON text.
//
// A parameter's value ends at a </parameter> that is followed by another parameter or the end of
// the function, not inside a whole call that the value quotes; a value is given piece by piece only
// when its schema says string. Missing closers: a line that begins with <parameter=KEY> ends the
// value before it if the tool has that KEY, and the end of the call ends everything.
class ToolCallParser {
 public:
  // `schemas` must outlive this object.
  explicit ToolCallParser(const ToolSchemas* schemas) : schemas_(schemas) {}

  // More text, valid UTF-8. What it makes certain is added to what Take* returns.
  void Push(std::string_view text);
  // The call ends: by its marker (`closed`) or because the reply was cut.
  void Finish(bool closed);

  // True once the name is known (only after Finish when the call is a JSON object).
  bool has_name() const { return has_name_; }
  const std::string& name() const { return name_; }
  // New argument text since the last call of this function.
  std::string TakeArguments();
  // After Finish: whether the function was complete.
  bool complete() const { return complete_; }
  // Whether a marker that comes now stands in a value, and whether inside a quoted call there.
  bool in_value() const { return state_ == State::kValue; }
  bool in_quoted_call() const { return state_ == State::kValue && quoted_calls_ > 0; }
  // Everything that was pushed, for calls that turn out to be none.
  const std::string& raw() const { return raw_; }

 private:
  enum class State { kStart, kJson, kBetween, kValue, kAfter };
  // What the text at a '<' inside a value means.
  enum class Mark { kText, kUndecided, kClose, kQuoteOpens, kQuoteCloses };

  void Run(bool at_end);
  bool RunStart();
  bool RunBetween();
  bool RunValue(bool at_end);
  void BeginParameter();
  void EndParameter(size_t value_end, size_t next);
  void GiveValue(std::string_view text);
  void FinishJson();
  Mark MarkAt(size_t at, bool at_end) const;
  Mark ParameterCloser(std::string_view text, bool at_end) const;
  Mark NextParameter(std::string_view text, bool at_end) const;
  Mark QuotedCall(std::string_view text, bool at_end) const;
  bool AtLineStart(size_t at) const { return at == 0 ? !value_given_ : buffer_[at - 1] == '\n'; }

  const ToolSchemas* schemas_;
  State state_ = State::kStart;
  std::string raw_;
  std::string buffer_;     // not consumed yet; in a value: from what was not given yet
  std::string arguments_;  // to be taken
  std::string name_;
  bool has_name_ = false;
  bool complete_ = false;
  bool any_parameter_ = false;
  std::string key_;
  ParameterType type_ = ParameterType::kUnknown;
  bool value_begun_ = false;  // the newline after <parameter=...> has been looked at
  bool value_given_ = false;  // a part of the value is out; it never ends with a newline
  int quoted_calls_ = 0;
  size_t scanned_ = 0;  // bytes of buffer_ that are certainly part of the value
};

}  // namespace holdfast

#endif  // HOLDFAST_TOKEN_TOOL_CALL_PARSER_H_

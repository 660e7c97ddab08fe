#include "grammar/reply_format.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "grammar/schema_compiler.h"
#include "grammar/string_rules.h"
#include "token/tool_schema.h"

namespace holdfast {
namespace {

using Json = nlohmann::ordered_json;

std::string TextOf(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

class FormatCompiler {
 public:
  FormatCompiler(const ReplyFormat& format, std::string* where)
      : format_(format), where_(*where), builder_(kMaxGrammarStates), strings_(&builder_) {}

  Result<Grammar> Compile() {
    const RuleId root = builder_.NewRule();
    const StateId start = builder_.StartOf(root), end = builder_.NewFinal();
    if (format_.text == ReplyFormat::Text::kJson) {
      where_ = format_.schema_where;
      SchemaCompiler schema(&builder_, &strings_, format_.schema, format_.schema_where,
                            /*in_call=*/false);
      builder_.Call(start, schema.Value(format_.schema, format_.schema_where), end);
      HF_RETURN_IF_ERROR(StatusOf(schema));
    }
    if (format_.calls != ReplyFormat::Calls::kNone) HF_RETURN_IF_ERROR(AddCalls(start, end));
    Result<Grammar> grammar = std::move(builder_).Finish(root);
    if (grammar.ok()) return grammar;
    return Status(grammar.status().code(), where_ + ": " + grammar.status().message());
  }

 private:
  Status StatusOf(const SchemaCompiler& schema) {
    if (!schema.status().ok()) where_ = schema.where();
    return schema.status();
  }

  Status AddCalls(StateId start, StateId end) {
    const StateId between = builder_.NewState(), call = builder_.NewState();
    builder_.Skip(start, call);
    builder_.Skip(between, end);
    if (format_.calls != ReplyFormat::Calls::kOne) builder_.Text(between, "\n", call);
    if (format_.calls == ReplyFormat::Calls::kFree) {
      const StateId begun = builder_.NewState(), done = builder_.NewState();
      builder_.Read(call, kCallBegin, begun);
      strings_.AddAny(begun, CodePointSet::All(), 0, kUnlimited, Spelling::kRaw, done);
      builder_.Read(done, kCallEnd, between);
      return OkStatus();
    }
    for (const ReplyFormat::Tool& tool : format_.tools) {
      HF_RETURN_IF_ERROR(AddCall(tool, call, between));
    }
    return OkStatus();
  }

  Status AddCall(const ReplyFormat::Tool& tool, StateId from, StateId to) {
    where_ = tool.where;
    if (tool.name.empty() || tool.name.find_first_of("<>\r\n\t ") != std::string::npos) {
      return UnimplementedError(
          fmt::format("{}: a tool with this name cannot be called", tool.where));
    }
    const StateId begun = builder_.NewState();
    builder_.Read(from, kCallBegin, begun);
    const StateId parameters = builder_.Text(begun, fmt::format("\n<function={}>\n", tool.name));
    const StateId done = builder_.NewState();
    if (tool.parameters.is_null()) {
      builder_.Skip(parameters, done);
    } else {
      Json described;
      described["name"] = tool.name;
      described["parameters"] = tool.parameters;
      const ToolSchemas schemas(Json::array({described}));
      SchemaCompiler schema(&builder_, &strings_, tool.parameters, tool.where, /*in_call=*/true);
      schema.AddParameters(tool.parameters, tool.where, schemas, tool.name, parameters, done);
      HF_RETURN_IF_ERROR(StatusOf(schema));
    }
    builder_.Read(builder_.Text(done, "</function>\n"), kCallEnd, to);
    return OkStatus();
  }

  const ReplyFormat& format_;
  std::string& where_;
  GrammarBuilder builder_;
  StringRules strings_;
};

}  // namespace

std::string ReplyFormat::Key() const {
  std::string key = fmt::format("{} {} {}", static_cast<int>(text), static_cast<int>(calls),
                                text == Text::kJson ? TextOf(schema) : std::string());
  if (calls == Calls::kOne || calls == Calls::kSeveral) {
    for (const Tool& tool : tools) {
      key += fmt::format("\n{} {}", TextOf(Json(tool.name)), TextOf(tool.parameters));
    }
  }
  return key;
}

Result<Grammar> CompileFormat(const ReplyFormat& format, std::string* where) {
  return FormatCompiler(format, where).Compile();
}

}  // namespace holdfast

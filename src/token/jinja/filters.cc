// Filters on single values; those that walk lists are in list_filters.cc.
#include "token/jinja/filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "token/jinja/builtins.h"
#include "token/jinja/output.h"
#include "token/jinja/strings.h"
#include "token/utf8.h"
#include "weights/gguf_value.h"

namespace holdfast::jinja {
namespace {

template <TaggedString (*kMap)(const TaggedString&)>
Result<Value> Mapped(Interpreter& interpreter, const Value& value, const Arguments&) {
  HF_ASSIGN_OR_RETURN(const Value text, ToString(interpreter, value));
  return interpreter.MakeString(kMap(text.string()));
}

Result<Value> Absolute(Interpreter& interpreter, const Value& value, const Arguments&) {
  if (!value.is_number()) {
    return InvalidArgumentError(fmt::format("abs of {}", value.KindName()));
  }
  return value.number() < 0 ? Binary(interpreter, "-", Value::Int(0), value) : value;
}

Result<Value> Attribute(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Value* name = arguments.Get(0, "name");
  if (name == nullptr || !name->is_string()) return InvalidArgumentError("attr wants a name");
  return GetAttribute(interpreter, value, name->text());
}

Result<Value> Default(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Value* fallback = arguments.Get(0, "default_value");
  const Value* boolean = arguments.Get(1, "boolean");
  const bool also_false = boolean != nullptr && boolean->IsTrue();
  if (!value.is_undefined() && (!also_false || value.IsTrue())) return value;
  if (fallback != nullptr) return *fallback;
  return interpreter.MakeString(TaggedString());
}

Result<Value> Escape(Interpreter& interpreter, const Value& value, const Arguments&) {
  HF_ASSIGN_OR_RETURN(const Value text, ToString(interpreter, value));
  TaggedString out;
  AppendEscaped(
      text.string(),
      [](char32_t c) -> std::string {
        switch (c) {
          case '&':
            return "&amp;";
          case '<':
            return "&lt;";
          case '>':
            return "&gt;";
          case '"':
            return "&#34;";
          case '\'':
            return "&#39;";
          default:
            return "";
        }
      },
      &out);
  return interpreter.MakeString(std::move(out));
}

Result<Value> Float(Interpreter&, const Value& value, const Arguments& arguments) {
  if (value.is_number()) return Value::Float(value.number());
  if (value.is_string()) {
    const std::string text = Strip(value.string(), Side::kBoth, std::nullopt).text();
    char* end = nullptr;
    const double d = std::strtod(text.c_str(), &end);
    if (!text.empty() && end == text.c_str() + text.size()) return Value::Float(d);
  }
  const Value* fallback = arguments.Get(0, "default");
  return fallback == nullptr ? Value::Float(0.0) : *fallback;
}

Result<Value> Format(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const Value text, ToString(interpreter, value));
  return FormatPercent(interpreter, text.string(), arguments.positional);
}

Result<Value> IndentFilter(Interpreter& interpreter, const Value& value,
                           const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const Value text, ToString(interpreter, value));
  const Value* width = arguments.Get(0, "width");
  const Value* first = arguments.Get(1, "first");
  const Value* blank = arguments.Get(2, "blank");
  TaggedString indent("    ", kTemplate);
  if (width != nullptr && width->is_string()) {
    indent = width->string();
  } else if (width != nullptr) {
    HF_ASSIGN_OR_RETURN(const Value spaces,
                        Repeat(interpreter, TaggedString(" ", kTemplate), width->integer()));
    indent = spaces.string();
  }
  return Indent(interpreter, text.string(), indent, first != nullptr && first->IsTrue(),
                blank != nullptr && blank->IsTrue());
}

Result<Value> Integer(Interpreter&, const Value& value, const Arguments& arguments) {
  const Value* fallback = arguments.Get(0, "default");
  const Value otherwise = fallback == nullptr ? Value::Int(0) : *fallback;
  double number = 0;
  if (value.is_int() || value.is_bool()) return Value::Int(value.integer());
  if (value.is_float()) {
    number = value.number();
  } else if (value.is_string()) {
    const std::string text = Strip(value.string(), Side::kBoth, std::nullopt).text();
    int64_t integer = 0;
    const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(begin, end, integer);
    if (begin != end && error == std::errc() && stop == end) return Value::Int(integer);
    char* parsed = nullptr;
    number = std::strtod(text.c_str(), &parsed);
    if (text.empty() || parsed != text.c_str() + text.size()) return otherwise;
  } else {
    return otherwise;
  }
  if (!(std::fabs(number) < 9.2e18)) return otherwise;
  return Value::Int(static_cast<int64_t>(number));
}

Result<Value> ItemsFilter(Interpreter& interpreter, const Value& value, const Arguments& none) {
  if (value.is_undefined()) return interpreter.MakeList({});
  return CallMethod(interpreter, value, "items", none);
}

Result<Value> Length(Interpreter& interpreter, const Value& value, const Arguments&) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      return Value::Int(0);
    case Value::Kind::kString:
      HF_RETURN_IF_ERROR(interpreter.Step(static_cast<int64_t>(1 + value.text().size() / 64)));
      return Value::Int(CountUtf8(value.text()));
    case Value::Kind::kList:
      return Value::Int(static_cast<int64_t>(value.list().size()));
    case Value::Kind::kDict:
      return Value::Int(static_cast<int64_t>(value.dict().entries.size()));
    default:
      return InvalidArgumentError(fmt::format("{} has no length", value.KindName()));
  }
}

Result<Value> ReplaceFilter(Interpreter& interpreter, const Value& value,
                            const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const Value text, ToString(interpreter, value));
  const Value* from = arguments.Get(0, "old");
  const Value* to = arguments.Get(1, "new");
  const Value* count = arguments.Get(2, "count");
  if (from == nullptr || to == nullptr) return InvalidArgumentError("replace wants two strings");
  HF_ASSIGN_OR_RETURN(const Value from_text, ToString(interpreter, *from));
  HF_ASSIGN_OR_RETURN(const Value to_text, ToString(interpreter, *to));
  const int64_t limit = count != nullptr && count->is_int() ? count->integer() : -1;
  return Replace(interpreter, text.string(), from_text.string(), to_text.string(), limit);
}

Result<Value> Round(Interpreter&, const Value& value, const Arguments& arguments) {
  if (!value.is_number()) return InvalidArgumentError(fmt::format("round of {}", value.KindName()));
  const Value* precision = arguments.Get(0, "precision");
  const Value* method = arguments.Get(1, "method");
  const int64_t digits = precision != nullptr && precision->is_int() ? precision->integer() : 0;
  if (digits < -300 || digits > 300) return InvalidArgumentError("round to so many digits");
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = value.number() * scale;
  double rounded = std::nearbyint(scaled);  // ties to even, as Python's round
  if (method != nullptr && method->is_string() && method->text() == "ceil") {
    rounded = std::ceil(scaled);
  } else if (method != nullptr && method->is_string() && method->text() == "floor") {
    rounded = std::floor(scaled);
  }
  return Value::Float(rounded / scale);
}

Result<Value> String(Interpreter& interpreter, const Value& value, const Arguments&) {
  return ToString(interpreter, value);
}

Result<Value> ToJson(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  JsonStyle style;
  const Value* ensure_ascii = arguments.Get(0, "ensure_ascii");
  const Value* indent = arguments.Get(1, "indent");
  const Value* separators = arguments.Get(2, "separators");
  const Value* sort_keys = arguments.Get(3, "sort_keys");
  // Jinja's own tojson takes the indent first, transformers' ensure_ascii.
  if (ensure_ascii != nullptr && ensure_ascii->is_int() && indent == nullptr) {
    indent = ensure_ascii;
    ensure_ascii = nullptr;
  }
  style.ensure_ascii = ensure_ascii != nullptr && ensure_ascii->IsTrue();
  style.sort_keys = sort_keys != nullptr && sort_keys->IsTrue();
  if (indent != nullptr && indent->is_int()) {
    if (indent->integer() > 64) return InvalidArgumentError("tojson with an indent above 64");
    style.indent = std::max<int64_t>(indent->integer(), 0);
    style.item_separator = TaggedString(",", kTemplate);
  }
  if (separators != nullptr && separators->is_list() && separators->list().size() == 2 &&
      separators->list()[0].is_string() && separators->list()[1].is_string()) {
    style.item_separator = separators->list()[0].string();
    style.key_separator = separators->list()[1].string();
  }
  TaggedString out;
  HF_RETURN_IF_ERROR(WriteJson(interpreter, value, style, &out));
  return interpreter.MakeString(std::move(out));
}

Result<Value> Trim(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const Value text, ToString(interpreter, value));
  return CallMethod(interpreter, text, "strip", arguments);
}

Result<Value> Truncate(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const Value text, ToString(interpreter, value));
  const Value* length = arguments.Get(0, "length");
  const Value* killwords = arguments.Get(1, "killwords");
  const Value* end = arguments.Get(2, "end");
  const Value* leeway = arguments.Get(3, "leeway");
  const TaggedString tail =
      end != nullptr && end->is_string() ? end->string() : TaggedString("...", kTemplate);
  const int64_t n = length != nullptr && length->is_int() ? length->integer() : 255;
  const int64_t slack = leeway != nullptr && leeway->is_int() ? leeway->integer() : 5;
  const std::vector<size_t> offsets = CharacterOffsets(text.text());
  const auto n_text = static_cast<int64_t>(offsets.size()) - 1;
  if (n < 0 || slack < 0) return InvalidArgumentError("truncate to a negative length");
  if (n_text - n <= slack) return text;
  const int64_t kept = std::clamp<int64_t>(n - CountUtf8(tail.text()), 0, n_text);
  TaggedString out = text.string().Substr(0, offsets[static_cast<size_t>(kept)]);
  if (killwords == nullptr || !killwords->IsTrue()) {
    const size_t space = out.text().rfind(' ');
    if (space != std::string::npos) out.Truncate(space);
  }
  out.Append(tail);
  return interpreter.MakeString(std::move(out));
}

std::string PercentEncoded(char32_t c) {
  const bool safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '_' || c == '.' || c == '-' || c == '~' || c == '/';
  std::string bytes, out;
  if (!safe) AppendUtf8(c, &bytes);
  for (const char byte : bytes) out += fmt::format("%{:02X}", static_cast<uint8_t>(byte));
  return out;
}

Result<Value> UrlEncode(Interpreter& interpreter, const Value& value, const Arguments&) {
  HF_ASSIGN_OR_RETURN(const Value text, ToString(interpreter, value));
  TaggedString out;
  AppendEscaped(text.string(), PercentEncoded, &out);
  return interpreter.MakeString(std::move(out));
}

Result<Value> WordCount(Interpreter& interpreter, const Value& value, const Arguments&) {
  HF_ASSIGN_OR_RETURN(const Value text, ToString(interpreter, value));
  HF_ASSIGN_OR_RETURN(const List words,
                      SplitText(interpreter, text.string(), std::nullopt, -1, false));
  return Value::Int(static_cast<int64_t>(words.size()));
}

}  // namespace

const FilterTable& ValueFilters() {
  static const FilterTable filters = {
      {"abs", Absolute},
      {"attr", Attribute},
      {"capitalize", Mapped<Capitalize>},
      {"count", Length},
      {"d", Default},
      {"default", Default},
      {"e", Escape},
      {"escape", Escape},
      {"float", Float},
      {"format", Format},
      {"indent", IndentFilter},
      {"int", Integer},
      {"items", ItemsFilter},
      {"length", Length},
      {"lower", Mapped<Lower>},
      {"replace", ReplaceFilter},
      {"round", Round},
      {"safe", String},
      {"string", String},
      {"title", Mapped<Title>},
      {"tojson", ToJson},
      {"trim", Trim},
      {"truncate", Truncate},
      {"upper", Mapped<Upper>},
      {"urlencode", UrlEncode},
      {"wordcount", WordCount},
  };
  return filters;
}

Result<Value> ApplyFilter(Interpreter& interpreter, std::string_view name, const Value& value,
                          const Arguments& arguments) {
  for (const FilterTable* table : {&ValueFilters(), &ListFilters()}) {
    const auto it = table->find(name);
    if (it != table->end()) return it->second(interpreter, value, arguments);
  }
  return InvalidArgumentError(fmt::format("there is no filter {}", Quoted(name)));
}

}  // namespace holdfast::jinja

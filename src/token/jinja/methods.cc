// Methods of strings, lists and mappings that chat templates call.
#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <map>

#include "token/jinja/builtins.h"
#include "token/jinja/strings.h"
#include "token/utf8.h"
#include "weights/gguf_value.h"

namespace holdfast::jinja {
namespace {

using Method = Result<Value> (*)(Interpreter&, const Value&, const Arguments&);
using MethodTable = std::map<std::string_view, Method>;

Result<const TaggedString*> StringArgument(const Arguments& arguments, size_t i,
                                           std::string_view name) {
  const Value* value = arguments.Get(i, name);
  if (value == nullptr || !value->is_string()) {
    return InvalidArgumentError(fmt::format("argument {} is {}, wanted a string", Quoted(name),
                                            value == nullptr ? "missing" : value->KindName()));
  }
  return &value->string();
}

Result<int64_t> IntegerArgument(const Arguments& arguments, size_t i, std::string_view name,
                                int64_t fallback) {
  const Value* value = arguments.Get(i, name);
  if (value == nullptr || value->is_none()) return fallback;
  if (!value->is_int() && !value->is_bool()) {
    return InvalidArgumentError(
        fmt::format("argument {} is {}, wanted an integer", Quoted(name), value->KindName()));
  }
  return value->integer();
}

template <TaggedString (*kMap)(const TaggedString&)>
Result<Value> Mapped(Interpreter& interpreter, const Value& object, const Arguments&) {
  return interpreter.MakeString(kMap(object.string()));
}

template <Side kSide>
Result<Value> StripMethod(Interpreter& interpreter, const Value& object,
                          const Arguments& arguments) {
  const Value* chars = arguments.Get(0, "chars");
  if (chars == nullptr || chars->is_none()) {
    return interpreter.MakeString(Strip(object.string(), kSide, std::nullopt));
  }
  HF_ASSIGN_OR_RETURN(const TaggedString* set, StringArgument(arguments, 0, "chars"));
  HF_RETURN_IF_ERROR(interpreter.Step(
      static_cast<int64_t>(1 + (object.text().size() / 64 + 1) * (set->size() / 4 + 1))));
  return interpreter.MakeString(Strip(object.string(), kSide, set->text()));
}

template <bool kFromRight>
Result<Value> SplitMethod(Interpreter& interpreter, const Value& object,
                          const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const int64_t limit, IntegerArgument(arguments, 1, "maxsplit", -1));
  const Value* separator = arguments.Get(0, "sep");
  std::optional<std::string_view> by;
  if (separator != nullptr && !separator->is_none()) {
    HF_ASSIGN_OR_RETURN(const TaggedString* text, StringArgument(arguments, 0, "sep"));
    by = text->text();
  }
  HF_ASSIGN_OR_RETURN(List parts, SplitText(interpreter, object.string(), by, limit, kFromRight));
  return interpreter.MakeList(std::move(parts));
}

Result<Value> SplitLinesMethod(Interpreter& interpreter, const Value& object,
                               const Arguments& arguments) {
  const Value* keep = arguments.Get(0, "keepends");
  HF_ASSIGN_OR_RETURN(List parts,
                      SplitLines(interpreter, object.string(), keep != nullptr && keep->IsTrue()));
  return interpreter.MakeList(std::move(parts));
}

// startswith and endswith: one text or any of several.
template <bool kStart>
Result<Value> HasEnd(Interpreter& interpreter, const Value& object, const Arguments& arguments) {
  const Value* value = arguments.Get(0, "prefix");
  HF_RETURN_IF_ERROR(interpreter.Step());
  const List candidates = value != nullptr && value->is_list() ? value->list() : List();
  const std::string_view text = object.text();
  const auto matches = [text](std::string_view end) {
    return kStart ? text.starts_with(end) : text.ends_with(end);
  };
  if (candidates.empty()) {
    HF_ASSIGN_OR_RETURN(const TaggedString* end, StringArgument(arguments, 0, "prefix"));
    return Value::Bool(matches(end->text()));
  }
  return Value::Bool(
      std::any_of(candidates.begin(), candidates.end(), [&matches](const Value& candidate) {
        return candidate.is_string() && matches(candidate.text());
      }));
}

Result<Value> ReplaceMethod(Interpreter& interpreter, const Value& object,
                            const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const TaggedString* from, StringArgument(arguments, 0, "old"));
  HF_ASSIGN_OR_RETURN(const TaggedString* to, StringArgument(arguments, 1, "new"));
  HF_ASSIGN_OR_RETURN(const int64_t limit, IntegerArgument(arguments, 2, "count", -1));
  return Replace(interpreter, object.string(), *from, *to, limit);
}

Result<Value> JoinMethod(Interpreter& interpreter, const Value& object,
                         const Arguments& arguments) {
  const Value* items = arguments.Get(0, "iterable");
  HF_ASSIGN_OR_RETURN(const List list, Elements(interpreter, items == nullptr ? Value() : *items));
  return Join(interpreter, list, object.string());
}

// Byte position of the first or last occurrence; npos when there is none.
template <bool kLast>
Result<size_t> FindBytes(Interpreter& interpreter, const Value& object,
                         const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const TaggedString* needle, StringArgument(arguments, 0, "sub"));
  HF_RETURN_IF_ERROR(ChargeSearch(interpreter, object.text().size(), needle->size()));
  return kLast ? object.text().rfind(needle->text()) : object.text().find(needle->text());
}

template <bool kLast, bool kMustExist>
Result<Value> FindMethod(Interpreter& interpreter, const Value& object,
                         const Arguments& arguments) {
  if (arguments.positional.size() > 1) {
    return InvalidArgumentError("find with start and end is not supported");
  }
  HF_ASSIGN_OR_RETURN(const size_t at, FindBytes<kLast>(interpreter, object, arguments));
  if (at != std::string::npos) {
    return Value::Int(CountUtf8(std::string_view(object.text()).substr(0, at)));
  }
  if (kMustExist) return InvalidArgumentError("index: the substring is not there");
  return Value::Int(-1);
}

Result<Value> CountMethod(Interpreter& interpreter, const Value& object,
                          const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const TaggedString* needle, StringArgument(arguments, 0, "sub"));
  const std::string& text = object.text();
  HF_RETURN_IF_ERROR(ChargeSearch(interpreter, text.size(), needle->size()));
  if (needle->empty()) return Value::Int(CountUtf8(text) + 1);
  int64_t n = 0;
  for (size_t at = text.find(needle->text()); at != std::string::npos;
       at = text.find(needle->text(), at + needle->size())) {
    ++n;
  }
  return Value::Int(n);
}

template <bool kPrefix>
Result<Value> RemoveEnd(Interpreter& interpreter, const Value& object, const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const TaggedString* end, StringArgument(arguments, 0, "prefix"));
  const std::string_view text = object.text();
  if (!(kPrefix ? text.starts_with(end->text()) : text.ends_with(end->text()))) return object;
  return interpreter.MakeString(
      object.string().Substr(kPrefix ? end->size() : 0, text.size() - end->size()));
}

enum class CharacterClass { kDigit, kAlpha, kAlnum, kSpace };

bool IsIn(CharacterClass wanted, char32_t c) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  const bool letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
  const bool digit = category == UTF8PROC_CATEGORY_ND;
  switch (wanted) {
    case CharacterClass::kDigit:
      return digit;
    case CharacterClass::kAlpha:
      return letter;
    case CharacterClass::kAlnum:
      return letter || digit;
    case CharacterClass::kSpace:
      return IsSpace(c);
  }
  return false;
}

template <CharacterClass kClass>
Result<Value> IsAll(Interpreter& interpreter, const Value& object, const Arguments&) {
  std::string_view text = object.text();
  HF_RETURN_IF_ERROR(interpreter.Step(static_cast<int64_t>(1 + text.size() / 64)));
  bool all = !text.empty();
  while (all && !text.empty()) {
    const Utf8Char c = ReadUtf8(text);
    all = IsIn(kClass, c.code_point);
    text.remove_prefix(c.n_bytes);
  }
  return Value::Bool(all);
}

// isupper, islower: some letter has a case, and none the other one.
template <TaggedString (*kMap)(const TaggedString&), TaggedString (*kOther)(const TaggedString&)>
Result<Value> IsCase(Interpreter& interpreter, const Value& object, const Arguments&) {
  HF_RETURN_IF_ERROR(interpreter.Step(static_cast<int64_t>(1 + object.text().size() / 64)));
  return Value::Bool(kMap(object.string()).text() == object.text() &&
                     kOther(object.string()).text() != object.text());
}

Result<Value> Items(Interpreter& interpreter, const Value& object, const Arguments&) {
  List items;
  for (const Dict::Entry& entry : object.dict().entries) {
    HF_ASSIGN_OR_RETURN(Value key, interpreter.MakeString(entry.key));
    HF_ASSIGN_OR_RETURN(Value pair, interpreter.MakeList({std::move(key), entry.value}));
    items.push_back(std::move(pair));
  }
  return interpreter.MakeList(std::move(items));
}

Result<Value> Keys(Interpreter& interpreter, const Value& object, const Arguments&) {
  HF_ASSIGN_OR_RETURN(List keys, Elements(interpreter, object));
  return interpreter.MakeList(std::move(keys));
}

Result<Value> Values(Interpreter& interpreter, const Value& object, const Arguments&) {
  List values;
  for (const Dict::Entry& entry : object.dict().entries) values.push_back(entry.value);
  return interpreter.MakeList(std::move(values));
}

Result<Value> Get(Interpreter& interpreter, const Value& object, const Arguments& arguments) {
  HF_RETURN_IF_ERROR(interpreter.Step());
  const Value* key = arguments.Get(0, "key");
  if (key != nullptr && key->is_string()) {
    const Value* value = object.dict().Find(key->text());
    if (value != nullptr) return *value;
  }
  const Value* fallback = arguments.Get(1, "default");
  return fallback == nullptr ? Value::None() : *fallback;
}

Result<Value> Copy(Interpreter&, const Value& object, const Arguments&) { return object; }

Result<Value> ListIndex(Interpreter& interpreter, const Value& object, const Arguments& arguments) {
  const Value* wanted = arguments.Get(0, "value");
  for (size_t i = 0; wanted != nullptr && i < object.list().size(); ++i) {
    HF_ASSIGN_OR_RETURN(const bool same, interpreter.Equal(object.list()[i], *wanted));
    if (same) return Value::Int(static_cast<int64_t>(i));
  }
  return InvalidArgumentError("index: the value is not in the list");
}

Result<Value> ListCount(Interpreter& interpreter, const Value& object, const Arguments& arguments) {
  const Value* wanted = arguments.Get(0, "value");
  int64_t n = 0;
  for (size_t i = 0; wanted != nullptr && i < object.list().size(); ++i) {
    HF_ASSIGN_OR_RETURN(const bool same, interpreter.Equal(object.list()[i], *wanted));
    n += same ? 1 : 0;
  }
  return Value::Int(n);
}

const MethodTable& StringMethods() {
  static const MethodTable table = {
      {"capitalize", Mapped<Capitalize>},
      {"count", CountMethod},
      {"endswith", HasEnd<false>},
      {"find", FindMethod<false, false>},
      {"index", FindMethod<false, true>},
      {"isalnum", IsAll<CharacterClass::kAlnum>},
      {"isalpha", IsAll<CharacterClass::kAlpha>},
      {"isdigit", IsAll<CharacterClass::kDigit>},
      {"islower", IsCase<Lower, Upper>},
      {"isspace", IsAll<CharacterClass::kSpace>},
      {"isupper", IsCase<Upper, Lower>},
      {"join", JoinMethod},
      {"lower", Mapped<Lower>},
      {"lstrip", StripMethod<Side::kLeft>},
      {"removeprefix", RemoveEnd<true>},
      {"removesuffix", RemoveEnd<false>},
      {"replace", ReplaceMethod},
      {"rfind", FindMethod<true, false>},
      {"rsplit", SplitMethod<true>},
      {"rstrip", StripMethod<Side::kRight>},
      {"split", SplitMethod<false>},
      {"splitlines", SplitLinesMethod},
      {"startswith", HasEnd<true>},
      {"strip", StripMethod<Side::kBoth>},
      {"title", Mapped<Title>},
      {"upper", Mapped<Upper>},
  };
  return table;
}

const MethodTable& DictMethods() {
  static const MethodTable table = {
      {"copy", Copy}, {"get", Get}, {"items", Items}, {"keys", Keys}, {"values", Values},
  };
  return table;
}

const MethodTable& ListMethods() {
  static const MethodTable table = {{"copy", Copy}, {"count", ListCount}, {"index", ListIndex}};
  return table;
}

Method FindMethodOf(Value::Kind kind, std::string_view name) {
  static const MethodTable none;
  const MethodTable& table = kind == Value::Kind::kString ? StringMethods()
                             : kind == Value::Kind::kDict ? DictMethods()
                             : kind == Value::Kind::kList ? ListMethods()
                                                          : none;
  const auto it = table.find(name);
  return it == table.end() ? nullptr : it->second;
}

}  // namespace

bool HasMethod(Value::Kind kind, std::string_view name) {
  return FindMethodOf(kind, name) != nullptr;
}

Result<Value> CallMethod(Interpreter& interpreter, const Value& object, std::string_view name,
                         const Arguments& arguments) {
  const Method method = FindMethodOf(object.kind(), name);
  if (method == nullptr) {
    return InvalidArgumentError(
        fmt::format("{} has no method {}", object.KindName(), Quoted(name)));
  }
  return method(interpreter, object, arguments);
}

}  // namespace holdfast::jinja

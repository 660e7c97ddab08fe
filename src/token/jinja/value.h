#ifndef HOLDFAST_TOKEN_JINJA_VALUE_H_
#define HOLDFAST_TOKEN_JINJA_VALUE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "token/jinja/tagged_string.h"

namespace holdfast::jinja {

class Value;
class Callable;
struct Dict;
using List = std::vector<Value>;

// Nesting that values may have; keeps every recursion over them (comparing, printing, freeing)
// short.
inline constexpr int kMaxValueDepth = 128;
// Lists that share their elements can be exponentially big to walk, so what walking costs is
// limited.
inline constexpr uint32_t kMaxValueWeight = 1 << 26;

// What template expressions work on. Immutable and cheap to copy (big parts are shared); the one
// mutable kind, the namespace, is owned by the interpreter and only pointed at here.
class Value {
 public:
  enum class Kind : uint8_t {
    kUndefined,
    kNone,
    kBool,
    kInt,
    kFloat,
    kString,
    kList,
    kDict,
    kNamespace,
    kCallable,
  };

  Value() = default;  // undefined
  static Value None();
  static Value Bool(bool b);
  static Value Int(int64_t i);
  static Value Float(double d);
  // A number of a request whose spelling is kept when it is printed unchanged.
  static Value Number(double d, std::string spelling);
  static Value String(TaggedString text);
  static Value String(std::string_view text, Source source = kTemplate);
  // Lists and dictionaries know their depth; see depth().
  static Value FromList(List items);
  static Value FromDict(Dict dict);
  static Value FromCallable(std::shared_ptr<const Callable> callable);
  static Value FromNamespace(std::map<std::string, Value, std::less<>>* variables);

  Kind kind() const { return kind_; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_list() const { return kind_ == Kind::kList; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  bool is_bool() const { return kind_ == Kind::kBool; }
  bool is_int() const { return kind_ == Kind::kInt; }
  bool is_float() const { return kind_ == Kind::kFloat; }
  // Int, float or bool, which counts as 0 or 1 in arithmetic.
  bool is_number() const { return is_bool() || is_int() || is_float(); }

  bool boolean() const { return int_ != 0; }
  int64_t integer() const { return int_; }  // bools too
  double number() const;                    // of any number kind
  const std::string* spelling() const;      // null: none
  const TaggedString& string() const { return *static_cast<const TaggedString*>(shared_.get()); }
  const std::string& text() const { return string().text(); }
  const List& list() const { return *static_cast<const List*>(shared_.get()); }
  const Dict& dict() const { return *static_cast<const Dict*>(shared_.get()); }
  const Callable& callable() const { return *static_cast<const Callable*>(shared_.get()); }
  std::shared_ptr<const Callable> shared_callable() const;
  std::map<std::string, Value, std::less<>>* variables() const { return namespace_; }

  // 0 for scalars, 1 + the deepest element for lists and dictionaries.
  int depth() const { return depth_; }
  // What walking the value costs, shared parts counted as often as they are met: 1 per value and 1
  // per 32 bytes of string. Saturates; the interpreter refuses values above kMaxValueWeight.
  uint32_t weight() const { return weight_; }

  bool IsTrue() const;
  // As Python's ==: numbers by value, containers by elements.
  bool Equals(const Value& other) const;
  // As Python's ordering, negative, 0 or positive; nothing when the two cannot be ordered.
  std::optional<int> Compare(const Value& other) const;
  // "string", "list", ...: for messages.
  std::string_view KindName() const;

 private:
  Kind kind_ = Kind::kUndefined;
  uint16_t depth_ = 0;
  uint32_t weight_ = 1;
  union {
    int64_t int_ = 0;
    double double_;
    std::map<std::string, Value, std::less<>>* namespace_;
  };
  std::shared_ptr<const void> shared_;
};

// Keys are strings; insertion order is kept, as in Python.
struct Dict {
  struct Entry {
    TaggedString key;
    Value value;
  };
  std::vector<Entry> entries;

  // Null when there is none.
  const Value* Find(std::string_view key) const;
  void Set(TaggedString key, Value value);

 private:
  std::map<std::string, size_t, std::less<>> index_;
};

// Named and positional arguments of a call.
struct Arguments {
  List positional;
  std::vector<std::pair<std::string, Value>> named;

  const Value* Named(std::string_view name) const;
  // Positional argument `i` or else the one called `name`; null when neither is given.
  const Value* Get(size_t i, std::string_view name) const;
};

class Interpreter;

// Something a template can call: a macro, a method bound to its object, or a global function.
class Callable {
 public:
  virtual ~Callable() = default;
  virtual Result<Value> Call(Interpreter& interpreter, const Arguments& arguments) const = 0;
};

// Python's repr of a float: the shortest digits that read back the same, "1.0", "1e-05".
std::string FloatText(double d);

}  // namespace holdfast::jinja

#endif  // HOLDFAST_TOKEN_JINJA_VALUE_H_

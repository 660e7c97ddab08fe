#include "token/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace holdfast::jinja {
namespace {

// Depth and weight of a container, element by element.
struct Extent {
  int depth = 0;
  uint64_t weight = 1;

  void Add(const Value& value) {
    depth = std::max(depth, value.depth());
    weight = std::min<uint64_t>(weight + value.weight(), UINT32_MAX);
  }
};

uint32_t StringWeight(size_t n_bytes) {
  return static_cast<uint32_t>(std::min<uint64_t>(1 + n_bytes / 32, UINT32_MAX));
}

template <typename T>
int Sign(const T& a, const T& b) {
  return a < b ? -1 : (b < a ? 1 : 0);
}

bool DictsEqual(const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  return std::all_of(a.entries.begin(), a.entries.end(), [&b](const Dict::Entry& entry) {
    const Value* other = b.Find(entry.key.text());
    return other != nullptr && entry.value.Equals(*other);
  });
}

}  // namespace

Value Value::None() {
  Value v;
  v.kind_ = Kind::kNone;
  return v;
}

Value Value::Bool(bool b) {
  Value v;
  v.kind_ = Kind::kBool;
  v.int_ = b ? 1 : 0;
  return v;
}

Value Value::Int(int64_t i) {
  Value v;
  v.kind_ = Kind::kInt;
  v.int_ = i;
  return v;
}

Value Value::Float(double d) {
  Value v;
  v.kind_ = Kind::kFloat;
  v.double_ = d;
  return v;
}

Value Value::Number(double d, std::string spelling) {
  Value v = Float(d);
  v.shared_ = std::make_shared<const std::string>(std::move(spelling));
  return v;
}

Value Value::String(TaggedString text) {
  Value v;
  v.kind_ = Kind::kString;
  v.weight_ = StringWeight(text.size());
  v.shared_ = std::make_shared<const TaggedString>(std::move(text));
  return v;
}

Value Value::String(std::string_view text, Source source) {
  return String(TaggedString(text, source));
}

Value Value::FromList(List items) {
  Value v;
  v.kind_ = Kind::kList;
  Extent extent;
  for (const Value& item : items) extent.Add(item);
  v.depth_ = static_cast<uint16_t>(extent.depth + 1);
  v.weight_ = static_cast<uint32_t>(extent.weight);
  v.shared_ = std::make_shared<const List>(std::move(items));
  return v;
}

Value Value::FromDict(Dict dict) {
  Value v;
  v.kind_ = Kind::kDict;
  Extent extent;
  for (const Dict::Entry& entry : dict.entries) {
    extent.Add(entry.value);
    extent.weight = std::min<uint64_t>(extent.weight + StringWeight(entry.key.size()), UINT32_MAX);
  }
  v.depth_ = static_cast<uint16_t>(extent.depth + 1);
  v.weight_ = static_cast<uint32_t>(extent.weight);
  v.shared_ = std::make_shared<const Dict>(std::move(dict));
  return v;
}

Value Value::FromCallable(std::shared_ptr<const Callable> callable) {
  Value v;
  v.kind_ = Kind::kCallable;
  v.shared_ = std::move(callable);
  return v;
}

Value Value::FromNamespace(std::map<std::string, Value, std::less<>>* variables) {
  Value v;
  v.kind_ = Kind::kNamespace;
  v.namespace_ = variables;
  return v;
}

double Value::number() const { return is_float() ? double_ : static_cast<double>(int_); }

const std::string* Value::spelling() const {
  return is_float() ? static_cast<const std::string*>(shared_.get()) : nullptr;
}

std::shared_ptr<const Callable> Value::shared_callable() const {
  return std::static_pointer_cast<const Callable>(shared_);
}

bool Value::IsTrue() const {
  switch (kind_) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return int_ != 0;
    case Kind::kFloat:
      return double_ != 0.0;
    case Kind::kString:
      return !string().empty();
    case Kind::kList:
      return !list().empty();
    case Kind::kDict:
      return !dict().entries.empty();
    case Kind::kNamespace:
    case Kind::kCallable:
      return true;
  }
  return false;
}

bool Value::Equals(const Value& other) const {
  if (is_number() && other.is_number()) {
    return is_float() || other.is_float() ? number() == other.number() : int_ == other.int_;
  }
  if (kind_ != other.kind_) return false;
  switch (kind_) {
    case Kind::kString:
      return text() == other.text();
    case Kind::kList:
      return std::equal(list().begin(), list().end(), other.list().begin(), other.list().end(),
                        [](const Value& a, const Value& b) { return a.Equals(b); });
    case Kind::kDict:
      return DictsEqual(dict(), other.dict());
    case Kind::kNamespace:
      return namespace_ == other.namespace_;
    case Kind::kCallable:
      return shared_ == other.shared_;
    default:
      return true;  // undefined, none
  }
}

std::optional<int> Value::Compare(const Value& other) const {
  if (is_number() && other.is_number()) {
    if (!is_float() && !other.is_float()) return Sign(int_, other.int_);
    if (std::isnan(number()) || std::isnan(other.number())) return std::nullopt;
    return Sign(number(), other.number());
  }
  // Bytes of UTF-8 order like code points.
  if (is_string() && other.is_string()) return text().compare(other.text());
  if (!is_list() || !other.is_list()) return std::nullopt;
  const List &a = list(), &b = other.list();
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i].Equals(b[i])) continue;
    return a[i].Compare(b[i]);
  }
  return Sign(a.size(), b.size());
}

std::string_view Value::KindName() const {
  switch (kind_) {
    case Kind::kUndefined:
      return "undefined";
    case Kind::kNone:
      return "none";
    case Kind::kBool:
      return "boolean";
    case Kind::kInt:
      return "integer";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "string";
    case Kind::kList:
      return "list";
    case Kind::kDict:
      return "mapping";
    case Kind::kNamespace:
      return "namespace";
    case Kind::kCallable:
      return "function";
  }
  return "value";
}

const Value* Dict::Find(std::string_view key) const {
  const auto it = index_.find(key);
  return it == index_.end() ? nullptr : &entries[it->second].value;
}

void Dict::Set(TaggedString key, Value value) {
  const auto [it, is_new] = index_.emplace(key.text(), entries.size());
  if (is_new) {
    entries.push_back({std::move(key), std::move(value)});
  } else {
    entries[it->second].value = std::move(value);
  }
}

const Value* Arguments::Named(std::string_view name) const {
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

const Value* Arguments::Get(size_t i, std::string_view name) const {
  return i < positional.size() ? &positional[i] : Named(name);
}

std::string FloatText(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  // fmt gives the shortest digits; Python differs in when it turns to exponents.
  const double magnitude = std::fabs(d);
  if (d != 0.0 && (magnitude < 1e-4 || magnitude >= 1e16)) {
    std::string text;
    for (int precision = 0; precision <= 16; ++precision) {
      text = fmt::format("{:.{}e}", d, precision);
      if (std::strtod(text.c_str(), nullptr) == d) break;
    }
    return text;
  }
  std::string text = fmt::format("{}", d);
  if (text.find_first_of("e.") == std::string::npos) text += ".0";
  return text;
}

}  // namespace holdfast::jinja

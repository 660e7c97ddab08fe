#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "token/jinja/builtins.h"
#include "token/jinja/output.h"
#include "token/jinja/strings.h"
#include "token/utf8.h"
#include "weights/gguf_value.h"

namespace holdfast::jinja {
namespace {

Status BadOperands(std::string_view op, const Value& a, const Value& b) {
  return InvalidArgumentError(
      fmt::format("cannot compute {} {} {}", a.KindName(), op, b.KindName()));
}

Status Overflow(std::string_view op) {
  return InvalidArgumentError(fmt::format("the result of {} does not fit in 64 bits", op));
}

// Python rounds quotients down and gives remainders the sign of the divisor.
int64_t FloorDivide(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

Result<Value> IntegerPower(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    return Value::Float(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return Overflow("**");
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return Overflow("**");
  }
  return Value::Int(result);
}

Result<Value> IntegerBinary(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "+") {
    if (__builtin_add_overflow(a, b, &result)) return Overflow(op);
  } else if (op == "-") {
    if (__builtin_sub_overflow(a, b, &result)) return Overflow(op);
  } else if (op == "*") {
    if (__builtin_mul_overflow(a, b, &result)) return Overflow(op);
  } else if (op == "**") {
    return IntegerPower(a, b);
  } else {
    if (b == 0) return InvalidArgumentError("division by zero");
    if (op == "/") return Value::Float(static_cast<double>(a) / static_cast<double>(b));
    if (a == std::numeric_limits<int64_t>::min() && b == -1) return Overflow(op);
    const int64_t quotient = FloorDivide(a, b);
    result = op == "//" ? quotient : a - quotient * b;
  }
  return Value::Int(result);
}

Result<Value> FloatBinary(std::string_view op, double a, double b) {
  if (op == "+") return Value::Float(a + b);
  if (op == "-") return Value::Float(a - b);
  if (op == "*") return Value::Float(a * b);
  if (op == "**") return Value::Float(std::pow(a, b));
  if (b == 0) return InvalidArgumentError("division by zero");
  if (op == "/") return Value::Float(a / b);
  if (op == "//") return Value::Float(std::floor(a / b));
  const double remainder = std::fmod(a, b);
  return Value::Float(remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder);
}

Result<Value> Concatenate(Interpreter& interpreter, const Value& a, const Value& b) {
  HF_RETURN_IF_ERROR(interpreter.Charge(static_cast<int64_t>(a.text().size())));
  TaggedString text = a.string();
  text.Append(b.string());
  return interpreter.MakeString(std::move(text));
}

Result<Value> RepeatList(Interpreter& interpreter, const List& list, int64_t times) {
  List items;
  if (times > 0 && !list.empty()) {
    const auto size = static_cast<int64_t>(list.size());
    if (times > (int64_t{1} << 32) / size) return ResourceExhaustedError("a list that is too long");
    HF_RETURN_IF_ERROR(interpreter.Charge(64 * size * times));
    for (int64_t i = 0; i < times; ++i) items.insert(items.end(), list.begin(), list.end());
  }
  return interpreter.MakeList(std::move(items));
}

Result<std::optional<int64_t>> SliceBound(const Value& value) {
  if (value.is_undefined() || value.is_none()) return std::optional<int64_t>();
  if (value.is_int() || value.is_bool()) return std::optional<int64_t>(value.integer());
  return InvalidArgumentError(
      fmt::format("a slice bound is {}, wanted an integer", value.KindName()));
}

// The indices that [begin:end:step] selects from n elements, as Python's slice.indices.
std::vector<size_t> SliceIndices(int64_t n, std::optional<int64_t> begin,
                                 std::optional<int64_t> end, int64_t step) {
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  const auto clamp = [n, low, high](int64_t i) {
    if (i < 0) i = i < -n ? low : i + n;
    return std::clamp(i, low, high);
  };
  const int64_t from = begin ? clamp(*begin) : (step > 0 ? low : high);
  const int64_t to = end ? clamp(*end) : (step > 0 ? high : low);
  std::vector<size_t> indices;
  for (int64_t i = from; step > 0 ? i < to : i > to;) {
    indices.push_back(static_cast<size_t>(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return indices;
}

Result<Value> SliceString(Interpreter& interpreter, const TaggedString& text,
                          std::optional<int64_t> begin, std::optional<int64_t> end, int64_t step) {
  const std::vector<size_t> offsets = CharacterOffsets(text.text());
  HF_RETURN_IF_ERROR(interpreter.Step(static_cast<int64_t>(1 + offsets.size() / 64)));
  const auto n = static_cast<int64_t>(offsets.size()) - 1;
  const std::vector<size_t> indices = SliceIndices(n, begin, end, step);
  if (indices.empty()) return interpreter.MakeString(TaggedString());
  if (step == 1) {
    const size_t from = offsets[indices.front()], to = offsets[indices.back() + 1];
    return interpreter.MakeString(text.Substr(from, to - from));
  }
  TaggedString out;
  for (const size_t i : indices) out.Append(text, offsets[i], offsets[i + 1] - offsets[i]);
  return interpreter.MakeString(std::move(out));
}

class BoundMethod : public Callable {
 public:
  BoundMethod(Value object, std::string_view name) : object_(std::move(object)), name_(name) {}
  Result<Value> Call(Interpreter& interpreter, const Arguments& arguments) const override {
    return CallMethod(interpreter, object_, name_, arguments);
  }

 private:
  Value object_;
  std::string name_;
};

}  // namespace

Result<Value> Binary(Interpreter& interpreter, std::string_view op, const Value& a,
                     const Value& b) {
  if (op == "~") {
    HF_ASSIGN_OR_RETURN(const Value left, ToString(interpreter, a));
    HF_ASSIGN_OR_RETURN(const Value right, ToString(interpreter, b));
    return Concatenate(interpreter, left, right);
  }
  if (a.is_number() && b.is_number()) {
    if (a.is_float() || b.is_float()) return FloatBinary(op, a.number(), b.number());
    return IntegerBinary(op, a.integer(), b.integer());
  }
  if (op == "+" && a.is_string() && b.is_string()) return Concatenate(interpreter, a, b);
  if (op == "+" && a.is_list() && b.is_list()) {
    HF_RETURN_IF_ERROR(interpreter.Charge(64 * static_cast<int64_t>(a.list().size())));
    List items = a.list();
    items.insert(items.end(), b.list().begin(), b.list().end());
    return interpreter.MakeList(std::move(items));
  }
  if (op == "%" && a.is_string()) {
    return FormatPercent(interpreter, a.string(), b.is_list() ? b.list() : List{b});
  }
  if (op == "*") {
    const bool swapped = !a.is_string() && !a.is_list();
    const Value &what = swapped ? b : a, &times = swapped ? a : b;
    if (times.is_int() || times.is_bool()) {
      if (what.is_string()) return Repeat(interpreter, what.string(), times.integer());
      if (what.is_list()) return RepeatList(interpreter, what.list(), times.integer());
    }
  }
  return BadOperands(op, a, b);
}

Result<bool> Contains(Interpreter& interpreter, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Value::Kind::kUndefined:
      return false;
    case Value::Kind::kString:
      if (!item.is_string()) return BadOperands("in", item, container);
      HF_RETURN_IF_ERROR(ChargeSearch(interpreter, container.text().size(), item.text().size()));
      return container.text().find(item.text()) != std::string::npos;
    case Value::Kind::kList:
      for (const Value& element : container.list()) {
        HF_ASSIGN_OR_RETURN(const bool same, interpreter.Equal(element, item));
        if (same) return true;
      }
      return false;
    case Value::Kind::kDict:
      return item.is_string() && container.dict().Find(item.text()) != nullptr;
    case Value::Kind::kNamespace:
      return item.is_string() && container.variables()->contains(item.text());
    default:
      return BadOperands("in", item, container);
  }
}

Result<Value> GetAttribute(Interpreter& interpreter, const Value& object, std::string_view name) {
  if (HasMethod(object.kind(), name)) {
    HF_RETURN_IF_ERROR(interpreter.Charge(128));
    return Value::FromCallable(std::make_shared<BoundMethod>(object, name));
  }
  const Value* value = nullptr;
  if (object.is_dict()) {
    value = object.dict().Find(name);
  } else if (object.kind() == Value::Kind::kNamespace) {
    const auto it = object.variables()->find(name);
    if (it != object.variables()->end()) value = &it->second;
  }
  return value == nullptr ? Value() : *value;
}

Result<Value> GetItem(Interpreter& interpreter, const Value& object, const Value& key) {
  if (object.is_dict() || object.kind() == Value::Kind::kNamespace) {
    if (!key.is_string()) return Value();
    if (object.is_dict()) {
      const Value* value = object.dict().Find(key.text());
      if (value != nullptr) return *value;
    }
    return GetAttribute(interpreter, object, key.text());
  }
  if (!key.is_int() && !key.is_bool()) {
    return key.is_string() ? GetAttribute(interpreter, object, key.text()) : Value();
  }
  int64_t i = key.integer();
  if (object.is_list()) {
    const auto n = static_cast<int64_t>(object.list().size());
    if (i < 0) i += n;
    return i >= 0 && i < n ? object.list()[static_cast<size_t>(i)] : Value();
  }
  if (object.is_string()) {
    const std::string& text = object.text();
    HF_RETURN_IF_ERROR(interpreter.Step(static_cast<int64_t>(1 + text.size() / 64)));
    const std::vector<size_t> offsets = CharacterOffsets(text);
    const auto n = static_cast<int64_t>(offsets.size()) - 1;
    if (i < 0) i += n;
    if (i < 0 || i >= n) return Value();
    const size_t begin = offsets[static_cast<size_t>(i)], end = offsets[static_cast<size_t>(i) + 1];
    return interpreter.MakeString(object.string().Substr(begin, end - begin));
  }
  return Value();
}

Result<Value> GetSlice(Interpreter& interpreter, const Value& object, const Value& begin,
                       const Value& end, const Value& step) {
  HF_ASSIGN_OR_RETURN(const std::optional<int64_t> from, SliceBound(begin));
  HF_ASSIGN_OR_RETURN(const std::optional<int64_t> to, SliceBound(end));
  HF_ASSIGN_OR_RETURN(const std::optional<int64_t> by, SliceBound(step));
  if (by && *by == 0) return InvalidArgumentError("a slice with step 0");
  if (object.is_string()) {
    return SliceString(interpreter, object.string(), from, to, by.value_or(1));
  }
  if (!object.is_list()) {
    return InvalidArgumentError(fmt::format("cannot slice {}", object.KindName()));
  }
  const List& list = object.list();
  List items;
  for (const size_t i : SliceIndices(static_cast<int64_t>(list.size()), from, to, by.value_or(1))) {
    items.push_back(list[i]);
  }
  return interpreter.MakeList(std::move(items));
}

Result<List> Elements(Interpreter& interpreter, const Value& value) {
  List items;
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      return items;
    case Value::Kind::kList:
      HF_RETURN_IF_ERROR(interpreter.Charge(64 * static_cast<int64_t>(value.list().size())));
      return value.list();
    case Value::Kind::kDict:
      for (const Dict::Entry& entry : value.dict().entries) {
        HF_ASSIGN_OR_RETURN(Value key, interpreter.MakeString(entry.key));
        items.push_back(std::move(key));
      }
      return items;
    case Value::Kind::kString: {
      const TaggedString& text = value.string();
      const std::vector<size_t> offsets = CharacterOffsets(text.text());
      for (size_t i = 0; i + 1 < offsets.size(); ++i) {
        HF_RETURN_IF_ERROR(interpreter.Charge(128));
        HF_ASSIGN_OR_RETURN(
            Value c, interpreter.MakeString(text.Substr(offsets[i], offsets[i + 1] - offsets[i])));
        items.push_back(std::move(c));
      }
      return items;
    }
    default:
      return InvalidArgumentError(fmt::format("cannot iterate over {}", value.KindName()));
  }
}

Result<Value> ToString(Interpreter& interpreter, const Value& value) {
  if (value.is_string()) return value;
  TaggedString text;
  if (!value.is_undefined()) HF_RETURN_IF_ERROR(WriteRepr(interpreter, value, &text));
  return interpreter.MakeString(std::move(text));
}

}  // namespace holdfast::jinja

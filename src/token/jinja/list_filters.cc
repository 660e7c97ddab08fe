// Filters that walk lists.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "token/jinja/builtins.h"
#include "token/jinja/filters.h"
#include "token/jinja/strings.h"
#include "weights/gguf_value.h"

namespace holdfast::jinja {
namespace {

// "function.name" or a number: the attribute of an attribute, or an element.
Result<Value> PathOf(Interpreter& interpreter, Value value, const Value& path) {
  if (path.is_int()) return GetItem(interpreter, value, path);
  if (!path.is_string()) return InvalidArgumentError("an attribute is named by a string");
  HF_ASSIGN_OR_RETURN(const List names, SplitText(interpreter, path.string(), ".", -1, false));
  for (const Value& name : names) {
    int64_t index = 0;
    const std::string& text = name.text();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
    const bool is_index = !text.empty() && error == std::errc() && end == text.data() + text.size();
    HF_ASSIGN_OR_RETURN(value, GetItem(interpreter, value, is_index ? Value::Int(index) : name));
  }
  return value;
}

// The value that sort, min, unique and so on go by: an attribute, strings without their case unless
// asked.
Result<Value> KeyOf(Interpreter& interpreter, const Value& item, const Value* attribute,
                    bool case_sensitive) {
  Value key = item;
  if (attribute != nullptr && !attribute->is_none()) {
    HF_ASSIGN_OR_RETURN(key, PathOf(interpreter, item, *attribute));
  }
  if (case_sensitive || !key.is_string()) return key;
  return interpreter.MakeString(Lower(key.string()));
}

bool IsSet(const Value* value) { return value != nullptr && value->IsTrue(); }

struct Keyed {
  Value key;
  Value item;
};

Result<std::vector<Keyed>> WithKeys(Interpreter& interpreter, const Value& value,
                                    const Value* attribute, bool case_sensitive) {
  HF_ASSIGN_OR_RETURN(const List items, Elements(interpreter, value));
  std::vector<Keyed> keyed;
  for (const Value& item : items) {
    HF_ASSIGN_OR_RETURN(Value key, KeyOf(interpreter, item, attribute, case_sensitive));
    keyed.push_back({std::move(key), item});
  }
  return keyed;
}

// Stable. All keys must be orderable with the first one, which makes them orderable with each other
// except inside lists; those that are not count as equal.
Status SortByKey(Interpreter& interpreter, std::vector<Keyed>* keyed, bool reverse) {
  uint32_t heaviest = 1;
  for (const Keyed& entry : *keyed) {
    HF_RETURN_IF_ERROR(interpreter.Order(keyed->front().key, entry.key).status());
    heaviest = std::max(heaviest, entry.key.weight());
  }
  const double n = static_cast<double>(keyed->size());
  const double cost = n * std::log2(n + 2) * (1.0 + heaviest / 16.0);
  HF_RETURN_IF_ERROR(interpreter.Step(static_cast<int64_t>(std::min(cost, 1e15))));
  std::stable_sort(keyed->begin(), keyed->end(), [reverse](const Keyed& a, const Keyed& b) {
    const int order = a.key.Compare(b.key).value_or(0);
    return reverse ? order > 0 : order < 0;
  });
  return OkStatus();
}

Result<Value> ItemsOf(Interpreter& interpreter, std::vector<Keyed> keyed) {
  List items;
  for (Keyed& entry : keyed) items.push_back(std::move(entry.item));
  return interpreter.MakeList(std::move(items));
}

Result<Value> Batch(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const List items, Elements(interpreter, value));
  const Value* count = arguments.Get(0, "linecount");
  const Value* fill = arguments.Get(1, "fill_with");
  if (count == nullptr || !count->is_int() || count->integer() < 1) {
    return InvalidArgumentError("batch wants a positive number");
  }
  const auto n = static_cast<size_t>(count->integer());
  List batches;
  for (size_t begin = 0; begin < items.size();) {
    List batch;
    while (batch.size() < n && begin < items.size()) batch.push_back(items[begin++]);
    while (fill != nullptr && !fill->is_none() && batch.size() < n) {
      HF_RETURN_IF_ERROR(interpreter.Charge(64));
      batch.push_back(*fill);
    }
    HF_ASSIGN_OR_RETURN(Value list, interpreter.MakeList(std::move(batch)));
    batches.push_back(std::move(list));
  }
  return interpreter.MakeList(std::move(batches));
}

Result<Value> DictSort(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const Value items, ApplyFilter(interpreter, "items", value, Arguments()));
  const Value* by = arguments.Get(1, "by");
  const Value index = Value::Int(by != nullptr && by->is_string() && by->text() == "value" ? 1 : 0);
  HF_ASSIGN_OR_RETURN(
      std::vector<Keyed> keyed,
      WithKeys(interpreter, items, &index, IsSet(arguments.Get(0, "case_sensitive"))));
  HF_RETURN_IF_ERROR(SortByKey(interpreter, &keyed, IsSet(arguments.Get(2, "reverse"))));
  return ItemsOf(interpreter, std::move(keyed));
}

Result<Value> First(Interpreter& interpreter, const Value& value, const Arguments&) {
  if (value.is_list() || value.is_string()) return GetItem(interpreter, value, Value::Int(0));
  HF_ASSIGN_OR_RETURN(const List items, Elements(interpreter, value));
  return items.empty() ? Value() : items.front();
}

Result<Value> Last(Interpreter& interpreter, const Value& value, const Arguments&) {
  if (value.is_list() || value.is_string()) return GetItem(interpreter, value, Value::Int(-1));
  HF_ASSIGN_OR_RETURN(const List items, Elements(interpreter, value));
  return items.empty() ? Value() : items.back();
}

Result<Value> GroupBy(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Value* attribute = arguments.Get(0, "attribute");
  if (attribute == nullptr) return InvalidArgumentError("groupby wants an attribute");
  HF_ASSIGN_OR_RETURN(std::vector<Keyed> keyed,
                      WithKeys(interpreter, value, attribute, /*case_sensitive=*/true));
  HF_RETURN_IF_ERROR(SortByKey(interpreter, &keyed, false));
  List groups;
  for (size_t begin = 0; begin < keyed.size();) {
    List members;
    size_t end = begin;
    while (end < keyed.size()) {
      HF_ASSIGN_OR_RETURN(const bool same, interpreter.Equal(keyed[begin].key, keyed[end].key));
      if (!same) break;
      members.push_back(keyed[end++].item);
    }
    HF_ASSIGN_OR_RETURN(Value list, interpreter.MakeList(std::move(members)));
    Dict group;
    group.Set(TaggedString("grouper", kTemplate), keyed[begin].key);
    group.Set(TaggedString("list", kTemplate), std::move(list));
    HF_ASSIGN_OR_RETURN(Value entry, interpreter.MakeDict(std::move(group)));
    groups.push_back(std::move(entry));
    begin = end;
  }
  return interpreter.MakeList(std::move(groups));
}

Result<Value> JoinFilter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(List items, Elements(interpreter, value));
  const Value* separator = arguments.Get(0, "d");
  const Value* attribute = arguments.Get(1, "attribute");
  if (attribute != nullptr) {
    for (Value& item : items) {
      HF_ASSIGN_OR_RETURN(item, PathOf(interpreter, item, *attribute));
    }
  }
  TaggedString text;
  if (separator != nullptr) {
    HF_ASSIGN_OR_RETURN(const Value between, ToString(interpreter, *separator));
    text = between.string();
  }
  return Join(interpreter, items, text);
}

Result<Value> ListOf(Interpreter& interpreter, const Value& value, const Arguments&) {
  HF_ASSIGN_OR_RETURN(List items, Elements(interpreter, value));
  return interpreter.MakeList(std::move(items));
}

Result<Value> Map(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(List items, Elements(interpreter, value));
  const Value* attribute = arguments.Named("attribute");
  const Value* fallback = arguments.Named("default");
  const bool by_filter = attribute == nullptr;
  if (by_filter && (arguments.positional.empty() || !arguments.positional[0].is_string())) {
    return InvalidArgumentError("map wants an attribute or the name of a filter");
  }
  Arguments rest;
  if (by_filter) {
    rest.positional.assign(arguments.positional.begin() + 1, arguments.positional.end());
    rest.named = arguments.named;
  }
  for (Value& item : items) {
    HF_RETURN_IF_ERROR(interpreter.Step());
    if (by_filter) {
      HF_ASSIGN_OR_RETURN(item,
                          ApplyFilter(interpreter, arguments.positional[0].text(), item, rest));
      continue;
    }
    HF_ASSIGN_OR_RETURN(item, PathOf(interpreter, item, *attribute));
    if (item.is_undefined() && fallback != nullptr) item = *fallback;
  }
  return interpreter.MakeList(std::move(items));
}

template <bool kMax>
Result<Value> Extreme(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const std::vector<Keyed> keyed,
                      WithKeys(interpreter, value, arguments.Get(1, "attribute"),
                               IsSet(arguments.Get(0, "case_sensitive"))));
  if (keyed.empty()) return Value();
  const Keyed* best = &keyed.front();
  for (const Keyed& entry : keyed) {
    HF_ASSIGN_OR_RETURN(const int order, interpreter.Order(entry.key, best->key));
    if (kMax ? order > 0 : order < 0) best = &entry;
  }
  return best->item;
}

Result<Value> Reverse(Interpreter& interpreter, const Value& value, const Arguments&) {
  if (value.is_string()) {
    return GetSlice(interpreter, value, Value(), Value(), Value::Int(-1));
  }
  HF_ASSIGN_OR_RETURN(List items, Elements(interpreter, value));
  std::reverse(items.begin(), items.end());
  return interpreter.MakeList(std::move(items));
}

// select, reject, selectattr, rejectattr: keeps what a test (or the value itself) says.
template <bool kAttribute, bool kKeep>
Result<Value> Select(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const List items, Elements(interpreter, value));
  const List& given = arguments.positional;
  const size_t n_before_test = kAttribute ? 1 : 0;
  if (given.size() < n_before_test) return InvalidArgumentError("selectattr wants an attribute");
  const bool has_test = given.size() > n_before_test;
  if (has_test && !given[n_before_test].is_string()) {
    return InvalidArgumentError("a test is named by a string");
  }
  Arguments rest;
  if (has_test) {
    rest.positional.assign(given.begin() + static_cast<std::ptrdiff_t>(n_before_test) + 1,
                           given.end());
  }
  List kept;
  for (const Value& item : items) {
    HF_RETURN_IF_ERROR(interpreter.Step());
    Value subject = item;
    if (kAttribute) {
      HF_ASSIGN_OR_RETURN(subject, PathOf(interpreter, item, given[0]));
    }
    bool holds = subject.IsTrue();
    if (has_test) {
      HF_ASSIGN_OR_RETURN(holds,
                          ApplyTest(interpreter, given[n_before_test].text(), subject, rest));
    }
    if (holds == kKeep) kept.push_back(item);
  }
  return interpreter.MakeList(std::move(kept));
}

Result<Value> Sort(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(std::vector<Keyed> keyed,
                      WithKeys(interpreter, value, arguments.Get(2, "attribute"),
                               IsSet(arguments.Get(1, "case_sensitive"))));
  HF_RETURN_IF_ERROR(SortByKey(interpreter, &keyed, IsSet(arguments.Get(0, "reverse"))));
  return ItemsOf(interpreter, std::move(keyed));
}

Result<Value> Sum(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const List items, Elements(interpreter, value));
  const Value* attribute = arguments.Get(0, "attribute");
  const Value* start = arguments.Get(1, "start");
  Value total = start == nullptr ? Value::Int(0) : *start;
  for (Value item : items) {
    if (attribute != nullptr && !attribute->is_none()) {
      HF_ASSIGN_OR_RETURN(item, PathOf(interpreter, item, *attribute));
    }
    HF_ASSIGN_OR_RETURN(total, Binary(interpreter, "+", total, item));
  }
  return total;
}

Result<Value> Unique(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  HF_ASSIGN_OR_RETURN(const std::vector<Keyed> keyed,
                      WithKeys(interpreter, value, arguments.Get(1, "attribute"),
                               IsSet(arguments.Get(0, "case_sensitive"))));
  List kept;
  std::vector<const Value*> seen;
  for (const Keyed& entry : keyed) {
    bool is_new = true;
    for (const Value* key : seen) {
      HF_ASSIGN_OR_RETURN(const bool same, interpreter.Equal(*key, entry.key));
      is_new = is_new && !same;
    }
    if (!is_new) continue;
    seen.push_back(&entry.key);
    kept.push_back(entry.item);
  }
  return interpreter.MakeList(std::move(kept));
}

}  // namespace

const FilterTable& ListFilters() {
  static const FilterTable filters = {
      {"batch", Batch},
      {"dictsort", DictSort},
      {"first", First},
      {"groupby", GroupBy},
      {"join", JoinFilter},
      {"last", Last},
      {"list", ListOf},
      {"map", Map},
      {"max", Extreme<true>},
      {"min", Extreme<false>},
      {"reject", Select<false, false>},
      {"rejectattr", Select<true, false>},
      {"reverse", Reverse},
      {"select", Select<false, true>},
      {"selectattr", Select<true, true>},
      {"sort", Sort},
      {"sum", Sum},
      {"unique", Unique},
  };
  return filters;
}

}  // namespace holdfast::jinja

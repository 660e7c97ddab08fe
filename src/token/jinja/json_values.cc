#include "token/jinja/json_values.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "token/utf8.h"

namespace holdfast::jinja {
namespace {

using Json = nlohmann::ordered_json;

Status TooDeep() {
  return InvalidArgumentError(fmt::format("JSON nested deeper than {}", kMaxJsonDepth));
}

// Strings inside templates are valid UTF-8, whatever a caller hands over.
TaggedString Text(const std::string& text, Source source) {
  return IsValidUtf8(text) ? TaggedString(text, source) : TaggedString(RepairUtf8(text), source);
}

Value UnsignedValue(uint64_t value) {
  if (value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return Value::Int(static_cast<int64_t>(value));
  }
  return Value::Number(static_cast<double>(value), std::to_string(value));
}

Result<Value> Convert(const Json& json, Source source, int depth) {
  if (depth > kMaxJsonDepth) return TooDeep();
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::Bool(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::Int(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      return UnsignedValue(json.get<uint64_t>());
    case Json::value_t::number_float:
      return Value::Float(json.get<double>());
    case Json::value_t::string:
      return Value::String(Text(json.get_ref<const std::string&>(), source));
    case Json::value_t::array: {
      List items;
      for (const Json& element : json) {
        HF_ASSIGN_OR_RETURN(Value item, Convert(element, source, depth + 1));
        items.push_back(std::move(item));
      }
      return Value::FromList(std::move(items));
    }
    case Json::value_t::object: {
      Dict dict;
      for (auto it = json.begin(); it != json.end(); ++it) {
        HF_ASSIGN_OR_RETURN(Value value, Convert(it.value(), source, depth + 1));
        dict.Set(Text(it.key(), source), std::move(value));
      }
      return Value::FromDict(std::move(dict));
    }
    default:
      return Value::None();
  }
}

// Builds values while nlohmann's parser (which does not recurse) reads.
class Builder : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(Source source) : source_(source) {}

  bool null() override { return Add(Value::None()); }
  bool boolean(bool value) override { return Add(Value::Bool(value)); }
  bool number_integer(int64_t value) override { return Add(Value::Int(value)); }
  bool number_unsigned(uint64_t value) override { return Add(UnsignedValue(value)); }
  bool number_float(double value, const std::string& spelling) override {
    return Add(Value::Number(value, spelling));
  }
  bool string(std::string& value) override { return Add(Value::String(Text(value, source_))); }
  bool binary(Json::binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(/*is_object=*/true); }
  bool start_array(size_t) override { return Open(/*is_object=*/false); }
  bool key(std::string& value) override {
    open_.back().key = Text(value, source_);
    return true;
  }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception&) override {
    status_ = InvalidArgumentError(fmt::format("not valid JSON at byte {}", at));
    return false;
  }

  const Status& status() const { return status_; }
  Value Take() { return std::move(result_); }

 private:
  struct Container {
    bool is_object = false;
    TaggedString key;
    List items;
    Dict dict;
  };

  bool Open(bool is_object) {
    if (open_.size() >= static_cast<size_t>(kMaxJsonDepth)) {
      status_ = TooDeep();
      return false;
    }
    open_.emplace_back();
    open_.back().is_object = is_object;
    return true;
  }

  bool Add(Value value) {
    if (open_.empty()) {
      result_ = std::move(value);
    } else if (open_.back().is_object) {
      open_.back().dict.Set(std::move(open_.back().key), std::move(value));
    } else {
      open_.back().items.push_back(std::move(value));
    }
    return true;
  }

  bool Close() {
    Container container = std::move(open_.back());
    open_.pop_back();
    return Add(container.is_object ? Value::FromDict(std::move(container.dict))
                                   : Value::FromList(std::move(container.items)));
  }

  Source source_;
  std::vector<Container> open_;
  Value result_;
  Status status_;
};

}  // namespace

Result<Value> FromJson(const Json& json, Source source) { return Convert(json, source, 0); }

Result<Value> FromJsonText(std::string_view text, Source source) {
  Builder builder(source);
  if (!Json::sax_parse(text, &builder)) {
    return builder.status().ok() ? InvalidArgumentError("not valid JSON") : builder.status();
  }
  return builder.Take();
}

}  // namespace holdfast::jinja

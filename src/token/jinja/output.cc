#include "token/jinja/output.h"

#include <fmt/format.h>

#include <algorithm>

#include "token/jinja/strings.h"

namespace holdfast::jinja {
namespace {

std::string NumberText(const Value& value) {
  if (value.is_int()) return std::to_string(value.integer());
  return value.spelling() != nullptr ? *value.spelling() : FloatText(value.number());
}

void AppendQuotedRepr(const TaggedString& text, TaggedString* out) {
  const bool single =
      text.text().find('\'') == std::string::npos || text.text().find('"') != std::string::npos;
  const char quote = single ? '\'' : '"';
  out->Append(std::string_view(&quote, 1), kTemplate);
  AppendEscaped(
      text,
      [quote](char32_t c) -> std::string {
        switch (c) {
          case '\n':
            return "\\n";
          case '\r':
            return "\\r";
          case '\t':
            return "\\t";
          case '\\':
            return "\\\\";
          default:
            break;
        }
        if (c == static_cast<char32_t>(quote)) return {'\\', quote};
        if (c < 0x20 || (c >= 0x7F && c < 0xA0)) {
          return fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
        }
        return "";
      },
      out);
  out->Append(std::string_view(&quote, 1), kTemplate);
}

std::string JsonEscape(char32_t c, bool ensure_ascii) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\f':
      return "\\f";
    case '\b':
      return "\\b";
    default:
      break;
  }
  const auto unit = [](uint32_t value) { return fmt::format("\\u{:04x}", value); };
  if (c < 0x20 || (ensure_ascii && c >= 0x7F && c < 0x10000)) return unit(c);
  if (ensure_ascii && c >= 0x10000) {
    const uint32_t offset = c - 0x10000;
    return unit(0xD800 + (offset >> 10)) + unit(0xDC00 + (offset & 0x3FF));
  }
  return "";
}

class JsonWriter {
 public:
  JsonWriter(Interpreter& interpreter, const JsonStyle& style, TaggedString* out)
      : interpreter_(interpreter), style_(style), out_(out) {}

  Status Write(const Value& value, int level) {
    HF_RETURN_IF_ERROR(interpreter_.Step());
    switch (value.kind()) {
      case Value::Kind::kNone:
        Put("null");
        return OkStatus();
      case Value::Kind::kBool:
        Put(value.boolean() ? "true" : "false");
        return OkStatus();
      case Value::Kind::kInt:
      case Value::Kind::kFloat:
        Put(NumberText(value));
        return OkStatus();
      case Value::Kind::kString:
        return WriteString(value.string());
      case Value::Kind::kList:
        return WriteList(value.list(), level);
      case Value::Kind::kDict:
        return WriteDict(value.dict(), level);
      default:
        return InvalidArgumentError(fmt::format("tojson of {}", value.KindName()));
    }
  }

 private:
  void Put(std::string_view text) { out_->Append(text, kTemplate); }

  Status WriteString(const TaggedString& text) {
    HF_RETURN_IF_ERROR(interpreter_.Charge(static_cast<int64_t>(text.size() + 2)));
    Put("\"");
    AppendEscaped(
        text, [this](char32_t c) { return JsonEscape(c, style_.ensure_ascii); }, out_);
    Put("\"");
    return OkStatus();
  }

  // Before an element, or before the closing bracket of a container with elements.
  Status NewLine(int level) {
    if (!style_.indent) return OkStatus();
    const int64_t n = *style_.indent * level;
    HF_RETURN_IF_ERROR(interpreter_.Charge(n + 1));
    Put("\n" + std::string(static_cast<size_t>(n), ' '));
    return OkStatus();
  }

  Status WriteList(const List& list, int level) {
    Put("[");
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0) out_->Append(style_.item_separator);
      HF_RETURN_IF_ERROR(NewLine(level + 1));
      HF_RETURN_IF_ERROR(Write(list[i], level + 1));
    }
    if (!list.empty()) HF_RETURN_IF_ERROR(NewLine(level));
    Put("]");
    return OkStatus();
  }

  Status WriteDict(const Dict& dict, int level) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::sort(entries.begin(), entries.end(), [](const Dict::Entry* a, const Dict::Entry* b) {
        return a->key.text() < b->key.text();
      });
    }
    Put("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_->Append(style_.item_separator);
      HF_RETURN_IF_ERROR(NewLine(level + 1));
      HF_RETURN_IF_ERROR(WriteString(entries[i]->key));
      out_->Append(style_.key_separator);
      HF_RETURN_IF_ERROR(Write(entries[i]->value, level + 1));
    }
    if (!entries.empty()) HF_RETURN_IF_ERROR(NewLine(level));
    Put("}");
    return OkStatus();
  }

  Interpreter& interpreter_;
  const JsonStyle& style_;
  TaggedString* out_;
};

}  // namespace

Status WriteRepr(Interpreter& interpreter, const Value& value, TaggedString* out) {
  HF_RETURN_IF_ERROR(interpreter.Step());
  const auto put = [out](std::string_view text) { out->Append(text, kTemplate); };
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      put("Undefined");
      break;
    case Value::Kind::kNone:
      put("None");
      break;
    case Value::Kind::kBool:
      put(value.boolean() ? "True" : "False");
      break;
    case Value::Kind::kInt:
    case Value::Kind::kFloat:
      put(NumberText(value));
      break;
    case Value::Kind::kString:
      HF_RETURN_IF_ERROR(interpreter.Charge(static_cast<int64_t>(value.string().size() + 2)));
      AppendQuotedRepr(value.string(), out);
      break;
    case Value::Kind::kList:
      put("[");
      for (size_t i = 0; i < value.list().size(); ++i) {
        if (i > 0) put(", ");
        HF_RETURN_IF_ERROR(WriteRepr(interpreter, value.list()[i], out));
      }
      put("]");
      break;
    case Value::Kind::kDict:
      put("{");
      for (size_t i = 0; i < value.dict().entries.size(); ++i) {
        const Dict::Entry& entry = value.dict().entries[i];
        if (i > 0) put(", ");
        HF_RETURN_IF_ERROR(interpreter.Charge(static_cast<int64_t>(entry.key.size() + 2)));
        AppendQuotedRepr(entry.key, out);
        put(": ");
        HF_RETURN_IF_ERROR(WriteRepr(interpreter, entry.value, out));
      }
      put("}");
      break;
    case Value::Kind::kNamespace:
      put("<Namespace>");
      break;
    case Value::Kind::kCallable:
      put("<function>");
      break;
  }
  return OkStatus();
}

Status WriteJson(Interpreter& interpreter, const Value& value, const JsonStyle& style,
                 TaggedString* out) {
  return JsonWriter(interpreter, style, out).Write(value, 0);
}

}  // namespace holdfast::jinja

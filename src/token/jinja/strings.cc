#include "token/jinja/strings.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>

#include "token/jinja/builtins.h"
#include "token/utf8.h"

namespace holdfast::jinja {
namespace {

// One character of a tagged string at byte `at`.
Utf8Char CharAt(std::string_view text, size_t at) { return ReadUtf8(text.substr(at)); }

bool IsLetter(char32_t c) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

char32_t UpperChar(char32_t c) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}

char32_t LowerChar(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

bool InSet(char32_t c, std::string_view set) {
  while (!set.empty()) {
    const Utf8Char member = ReadUtf8(set);
    if (member.code_point == c) return true;
    set.remove_prefix(member.n_bytes);
  }
  return false;
}

// Byte before the character that ends at `end` > 0.
size_t Previous(std::string_view text, size_t end) {
  do {
    --end;
  } while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80);
  return end;
}

Status AddPart(Interpreter& interpreter, const TaggedString& text, size_t begin, size_t end,
               List* parts) {
  HF_ASSIGN_OR_RETURN(Value part, interpreter.MakeString(text.Substr(begin, end - begin)));
  parts->push_back(std::move(part));
  return interpreter.Step();
}

Result<List> SplitSpaces(Interpreter& interpreter, const TaggedString& text, int64_t limit,
                         bool from_right) {
  // Words first, then the rest of the limit is joined back, as it stands in the text.
  struct Word {
    size_t begin, end;
  };
  std::vector<Word> words;
  const std::string_view bytes = text.text();
  bool in_word = false;
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Char c = CharAt(bytes, at);
    if (IsSpace(c.code_point)) {
      in_word = false;
    } else if (!in_word) {
      words.push_back({at, at + c.n_bytes});
      in_word = true;
    } else {
      words.back().end = at + c.n_bytes;
    }
    at += c.n_bytes;
  }
  if (limit >= 0 && words.size() > static_cast<size_t>(limit) + 1) {
    const auto keep = static_cast<std::ptrdiff_t>(limit);
    if (from_right) {
      // The head keeps what stands before it, only its end is stripped.
      const Word head = {0, words[words.size() - static_cast<size_t>(limit) - 1].end};
      words.erase(words.begin(), words.end() - keep);
      words.insert(words.begin(), head);
    } else {
      const Word tail = {words[static_cast<size_t>(limit)].begin, bytes.size()};
      words.erase(words.begin() + keep, words.end());
      words.push_back(tail);
    }
  }
  List parts;
  for (const Word& word : words) {
    HF_RETURN_IF_ERROR(AddPart(interpreter, text, word.begin, word.end, &parts));
  }
  return parts;
}

}  // namespace

bool IsSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

TaggedString Strip(const TaggedString& text, Side side, std::optional<std::string_view> chars) {
  const std::string_view bytes = text.text();
  const auto goes = [&chars](char32_t c) { return chars ? InSet(c, *chars) : IsSpace(c); };
  size_t begin = 0, end = bytes.size();
  while (side != Side::kRight && begin < end) {
    const Utf8Char c = CharAt(bytes, begin);
    if (!goes(c.code_point)) break;
    begin += c.n_bytes;
  }
  while (side != Side::kLeft && begin < end) {
    const size_t at = Previous(bytes, end);
    if (!goes(CharAt(bytes, at).code_point)) break;
    end = at;
  }
  return text.Substr(begin, end - begin);
}

TaggedString MapCharacters(const TaggedString& text,
                           const std::function<char32_t(char32_t, bool)>& map) {
  const std::string_view bytes = text.text();
  TaggedString out;
  std::string mapped;
  bool in_word = false;
  size_t at = 0;
  for (const TaggedString::Run& run : text.runs()) {
    mapped.clear();
    // A character belongs to the run in which it begins.
    while (at < run.end) {
      const Utf8Char c = CharAt(bytes, at);
      AppendUtf8(map(c.code_point, !in_word), &mapped);
      in_word = IsLetter(c.code_point);
      at += c.n_bytes;
    }
    out.Append(mapped, run.source);
  }
  return out;
}

TaggedString Upper(const TaggedString& text) {
  return MapCharacters(text, [](char32_t c, bool) { return UpperChar(c); });
}

TaggedString Lower(const TaggedString& text) {
  return MapCharacters(text, [](char32_t c, bool) { return LowerChar(c); });
}

TaggedString Title(const TaggedString& text) {
  return MapCharacters(
      text, [](char32_t c, bool begins) { return begins ? UpperChar(c) : LowerChar(c); });
}

TaggedString Capitalize(const TaggedString& text) {
  bool is_first = true;
  return MapCharacters(text, [&is_first](char32_t c, bool) {
    return std::exchange(is_first, false) ? UpperChar(c) : LowerChar(c);
  });
}

void AppendEscaped(const TaggedString& text, const std::function<std::string(char32_t)>& escape,
                   TaggedString* out) {
  const std::string_view bytes = text.text();
  size_t kept = 0, at = 0;
  while (at < bytes.size()) {
    const Utf8Char c = ReadUtf8(bytes.substr(at));
    const std::string replacement = escape(c.code_point);
    if (!replacement.empty()) {
      out->Append(text, kept, at - kept);
      out->Append(replacement, text.SourceAt(at));
      kept = at + c.n_bytes;
    }
    at += c.n_bytes;
  }
  out->Append(text, kept, bytes.size() - kept);
}

Result<List> SplitText(Interpreter& interpreter, const TaggedString& text,
                       std::optional<std::string_view> separator, int64_t limit, bool from_right) {
  if (!separator) return SplitSpaces(interpreter, text, limit, from_right);
  if (separator->empty()) return InvalidArgumentError("split by an empty separator");
  const std::string_view bytes = text.text();
  HF_RETURN_IF_ERROR(ChargeSearch(interpreter, bytes.size(), separator->size()));
  List parts;
  if (!from_right) {
    size_t begin = 0;
    for (size_t at; limit != 0 && (at = bytes.find(*separator, begin)) != std::string_view::npos;
         --limit) {
      HF_RETURN_IF_ERROR(AddPart(interpreter, text, begin, at, &parts));
      begin = at + separator->size();
    }
    HF_RETURN_IF_ERROR(AddPart(interpreter, text, begin, bytes.size(), &parts));
    return parts;
  }
  size_t end = bytes.size();
  for (; limit != 0 && end >= separator->size(); --limit) {
    const size_t at = bytes.rfind(*separator, end - separator->size());
    if (at == std::string_view::npos) break;
    HF_RETURN_IF_ERROR(AddPart(interpreter, text, at + separator->size(), end, &parts));
    end = at;
  }
  HF_RETURN_IF_ERROR(AddPart(interpreter, text, 0, end, &parts));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

Result<List> SplitLines(Interpreter& interpreter, const TaggedString& text, bool keep_ends) {
  const std::string_view bytes = text.text();
  List parts;
  size_t begin = 0;
  while (begin < bytes.size()) {
    const size_t at = std::min(bytes.find_first_of("\r\n", begin), bytes.size());
    size_t next = std::min(at + 1, bytes.size());
    if (at + 1 < bytes.size() && bytes[at] == '\r' && bytes[at + 1] == '\n') ++next;
    HF_RETURN_IF_ERROR(AddPart(interpreter, text, begin, keep_ends ? next : at, &parts));
    begin = next;
  }
  return parts;
}

Result<Value> Replace(Interpreter& interpreter, const TaggedString& text, const TaggedString& from,
                      const TaggedString& to, int64_t limit) {
  const std::string_view bytes = text.text();
  HF_RETURN_IF_ERROR(ChargeSearch(interpreter, bytes.size(), from.size()));
  TaggedString out;
  size_t begin = 0;
  if (from.empty()) {  // Python puts `to` before every character and at the end
    const std::vector<size_t> offsets = CharacterOffsets(bytes);
    for (size_t i = 0; i < offsets.size() && limit != 0; ++i, --limit) {
      out.Append(text, begin, offsets[i] - begin);
      begin = offsets[i];
      HF_RETURN_IF_ERROR(interpreter.Charge(static_cast<int64_t>(to.size() + 1)));
      out.Append(to);
    }
  } else {
    for (size_t at; limit != 0 && (at = bytes.find(from.text(), begin)) != std::string_view::npos;
         --limit) {
      out.Append(text, begin, at - begin);
      HF_RETURN_IF_ERROR(interpreter.Charge(static_cast<int64_t>(to.size() + 1)));
      out.Append(to);
      begin = at + from.size();
    }
  }
  out.Append(text, begin, bytes.size() - begin);
  return interpreter.MakeString(std::move(out));
}

Result<Value> Repeat(Interpreter& interpreter, const TaggedString& text, int64_t times) {
  TaggedString out;
  if (times > 0 && !text.empty()) {
    const auto size = static_cast<int64_t>(text.size());
    if (times > (int64_t{1} << 40) / size)
      return ResourceExhaustedError("a string that is too long");
    HF_RETURN_IF_ERROR(interpreter.Charge(size * times));
    for (int64_t i = 0; i < times; ++i) out.Append(text);
  }
  return interpreter.MakeString(std::move(out));
}

Result<Value> Join(Interpreter& interpreter, const List& items, const TaggedString& separator) {
  TaggedString out;
  for (size_t i = 0; i < items.size(); ++i) {
    HF_ASSIGN_OR_RETURN(const Value item, ToString(interpreter, items[i]));
    HF_RETURN_IF_ERROR(
        interpreter.Charge(static_cast<int64_t>(item.string().size() + separator.size())));
    if (i > 0) out.Append(separator);
    out.Append(item.string());
  }
  return interpreter.MakeString(std::move(out));
}

Result<Value> Indent(Interpreter& interpreter, const TaggedString& text, const TaggedString& indent,
                     bool first, bool blank) {
  HF_ASSIGN_OR_RETURN(const List lines, SplitLines(interpreter, text, /*keep_ends=*/true));
  TaggedString out;
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool is_blank = Strip(lines[i].string(), Side::kBoth, std::nullopt).empty();
    if (i == 0 ? first : (blank || !is_blank)) {
      HF_RETURN_IF_ERROR(interpreter.Charge(static_cast<int64_t>(indent.size())));
      out.Append(indent);
    }
    out.Append(lines[i].string());
  }
  return interpreter.MakeString(std::move(out));
}

Status ChargeSearch(Interpreter& interpreter, size_t n_text, size_t n_needle) {
  if (n_needle > n_text) return interpreter.Step();
  const double cost =
      static_cast<double>(n_text - n_needle + 1) * static_cast<double>(n_needle + 1) / 1024;
  return interpreter.Step(1 + static_cast<int64_t>(std::min(cost, 1e15)));
}

std::vector<size_t> CharacterOffsets(std::string_view text) {
  std::vector<size_t> offsets;
  offsets.reserve(text.size() + 1);
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<uint8_t>(text[i]) & 0xC0) != 0x80) offsets.push_back(i);
  }
  offsets.push_back(text.size());
  return offsets;
}

}  // namespace holdfast::jinja

#include "token/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "token/utf8.h"
#include "weights/gguf_value.h"

namespace holdfast::jinja {
namespace {

constexpr std::string_view kSpaces = " \t\n\r\v\f";
// Two-character operators before their first characters.
constexpr std::array<std::string_view, 6> kLongOperators = {"//", "**", "==", "!=", ">=", "<="};
constexpr std::string_view kOperators = "+-*/%~<>=.:|,;()[]{}";

bool IsSpace(char c) { return kSpaces.find(c) != std::string_view::npos; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool IsNamePart(char c) { return IsNameStart(c) || IsDigit(c); }

// Line ends as \n, and without the one at the very end, as Jinja does before anything else.
std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out.push_back(source[i]);
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(NormalizeNewlines(source)) {}

  Result<std::vector<Lexeme>> Run() {
    while (pos_ < source_.size()) HF_RETURN_IF_ERROR(TextAndTag());
    Emit(Lexeme::Kind::kEnd, "");
    return std::move(out_);
  }

 private:
  using Kind = Lexeme::Kind;

  std::string_view Rest() const { return std::string_view(source_).substr(pos_); }
  bool At(std::string_view text) const { return Rest().substr(0, text.size()) == text; }
  char Char(size_t offset = 0) const {
    return pos_ + offset < source_.size() ? source_[pos_ + offset] : '\0';
  }
  void Emit(Kind kind, std::string text) { out_.push_back({kind, std::move(text), line_}); }
  Status Error(std::string_view what) const {
    return InvalidArgumentError(fmt::format("line {}: {}", line_, what));
  }

  // Moves on by `n` bytes, counting lines.
  void Skip(size_t n) {
    line_ +=
        static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(pos_),
                                    source_.begin() + static_cast<std::ptrdiff_t>(pos_ + n), '\n'));
    pos_ += n;
  }
  void SkipSpaces() {
    size_t n = 0;
    while (pos_ + n < source_.size() && IsSpace(source_[pos_ + n])) ++n;
    Skip(n);
  }

  // Output up to the next tag, and that tag.
  Status TextAndTag() {
    size_t tag = pos_;
    while ((tag = source_.find('{', tag)) != std::string::npos) {
      if (tag + 1 < source_.size() &&
          std::string_view("{%#").find(source_[tag + 1]) != std::string_view::npos) {
        break;
      }
      ++tag;
    }
    if (tag == std::string::npos) {
      EmitText(Rest());
      Skip(source_.size() - pos_);
      return OkStatus();
    }
    std::string_view text = std::string_view(source_).substr(pos_, tag - pos_);
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const bool has_sign = sign == '-' || sign == '+';
    if (sign == '-') {
      while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
    } else if (sign != '+' && kind != '{') {
      text = WithoutIndent(text);
    }
    EmitText(text);
    Skip(tag - pos_);
    const size_t n_begin = has_sign ? 3 : 2;
    if (kind == '#') return Comment(n_begin);
    if (kind == '%') {
      if (const size_t n = RawTagBytes(pos_ + n_begin, "raw"); n > 0) return Raw(n_begin + n);
    }
    Emit(kind == '{' ? Kind::kPrintBegin : Kind::kBlockBegin, "");
    Skip(n_begin);
    return Tag(kind == '{');
  }

  void EmitText(std::string_view text) {
    if (!text.empty()) Emit(Kind::kText, std::string(text));
  }

  // lstrip_blocks: spaces between the start of a line and a block tag are not output.
  std::string_view WithoutIndent(std::string_view text) const {
    const size_t newline = text.rfind('\n');
    const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
    if (begin == 0 && !at_line_start_) return text;
    const bool blank = std::all_of(text.begin() + static_cast<std::ptrdiff_t>(begin), text.end(),
                                   [](char c) { return IsSpace(c); });
    return blank ? text.substr(0, begin) : text;
  }

  // After the end of a tag: `sign` is the character before its %}, #} or }}.
  void AfterTag(char sign, bool is_print) {
    const size_t before = pos_;
    if (sign == '-') {
      SkipSpaces();
    } else if (sign != '+' && !is_print && Char() == '\n') {
      Skip(1);  // trim_blocks
    }
    at_line_start_ = pos_ > before && source_[pos_ - 1] == '\n';
  }

  Status Comment(size_t n_begin) {
    const size_t end = source_.find("#}", pos_ + n_begin);
    if (end == std::string::npos) return Error("a comment that does not end");
    const char sign = end > pos_ + n_begin ? source_[end - 1] : '\0';
    Skip(end + 2 - pos_);
    AfterTag(sign, false);
    return OkStatus();
  }

  // Bytes of " raw %}" or " endraw %}" at `at` (behind the {% and its sign); 0: something else.
  size_t RawTagBytes(size_t at, std::string_view word) const {
    size_t i = at;
    while (i < source_.size() && IsSpace(source_[i])) ++i;
    if (std::string_view(source_).substr(i, word.size()) != word) return 0;
    i += word.size();
    while (i < source_.size() && IsSpace(source_[i])) ++i;
    if (i < source_.size() && (source_[i] == '-' || source_[i] == '+')) ++i;
    if (std::string_view(source_).substr(i, 2) != "%}") return 0;
    return i + 2 - at;
  }

  Status Raw(size_t n_tag) {
    Skip(n_tag);
    AfterTag(source_[pos_ - 3], false);
    for (size_t at = source_.find("{%", pos_); at != std::string::npos;
         at = source_.find("{%", at + 2)) {
      const char sign = at + 2 < source_.size() ? source_[at + 2] : '\0';
      const size_t n_begin = sign == '-' || sign == '+' ? 3 : 2;
      const size_t n = RawTagBytes(at + n_begin, "endraw");
      if (n == 0) continue;
      std::string_view text = std::string_view(source_).substr(pos_, at - pos_);
      if (sign == '-') {
        while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
      } else if (sign != '+') {
        text = WithoutIndent(text);
      }
      EmitText(text);
      Skip(at + n_begin + n - pos_);
      AfterTag(source_[pos_ - 3], false);
      return OkStatus();
    }
    return Error("{% raw %} without {% endraw %}");
  }

  // The inside of {{ }} or {% %}, up to and with its end.
  Status Tag(bool is_print) {
    const std::string_view end = is_print ? "}}" : "%}";
    int open = 0;  // brackets
    while (true) {
      SkipSpaces();
      if (pos_ >= source_.size()) return Error("a tag that does not end");
      if (open == 0) {
        const bool has_sign = Char() == '-' || (Char() == '+' && !is_print);
        if (Rest().substr(has_sign ? 1 : 0, 2) == end) {
          const char sign = has_sign ? Char() : '\0';
          Emit(is_print ? Kind::kPrintEnd : Kind::kBlockEnd, "");
          Skip(has_sign ? 3 : 2);
          AfterTag(sign, is_print);
          return OkStatus();
        }
      }
      HF_RETURN_IF_ERROR(Expression(&open));
    }
  }

  // One lexeme of an expression.
  Status Expression(int* open) {
    const char c = Char();
    if (IsNameStart(c)) {
      size_t n = 1;
      while (IsNamePart(Char(n))) ++n;
      return Take(Kind::kName, n);
    }
    if (IsDigit(c)) return Number();
    if (c == '"' || c == '\'') return String(c);
    for (const std::string_view op : kLongOperators) {
      if (At(op)) return Take(Kind::kOperator, op.size());
    }
    if (c == '\0' || kOperators.find(c) == std::string_view::npos) {
      return Error(fmt::format("unexpected {} in an expression", Quoted(Rest().substr(0, 1))));
    }
    if (c == '(' || c == '[' || c == '{') ++*open;
    if (c == ')' || c == ']' || c == '}') --*open;
    if (*open < 0) return Error(fmt::format("unexpected '{}'", c));
    return Take(Kind::kOperator, 1);
  }

  Status Take(Kind kind, size_t n) {
    Emit(kind, std::string(Rest().substr(0, n)));
    Skip(n);
    return OkStatus();
  }

  Status Number() {
    size_t n = 0;
    const auto digits = [this, &n] {
      while (IsDigit(Char(n)) || (Char(n) == '_' && IsDigit(Char(n + 1)))) ++n;
    };
    digits();
    bool is_float = false;
    if (Char(n) == '.' && IsDigit(Char(n + 1))) {
      is_float = true;
      ++n;
      digits();
    }
    const size_t sign = Char(n + 1) == '+' || Char(n + 1) == '-' ? 1 : 0;
    if ((Char(n) == 'e' || Char(n) == 'E') && IsDigit(Char(n + 1 + sign))) {
      is_float = true;
      n += 1 + sign;
      digits();
    }
    std::string text(Rest().substr(0, n));
    std::erase(text, '_');
    Emit(is_float ? Kind::kFloat : Kind::kInteger, std::move(text));
    Skip(n);
    return OkStatus();
  }

  Status String(char quote) {
    std::string text;
    size_t n = 1;
    while (true) {
      if (pos_ + n >= source_.size()) return Error("a string that does not end");
      const char c = Char(n);
      if (c == quote) break;
      if (c == '\\') {
        HF_RETURN_IF_ERROR(Escape(&n, &text));
      } else {
        text.push_back(c);
        ++n;
      }
    }
    Emit(Kind::kString, std::move(text));
    Skip(n + 1);
    return OkStatus();
  }

  // Python's escapes; an unknown one stands for itself, backslash included.
  Status Escape(size_t* n, std::string* text) {
    const char c = Char(*n + 1);
    *n += 2;
    switch (c) {
      case 'n':
        text->push_back('\n');
        return OkStatus();
      case 't':
        text->push_back('\t');
        return OkStatus();
      case 'r':
        text->push_back('\r');
        return OkStatus();
      case 'b':
        text->push_back('\b');
        return OkStatus();
      case 'f':
        text->push_back('\f');
        return OkStatus();
      case 'v':
        text->push_back('\v');
        return OkStatus();
      case 'a':
        text->push_back('\a');
        return OkStatus();
      case '\\':
      case '\'':
      case '"':
        text->push_back(c);
        return OkStatus();
      case '\n':
        return OkStatus();
      case 'x':
        return CodePoint(n, 2, text);
      case 'u':
        return CodePoint(n, 4, text);
      case 'U':
        return CodePoint(n, 8, text);
      default:
        break;
    }
    if (c >= '0' && c <= '7') {
      char32_t value = 0;
      --*n;
      for (int i = 0; i < 3 && Char(*n) >= '0' && Char(*n) <= '7'; ++i) {
        value = value * 8 + static_cast<char32_t>(Char((*n)++) - '0');
      }
      AppendUtf8(value, text);
      return OkStatus();
    }
    text->push_back('\\');
    if (c != '\0') text->push_back(c);
    return OkStatus();
  }

  Status CodePoint(size_t* n, int n_digits, std::string* text) {
    char32_t value = 0;
    for (int i = 0; i < n_digits; ++i, ++*n) {
      const char c = Char(*n);
      const int digit = IsDigit(c)               ? c - '0'
                        : (c >= 'a' && c <= 'f') ? c - 'a' + 10
                        : (c >= 'A' && c <= 'F') ? c - 'A' + 10
                                                 : -1;
      if (digit < 0) return Error("an escape with too few hexadecimal digits");
      value = value * 16 + static_cast<char32_t>(digit);
    }
    const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
    AppendUtf8(value > 0x10FFFF || surrogate ? 0xFFFD : value, text);
    return OkStatus();
  }

  std::string source_;
  size_t pos_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;  // for the text that begins at pos_
  std::vector<Lexeme> out_;
};

}  // namespace

Result<std::vector<Lexeme>> Lex(std::string_view source) { return Lexer(source).Run(); }

}  // namespace holdfast::jinja

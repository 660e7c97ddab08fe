// Python's % formatting of strings.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "token/jinja/builtins.h"
#include "token/jinja/output.h"
#include "token/jinja/strings.h"
#include "token/utf8.h"

namespace holdfast::jinja {
namespace {

// "%-05.2f" without the percent sign.
struct FormatSpec {
  bool left = false, zero = false, plus = false;
  int width = 0;
  int precision = -1;
  char type = 's';
};

constexpr int kMaxFormatWidth = 10000;

// Reads a spec at *at and moves behind it.
Result<FormatSpec> ReadSpec(std::string_view text, size_t* at) {
  FormatSpec spec;
  const auto number = [text, at] {
    int n = 0;
    while (*at < text.size() && text[*at] >= '0' && text[*at] <= '9') {
      n = std::min(n * 10 + (text[(*at)++] - '0'), kMaxFormatWidth + 1);
    }
    return n;
  };
  for (; *at < text.size(); ++*at) {
    if (text[*at] == '-') {
      spec.left = true;
    } else if (text[*at] == '0') {
      spec.zero = true;
    } else if (text[*at] == '+') {
      spec.plus = true;
    } else {
      break;
    }
  }
  spec.width = number();
  if (*at < text.size() && text[*at] == '.') {
    ++*at;
    spec.precision = number();
  }
  if (spec.width > kMaxFormatWidth || spec.precision > 100 || *at >= text.size()) {
    return InvalidArgumentError("a bad format after '%'");
  }
  spec.type = text[(*at)++];
  return spec;
}

Result<TaggedString> FormatOne(Interpreter& interpreter, const FormatSpec& spec,
                               const Value& value) {
  switch (spec.type) {
    case 's': {
      HF_ASSIGN_OR_RETURN(const Value text, ToString(interpreter, value));
      if (spec.precision < 0) return text.string();
      const std::vector<size_t> offsets = CharacterOffsets(text.text());
      const size_t n = std::min(static_cast<size_t>(spec.precision), offsets.size() - 1);
      return text.string().Substr(0, offsets[n]);
    }
    case 'r': {
      TaggedString out;
      HF_RETURN_IF_ERROR(WriteRepr(interpreter, value, &out));
      return out;
    }
    default:
      break;
  }
  if (!value.is_number()) {
    return InvalidArgumentError(fmt::format("%{} of {}", spec.type, value.KindName()));
  }
  const std::string_view plus = spec.plus && value.number() >= 0 ? "+" : "";
  if (spec.type == 'd' || spec.type == 'i') {
    if (!value.is_float())
      return TaggedString(fmt::format("{}{}", plus, value.integer()), kTemplate);
    return TaggedString(fmt::format("{}{:.0f}", plus, std::trunc(value.number())), kTemplate);
  }
  if (spec.type == 'x' && !value.is_float()) {
    return TaggedString(fmt::format("{}{:x}", plus, value.integer()), kTemplate);
  }
  if (spec.type == 'f') {
    const int precision = spec.precision < 0 ? 6 : spec.precision;
    return TaggedString(fmt::format("{}{:.{}f}", plus, value.number(), precision), kTemplate);
  }
  return InvalidArgumentError(fmt::format("the format %{} is not supported", spec.type));
}

TaggedString Pad(const FormatSpec& spec, TaggedString text) {
  const int64_t n = CountUtf8(text.text());
  if (n >= spec.width) return text;
  const auto n_pad = static_cast<size_t>(spec.width - n);
  if (spec.left) {
    text.Append(std::string(n_pad, ' '), kTemplate);
    return text;
  }
  const bool zeros = spec.zero && spec.type != 's' && spec.type != 'r';
  const bool has_sign = zeros && !text.empty() && (text.text()[0] == '-' || text.text()[0] == '+');
  TaggedString out;
  if (has_sign) out.Append(text, 0, 1);
  out.Append(std::string(n_pad, zeros ? '0' : ' '), kTemplate);
  out.Append(text, has_sign ? 1 : 0, text.size() - (has_sign ? 1 : 0));
  return out;
}

}  // namespace

Result<Value> FormatPercent(Interpreter& interpreter, const TaggedString& format,
                            const List& values) {
  const std::string_view text = format.text();
  TaggedString out;
  size_t next = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t percent = std::min(text.find('%', at), text.size());
    out.Append(format, at, percent - at);
    at = percent;
    if (at == text.size()) break;
    if (text.substr(at, 2) == "%%") {
      out.Append(format, at, 1);
      at += 2;
      continue;
    }
    ++at;
    HF_ASSIGN_OR_RETURN(const FormatSpec spec, ReadSpec(text, &at));
    if (next >= values.size()) return InvalidArgumentError("not enough values for a format");
    HF_ASSIGN_OR_RETURN(TaggedString part, FormatOne(interpreter, spec, values[next++]));
    part = Pad(spec, std::move(part));
    HF_RETURN_IF_ERROR(interpreter.Charge(static_cast<int64_t>(part.size() + 1)));
    out.Append(part);
  }
  if (next < values.size()) return InvalidArgumentError("too many values for a format");
  return interpreter.MakeString(std::move(out));
}

}  // namespace holdfast::jinja

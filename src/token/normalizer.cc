#include "token/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "token/utf8.h"

namespace holdfast {
namespace {

constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

utf8proc_propval_t CombiningClass(utf8proc_int32_t c) {
  return utf8proc_get_property(c)->combining_class;
}

// Canonical decomposition, character by character, marks not yet in order.
std::vector<utf8proc_int32_t> Decompose(std::string_view text) {
  std::vector<utf8proc_int32_t> out;
  out.reserve(text.size());
  std::array<utf8proc_int32_t, 32> parts;  // the longest canonical decomposition has 4
  while (!text.empty()) {
    const Utf8Char c = ReadUtf8(text);
    int boundclass = 0;
    const utf8proc_ssize_t n =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.code_point), parts.data(),
                                static_cast<utf8proc_ssize_t>(parts.size()), kOptions, &boundclass);
    HF_CHECK(n >= 0 && n <= static_cast<utf8proc_ssize_t>(parts.size()));
    out.insert(out.end(), parts.begin(), parts.begin() + n);
    text.remove_prefix(c.n_bytes);
  }
  return out;
}

// utf8proc's own reordering takes quadratic time on long runs of marks; a stable sort gives the
// same order.
void OrderMarks(std::vector<utf8proc_int32_t>* text) {
  auto it = text->begin();
  while (it != text->end()) {
    if (CombiningClass(*it) == 0) {
      ++it;
      continue;
    }
    const auto end =
        std::find_if(it, text->end(), [](utf8proc_int32_t c) { return CombiningClass(c) == 0; });
    std::stable_sort(it, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return CombiningClass(a) < CombiningClass(b);
    });
    it = end;
  }
}

}  // namespace

std::string NormalizeNfc(std::string_view text) {
  std::vector<utf8proc_int32_t> points = Decompose(text);
  OrderMarks(&points);
  const utf8proc_ssize_t n = utf8proc_normalize_utf32(
      points.data(), static_cast<utf8proc_ssize_t>(points.size()), kOptions);
  HF_CHECK(n >= 0);
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < n; ++i) {
    AppendUtf8(static_cast<char32_t>(points[static_cast<size_t>(i)]), &out);
  }
  return out;
}

bool IsTriviallyNfc(std::string_view text) {
  // U+0300 is CC 80; lead bytes are the only bytes from C2 on.
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) >= 0xCC; });
}

}  // namespace holdfast

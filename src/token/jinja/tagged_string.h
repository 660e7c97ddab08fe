#ifndef HOLDFAST_TOKEN_JINJA_TAGGED_STRING_H_
#define HOLDFAST_TOKEN_JINJA_TAGGED_STRING_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::jinja {

// Where bytes came from: the template itself, the request as a whole, or (0 and up) message number
// i of the request.
using Source = int32_t;
inline constexpr Source kTemplate = -1;
inline constexpr Source kRequest = -2;

// A string that remembers, per byte, where it came from. Everything a template does to strings goes
// through this type, so that no filter, slice or concatenation can launder request text into
// template text.
class TaggedString {
 public:
  // Bytes up to `end` (from the end of the run before) came from `source`.
  struct Run {
    size_t end = 0;
    Source source = kTemplate;
    friend bool operator==(const Run&, const Run&) = default;
  };

  TaggedString() = default;
  TaggedString(std::string_view text, Source source) { Append(text, source); }

  const std::string& text() const { return text_; }
  size_t size() const { return text_.size(); }
  bool empty() const { return text_.empty(); }
  // Ascending, not empty, neighbours differ.
  const std::vector<Run>& runs() const { return runs_; }

  void Append(std::string_view text, Source source);
  void Append(const TaggedString& other) { Append(other, 0, other.size()); }
  // Bytes [begin, begin + n_bytes) of `other`, which may not be this string.
  void Append(const TaggedString& other, size_t begin, size_t n_bytes);

  TaggedString Substr(size_t begin, size_t n_bytes) const;
  // Source of byte `at` < size().
  Source SourceAt(size_t at) const;
  // Drops everything from `size` on.
  void Truncate(size_t size);

 private:
  size_t RunAt(size_t at) const;

  std::string text_;
  std::vector<Run> runs_;
};

}  // namespace holdfast::jinja

#endif  // HOLDFAST_TOKEN_JINJA_TAGGED_STRING_H_

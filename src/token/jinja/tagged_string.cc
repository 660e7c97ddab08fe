#include "token/jinja/tagged_string.h"

#include <algorithm>

namespace holdfast::jinja {

void TaggedString::Append(std::string_view text, Source source) {
  if (text.empty()) return;
  text_ += text;
  if (!runs_.empty() && runs_.back().source == source) {
    runs_.back().end = text_.size();
  } else {
    runs_.push_back({text_.size(), source});
  }
}

void TaggedString::Append(const TaggedString& other, size_t begin, size_t n_bytes) {
  if (n_bytes == 0) return;
  const std::string_view all = other.text_;
  const size_t end = begin + n_bytes;
  for (size_t run = other.RunAt(begin); begin < end; ++run) {
    const size_t run_end = std::min(other.runs_[run].end, end);
    Append(all.substr(begin, run_end - begin), other.runs_[run].source);
    begin = run_end;
  }
}

TaggedString TaggedString::Substr(size_t begin, size_t n_bytes) const {
  TaggedString out;
  out.Append(*this, begin, n_bytes);
  return out;
}

Source TaggedString::SourceAt(size_t at) const { return runs_[RunAt(at)].source; }

void TaggedString::Truncate(size_t size) {
  if (size >= text_.size()) return;
  text_.resize(size);
  while (!runs_.empty() && (runs_.size() > 1 ? runs_[runs_.size() - 2].end >= size : size == 0)) {
    runs_.pop_back();
  }
  if (!runs_.empty()) runs_.back().end = size;
}

size_t TaggedString::RunAt(size_t at) const {
  const auto it = std::upper_bound(runs_.begin(), runs_.end(), at,
                                   [](size_t value, const Run& run) { return value < run.end; });
  return static_cast<size_t>(it - runs_.begin());
}

}  // namespace holdfast::jinja

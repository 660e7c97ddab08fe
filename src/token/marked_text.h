#ifndef HOLDFAST_TOKEN_MARKED_TEXT_H_
#define HOLDFAST_TOKEN_MARKED_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast {

// Bytes [begin, end) of a text.
struct Span {
  int64_t begin = 0;
  int64_t end = 0;

  bool empty() const { return begin >= end; }
  friend bool operator==(const Span&, const Span&) = default;
};

// A prompt as one text, with the places that came from a request. In those no added token (control
// or user-defined) is ever recognised, whatever they spell; everywhere else all of them are.
struct MarkedText {
  std::string text;
  std::vector<Span> plain;  // ascending, disjoint, not empty
};

}  // namespace holdfast

#endif  // HOLDFAST_TOKEN_MARKED_TEXT_H_

#ifndef HOLDFAST_GRAMMAR_TEXT_MACHINE_H_
#define HOLDFAST_GRAMMAR_TEXT_MACHINE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "grammar/code_points.h"

namespace holdfast {

// A deterministic machine over the code points of a string's value (not of its JSON text). Node 0
// is the start; what a node has no edge for ends in nothing.
struct TextMachine {
  struct Edge {
    CodePointSet set;  // those of one node's edges are disjoint
    int32_t to = 0;
  };
  struct Node {
    std::vector<Edge> edges;
    bool accepts = false;
  };
  std::vector<Node> nodes;

  bool Accepts(std::string_view text) const;  // valid UTF-8
  bool AcceptsNothing() const;
};

inline constexpr size_t kMaxTextNodes = 2000;

// The strings in which an ECMAScript regular expression (with the flag u) finds something.
// Understood: literals, ., classes, \d \w \s and their complements, escapes of characters, groups,
// alternatives, counted and other quantifiers, ^ and $. kUnimplemented naming what is not
// (look-around, back references, \b, \p, flags), kInvalidArgument for what is no expression,
// kOutOfRange for one that needs more than kMaxTextNodes nodes.
Result<TextMachine> MachineOfPattern(std::string_view pattern);

// All strings but `words`; with `trimmed`, but those that are one of `words` with white space
// behind.
TextMachine MachineWithout(const std::vector<std::string>& words, bool trimmed = false);

// The strings in which none of `markers` occurs. Each begins with '<' and has no other.
TextMachine MachineAvoiding(const std::vector<std::string>& markers);

// `min` to `max` (or kUnlimited) code points.
Result<TextMachine> MachineOfLength(int64_t min, int64_t max);

// The strings that `machine` does not accept.
TextMachine Complement(const TextMachine& machine);

// The strings that both accept. kOutOfRange past kMaxTextNodes.
Result<TextMachine> Both(const TextMachine& a, const TextMachine& b);

}  // namespace holdfast

#endif  // HOLDFAST_GRAMMAR_TEXT_MACHINE_H_

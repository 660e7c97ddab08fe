#include "grammar/string_rules.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace holdfast {
namespace {

constexpr CodePointRange kControls = {0, 0x1F};

}  // namespace

// UTF-8 is digits of six bits behind a first byte that says how many.
void StringRules::AddUtf8(StateId from, CodePointRange range, StateId to) {
  struct Length {
    char32_t low, high;
    int n_bytes;
    Symbol lead;
  };
  constexpr Length kLengths[] = {{0, 0x7F, 1, 0x00},
                                 {0x80, 0x7FF, 2, 0xC0},
                                 {0x800, 0xFFFF, 3, 0xE0},
                                 {0x10000, kLastCodePoint, 4, 0xF0}};
  for (const Length& length : kLengths) {
    const char32_t low = std::max(range.low, length.low), high = std::min(range.high, length.high);
    if (low > high) continue;
    for (const auto& row : SplitIntoDigits(low, high, length.n_bytes, 6)) {
      StateId state = from;
      for (size_t i = 0; i < row.size(); ++i) {
        const Symbol mark = i == 0 ? length.lead : Symbol{0x80};
        const StateId next = i + 1 == row.size() ? to : builder_.NewState();
        builder_.Read(state, static_cast<Symbol>(mark | row[i].low),
                      static_cast<Symbol>(mark | row[i].high), next);
        state = next;
      }
    }
  }
}

// Four hexadecimal digits, of either case.
void StringRules::AddHex(StateId from, uint32_t low, uint32_t high, StateId to) {
  for (const auto& row : SplitIntoDigits(low, high, 4, 4)) {
    StateId state = from;
    for (size_t i = 0; i < row.size(); ++i) {
      const StateId next = i + 1 == row.size() ? to : builder_.NewState();
      const uint32_t first = row[i].low, last = row[i].high;
      if (first <= 9) {
        builder_.Read(state, static_cast<Symbol>('0' + first),
                      static_cast<Symbol>('0' + std::min(last, 9u)), next);
      }
      if (last >= 10) {
        for (const char a : {'a', 'A'}) {
          builder_.Read(state, static_cast<Symbol>(a + static_cast<int>(std::max(first, 10u)) - 10),
                        static_cast<Symbol>(a + static_cast<int>(last) - 10), next);
        }
      }
      state = next;
    }
  }
}

void StringRules::AddEscapes(StateId from, const CodePointSet& set, StateId to) {
  const StateId escape = builder_.NewState(), unicode = builder_.NewState();
  builder_.Read(from, '\\', escape);
  constexpr std::pair<char, char32_t> kShort[] = {{'"', U'"'}, {'\\', U'\\'}, {'/', U'/'},
                                                  {'b', 0x08}, {'f', 0x0C},   {'n', 0x0A},
                                                  {'r', 0x0D}, {'t', 0x09}};
  for (const auto& [letter, c] : kShort) {
    if (set.Has(c)) builder_.Read(escape, static_cast<Symbol>(letter), to);
  }
  builder_.Read(escape, 'u', unicode);
  for (const CodePointRange& range : set.ranges()) {
    if (range.low <= 0xFFFF) {
      AddHex(unicode, range.low, std::min<uint32_t>(range.high, 0xFFFF), to);
    }
    if (range.high <= 0xFFFF) continue;
    // A pair of surrogates: ten bits each.
    const uint32_t low = std::max<uint32_t>(range.low, 0x10000) - 0x10000;
    for (const auto& row : SplitIntoDigits(low, range.high - 0x10000, 2, 10)) {
      const StateId second = builder_.NewState();
      AddHex(unicode, 0xD800 + row[0].low, 0xD800 + row[0].high, second);
      AddHex(builder_.Text(second, "\\u"), 0xDC00 + row[1].low, 0xDC00 + row[1].high, to);
    }
  }
}

RuleId StringRules::Character(const CodePointSet& set, Spelling spelling) {
  const auto known = characters_.find({spelling, set});
  if (known != characters_.end()) return known->second;
  const RuleId rule = builder_.NewRule();
  characters_[{spelling, set}] = rule;
  const StateId start = builder_.StartOf(rule), end = builder_.NewFinal();
  CodePointSet plain = set.Without({{0, 0}});
  if (spelling == Spelling::kJson) {
    plain = set.Without({kControls, {U'"', U'"'}, {U'\\', U'\\'}});
    AddEscapes(start, set, end);
  }
  for (const CodePointRange& range : plain.ranges()) AddUtf8(start, range, end);
  return rule;
}

void StringRules::Add(StateId from, const TextMachine& machine, Spelling spelling, StateId to) {
  std::vector<StateId> states;
  for (const TextMachine::Node& node : machine.nodes) {
    states.push_back(builder_.NewState());
    builder_.MarkText(states.back());
    if (node.accepts) builder_.Skip(states.back(), to);
  }
  for (size_t i = 0; i < machine.nodes.size(); ++i) {
    std::map<int32_t, CodePointSet> by_target;
    for (const TextMachine::Edge& edge : machine.nodes[i].edges) by_target[edge.to].Add(edge.set);
    for (const auto& [target, set] : by_target) {
      if (set.empty()) continue;
      builder_.Call(states[i], Character(set, spelling), states[static_cast<size_t>(target)]);
    }
  }
  builder_.Skip(from, states.front());
}

void StringRules::AddAny(StateId from, const CodePointSet& set, int32_t min, int32_t max,
                         Spelling spelling, StateId to) {
  builder_.MarkText(builder_.Repeat(from, Character(set, spelling), min, max, to));
}

}  // namespace holdfast

#ifndef HOLDFAST_GRAMMAR_GRAMMAR_H_
#define HOLDFAST_GRAMMAR_GRAMMAR_H_

// The texts a reply may be: a pushdown machine over bytes and the markers of tool calls.

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace holdfast {

using Symbol = uint16_t;                   // a byte, or one of:
inline constexpr Symbol kCallBegin = 256;  // the token <tool_call>
inline constexpr Symbol kCallEnd = 257;    // the token </tool_call>
inline constexpr int kSymbols = 258;

using StateId = int32_t;
using RuleId = int32_t;

// A rule is a nondeterministic machine that may call rules. Its states are all those reachable from
// its start without following a call; it ends in any of its final states.
struct GrammarState {
  struct Read {
    Symbol low = 0, high = 0;  // inclusive
    StateId to = 0;
  };
  struct Call {
    RuleId rule = 0;
    StateId to = 0;  // where it goes on when the rule has ended
  };
  // `rule` again and again: at least `min` and at most `max` times, then on to `exit`. The count
  // belongs to the place in a text, not to the machine, so that large counts cost nothing.
  struct Repeat {
    RuleId rule = -1;  // -1: this state repeats nothing
    int32_t min = 0, max = 0;
    StateId exit = 0;
  };

  std::vector<Read> reads;
  std::vector<Call> calls;
  std::vector<StateId> skips;  // without reading anything
  Repeat repeat;
  bool is_final = false;
  // Between two characters of a string: most of a vocabulary may follow, whatever surrounds it.
  bool in_text = false;

  // Nothing happens here but the end of the rule.
  bool only_ends() const {
    return is_final && reads.empty() && calls.empty() && skips.empty() && repeat.rule < 0;
  }
};

inline constexpr int32_t kUnlimited = std::numeric_limits<int32_t>::max();

struct Grammar {
  std::vector<GrammarState> states;
  std::vector<StateId> rules;  // their starts
  RuleId root = 0;
  RuleId after_thought = 0;  // the same behind the end of a think block
};

// Puts a grammar together. Past the limit of states nothing more is added and overflowed() says so:
// whoever builds looks once in a while, and at the end (Finish).
class GrammarBuilder {
 public:
  explicit GrammarBuilder(size_t max_states) : max_states_(max_states) {}

  RuleId NewRule() {
    grammar_.rules.push_back(NewState());
    return static_cast<RuleId>(grammar_.rules.size()) - 1;
  }
  StateId StartOf(RuleId rule) const { return grammar_.rules[static_cast<size_t>(rule)]; }
  StateId NewState();
  StateId NewFinal();
  void MakeFinal(StateId state) { at(state).is_final = true; }
  void MarkText(StateId state) { at(state).in_text = true; }

  void Read(StateId from, Symbol low, Symbol high, StateId to);
  void Read(StateId from, Symbol symbol, StateId to) { Read(from, symbol, symbol, to); }
  void Skip(StateId from, StateId to);
  void Call(StateId from, RuleId rule, StateId to);
  // A new state that repeats `rule`, which must not match the empty text, entered from `from`.
  StateId Repeat(StateId from, RuleId rule, int32_t min, int32_t max, StateId exit);
  // The bytes of `text`; the state behind them.
  StateId Text(StateId from, std::string_view text);
  void Text(StateId from, std::string_view text, StateId to) { Skip(Text(from, text), to); }
  // One of `texts`; common beginnings share their states.
  void OneOf(StateId from, std::vector<std::string> texts, StateId to);

  size_t n_states() const { return grammar_.states.size(); }
  bool overflowed() const { return overflowed_; }

  // Takes out what can never be completed, so that whatever the machine accepts as a beginning can
  // be continued to an end. kOutOfRange past the limit of states; kInvalidArgument when nothing at
  // all can be completed.
  Result<Grammar> Finish(RuleId root) &&;

 private:
  GrammarState& at(StateId state) { return grammar_.states[static_cast<size_t>(state)]; }

  const size_t max_states_;
  bool overflowed_ = false;
  Grammar grammar_;
};

}  // namespace holdfast

#endif  // HOLDFAST_GRAMMAR_GRAMMAR_H_

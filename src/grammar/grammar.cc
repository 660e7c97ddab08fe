#include "grammar/grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace holdfast {

StateId GrammarBuilder::NewState() {
  if (grammar_.states.size() >= max_states_) {
    overflowed_ = true;
    if (!grammar_.states.empty()) return static_cast<StateId>(grammar_.states.size()) - 1;
  }
  grammar_.states.emplace_back();
  return static_cast<StateId>(grammar_.states.size()) - 1;
}

StateId GrammarBuilder::NewFinal() {
  const StateId state = NewState();
  MakeFinal(state);
  return state;
}

void GrammarBuilder::Read(StateId from, Symbol low, Symbol high, StateId to) {
  if (!overflowed_) at(from).reads.push_back({low, high, to});
}

void GrammarBuilder::Skip(StateId from, StateId to) {
  if (!overflowed_) at(from).skips.push_back(to);
}

void GrammarBuilder::Call(StateId from, RuleId rule, StateId to) {
  if (!overflowed_) at(from).calls.push_back({rule, to});
}

StateId GrammarBuilder::Repeat(StateId from, RuleId rule, int32_t min, int32_t max, StateId exit) {
  const StateId state = NewState();
  at(state).repeat = {.rule = rule, .min = min, .max = max, .exit = exit};
  Skip(from, state);
  return state;
}

StateId GrammarBuilder::Text(StateId from, std::string_view text) {
  for (const char c : text) {
    const StateId next = NewState();
    Read(from, static_cast<uint8_t>(c), next);
    from = next;
  }
  return from;
}

void GrammarBuilder::OneOf(StateId from, std::vector<std::string> texts, StateId to) {
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  // The states along the text before, which shares its beginning with the next one.
  std::vector<StateId> path = {from};
  std::string_view before;
  for (const std::string& text : texts) {
    const auto differ = std::mismatch(before.begin(), before.end(), text.begin(), text.end());
    const size_t common = static_cast<size_t>(differ.first - before.begin());
    path.resize(common + 1);
    for (size_t i = common; i < text.size(); ++i) {
      path.push_back(Text(path.back(), std::string_view(text).substr(i, 1)));
    }
    Skip(path.back(), to);
    before = text;
  }
}

namespace {

// Which states can reach the end of their rule.
class Productive {
 public:
  explicit Productive(const Grammar& grammar)
      : grammar_(grammar), is_(grammar.states.size()), users_(grammar.states.size()) {
    for (size_t i = 0; i < grammar.states.size(); ++i) {
      const StateId state = static_cast<StateId>(i);
      const GrammarState& s = grammar.states[i];
      for (const auto& read : s.reads) Uses(state, read.to);
      for (const StateId to : s.skips) Uses(state, to);
      for (const auto& call : s.calls) {
        Uses(state, call.to);
        Uses(state, StartOf(call.rule));
      }
      if (s.repeat.rule >= 0) {
        Uses(state, s.repeat.exit);
        Uses(state, StartOf(s.repeat.rule));
      }
    }
    std::vector<StateId> todo;
    const auto look = [&](StateId state) {
      if (is_[static_cast<size_t>(state)] || !Ends(state)) return;
      is_[static_cast<size_t>(state)] = true;
      todo.push_back(state);
    };
    for (size_t i = 0; i < grammar.states.size(); ++i) look(static_cast<StateId>(i));
    while (!todo.empty()) {
      const StateId state = todo.back();
      todo.pop_back();
      for (const StateId user : users_[static_cast<size_t>(state)]) look(user);
    }
  }

  bool State(StateId state) const { return is_[static_cast<size_t>(state)]; }
  bool Rule(RuleId rule) const { return State(StartOf(rule)); }

 private:
  StateId StartOf(RuleId rule) const { return grammar_.rules[static_cast<size_t>(rule)]; }
  void Uses(StateId user, StateId used) { users_[static_cast<size_t>(used)].push_back(user); }
  bool Ends(StateId state) const {
    const GrammarState& s = grammar_.states[static_cast<size_t>(state)];
    if (s.is_final) return true;
    if (s.repeat.rule >= 0 && s.repeat.min <= s.repeat.max && State(s.repeat.exit) &&
        (s.repeat.min == 0 || Rule(s.repeat.rule))) {
      return true;
    }
    return std::ranges::any_of(s.reads, [&](const auto& read) { return State(read.to); }) ||
           std::ranges::any_of(s.skips, [&](StateId to) { return State(to); }) ||
           std::ranges::any_of(s.calls,
                               [&](const auto& call) { return State(call.to) && Rule(call.rule); });
  }

  const Grammar& grammar_;
  std::vector<bool> is_;
  std::vector<std::vector<StateId>> users_;
};

}  // namespace

Result<Grammar> GrammarBuilder::Finish(RuleId root) && {
  // The template has two line ends between a thought and the answer.
  grammar_.root = root;
  grammar_.after_thought = NewRule();
  const StateId end = NewFinal();
  StateId state = StartOf(grammar_.after_thought);
  for (int i = 0; i < 2; ++i) {
    Call(state, root, end);
    state = Text(state, "\n");
  }
  Call(state, root, end);
  if (overflowed_) {
    return OutOfRangeError(fmt::format("it needs more than {} states", max_states_));
  }
  const Productive productive(grammar_);
  if (!productive.Rule(root)) return InvalidArgumentError("no value satisfies it");
  for (GrammarState& s : grammar_.states) {
    std::erase_if(s.reads, [&](const auto& read) { return !productive.State(read.to); });
    std::erase_if(s.skips, [&](StateId to) { return !productive.State(to); });
    std::erase_if(s.calls, [&](const auto& call) {
      return !productive.State(call.to) || !productive.Rule(call.rule);
    });
    if (s.repeat.rule < 0) continue;
    const bool element = productive.Rule(s.repeat.rule);
    if (!productive.State(s.repeat.exit) || s.repeat.min > s.repeat.max ||
        (!element && s.repeat.min > 0)) {
      s.repeat = {};
    } else if (!element) {
      s.skips.push_back(s.repeat.exit);
      s.repeat = {};
    }
  }
  return std::move(grammar_);
}

}  // namespace holdfast

#include "grammar/grammar_machine.h"

#include <algorithm>
#include <set>

namespace holdfast {

GrammarMachine::GrammarMachine(const Grammar* grammar) : grammar_(*grammar) { Clear(); }

void GrammarMachine::Clear() {
  positions_.clear();
  known_.clear();
  frames_.assign(2, Place());  // kNoCaller, kUnknownCaller
  known_frames_.clear();
  overflowed_ = false;
  bytes_ = 0;
}

GrammarMachine::Position GrammarMachine::Start(RuleId rule) {
  return Of({{grammar_.rules[static_cast<size_t>(rule)], 0, kNoCaller}});
}

int32_t GrammarMachine::Push(Place caller) {
  const auto [it, added] = known_frames_.emplace(caller, static_cast<int32_t>(frames_.size()));
  if (added) {
    frames_.push_back(caller);
    bytes_ += 80;
    if (frames_.size() > kMaxFrames) overflowed_ = true;
  }
  return it->second;
}

// The rule of `place` ends: goes on in its caller. False when there is none.
bool GrammarMachine::Pop(Place* place, bool* complete, bool* left) const {
  if (place->stack == kNoCaller) {
    *complete = true;
    return false;
  }
  if (place->stack == kUnknownCaller) {
    *left = true;
    return false;
  }
  *place = frames_[static_cast<size_t>(place->stack)];
  return true;
}

// Adds where `place` really stands: states in which nothing is read are passed.
void GrammarMachine::Settle(Place place, std::vector<Place>* places, bool* complete,
                            bool* left) const {
  while (state(place.state).only_ends()) {
    if (!Pop(&place, complete, left)) return;
  }
  const GrammarState& s = state(place.state);
  const bool only_skips = !s.is_final && s.reads.empty() && s.calls.empty() && s.repeat.rule < 0;
  if (only_skips && places->size() < kMaxPlaces) {
    for (const StateId to : s.skips) Settle({to, 0, place.stack}, places, complete, left);
  } else {
    places->push_back(place);
  }
}

GrammarMachine::Position GrammarMachine::Of(std::vector<Place> places) {
  std::vector<Place> settled;
  bool complete = false, left = false;
  for (const Place& place : places) Settle(place, &settled, &complete, &left);
  return Intern(std::move(settled), complete, left);
}

GrammarMachine::Position GrammarMachine::Intern(std::vector<Place> places, bool complete,
                                                bool left) {
  if (places.empty() && !complete && !left) return kNowhere;
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());
  if (places.size() > kMaxPlaces || positions_.size() > kMaxPositions) overflowed_ = true;
  if (overflowed_) return kNowhere;
  const auto [it, added] =
      known_.emplace(Key{places, complete, left}, static_cast<Position>(positions_.size()));
  if (added) {
    bytes_ += static_cast<int64_t>(2 * places.size() * sizeof(Place) + sizeof(Node) + 100);
    positions_.push_back(std::make_unique<Node>());
    positions_.back()->places = std::move(places);
    positions_.back()->complete = complete;
    positions_.back()->left = left;
  }
  return it->second;
}

// Everything that can be read from the places of `node`.
void GrammarMachine::Close(Node* node) {
  node->closed = true;
  std::set<Place> seen;
  std::vector<Place> todo = node->places;
  const auto visit = [&](Place place) {
    if (seen.size() > kMaxPlaces) overflowed_ = true;
    if (!overflowed_ && seen.insert(place).second) todo.push_back(place);
  };
  seen.insert(todo.begin(), todo.end());
  // Where a call returns only to end, its rule returns to the caller's caller at once: recursion
  // at the end of a rule needs no deeper stack.
  const auto call = [&](RuleId rule, Place back) {
    const int32_t stack = state(back.state).only_ends() ? back.stack : Push(back);
    visit({grammar_.rules[static_cast<size_t>(rule)], 0, stack});
  };
  while (!todo.empty()) {
    Place place = todo.back();
    todo.pop_back();
    const GrammarState& s = state(place.state);
    for (const auto& read : s.reads) {
      node->moves.push_back({read.low, read.high, {read.to, 0, place.stack}});
    }
    for (const StateId to : s.skips) visit({to, 0, place.stack});
    for (const auto& c : s.calls) call(c.rule, {c.to, 0, place.stack});
    if (s.repeat.rule >= 0) {
      if (place.count >= s.repeat.min) visit({s.repeat.exit, 0, place.stack});
      if (place.count < s.repeat.max) {
        // Without an upper limit only the lower one needs counting.
        const bool counted = s.repeat.max != kUnlimited || place.count < s.repeat.min;
        call(s.repeat.rule, {place.state, place.count + (counted ? 1 : 0), place.stack});
      }
    }
    if (s.is_final && Pop(&place, &node->complete, &node->left)) visit(place);
  }
  bytes_ += static_cast<int64_t>(node->moves.size() * sizeof(Move));
}

bool GrammarMachine::complete(Position position) {
  Node& node = *positions_[static_cast<size_t>(position)];
  if (!node.closed) Close(&node);
  return node.complete;
}

bool GrammarMachine::left(Position position) {
  Node& node = *positions_[static_cast<size_t>(position)];
  if (!node.closed) Close(&node);
  return node.left;
}

GrammarMachine::Position GrammarMachine::Compute(Position from, Symbol symbol) {
  Node& node = *positions_[static_cast<size_t>(from)];
  if (!node.closed) Close(&node);
  std::vector<Place> places;
  bool complete = false, left = false;
  for (const Move& move : node.moves) {
    if (move.low <= symbol && symbol <= move.high) Settle(move.to, &places, &complete, &left);
  }
  return Intern(std::move(places), complete, left);
}

GrammarMachine::Position GrammarMachine::Step(Position from, Symbol symbol) {
  if (from == kNowhere) return kNowhere;
  Node& node = *positions_[static_cast<size_t>(from)];
  if (node.all != nullptr) {
    if (const Position known = node.all[symbol]; known != kUnknown) return known;
  } else {
    for (const auto& [known_symbol, to] : node.few) {
      if (known_symbol == symbol) return to;
    }
  }
  const Position to = Compute(from, symbol);
  if (overflowed_) return kNowhere;
  if (node.all == nullptr && node.few.size() < kFewSteps) {
    node.few.emplace_back(symbol, to);
    return to;
  }
  if (node.all == nullptr) {
    node.all = std::make_unique<Position[]>(kSymbols);
    std::fill_n(node.all.get(), kSymbols, kUnknown);
    for (const auto& [known_symbol, known] : node.few) node.all[known_symbol] = known;
    bytes_ += kSymbols * static_cast<int64_t>(sizeof(Position));
  }
  node.all[symbol] = to;
  return to;
}

int32_t GrammarMachine::OutermostCount(Position position) const {
  int32_t least = kUnlimited;
  for (Place place : places(position)) {
    while (place.stack != kUnknownCaller) place = frames_[static_cast<size_t>(place.stack)];
    least = std::min(least, place.count);
  }
  return least;
}

}  // namespace holdfast

#ifndef HOLDFAST_GRAMMAR_GRAMMAR_MACHINE_H_
#define HOLDFAST_GRAMMAR_GRAMMAR_MACHINE_H_

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "grammar/grammar.h"

namespace holdfast {

// Runs a grammar over symbols. All places that a text can have led to, each with the calls it
// stands in, are one *position*; positions and the steps between them are made when first needed
// and remembered, so that most steps are one look into a table.
class GrammarMachine {
 public:
  using Position = int32_t;
  static constexpr Position kNowhere = -1;  // no text of the grammar begins like this

  // One place of a position.
  struct Place {
    StateId state = 0;
    int32_t count = 0;  // of a repeat
    int32_t stack = 0;  // of the calls it stands in
    auto operator<=>(const Place&) const = default;
  };

  // `grammar` must outlive this object.
  explicit GrammarMachine(const Grammar* grammar);

  // The beginning of every text of a rule.
  Position Start(RuleId rule);
  // A position of these places.
  Position Of(std::vector<Place> places);
  // A place of which it is not known what it was called by.
  Place Alone(StateId state) const { return {state, 0, kUnknownCaller}; }

  Position Step(Position from, Symbol symbol);
  // The text may end here.
  bool complete(Position position);
  // A rule has ended whose caller is not known: what follows depends on that.
  bool left(Position position);
  const std::vector<Place>& places(Position position) const {
    return positions_[static_cast<size_t>(position)]->places;
  }
  // The least count with which the outermost repeat has been entered, of an Alone() one.
  int32_t OutermostCount(Position position) const;

  size_t n_positions() const { return positions_.size(); }
  // Past its bounds no more positions are made and every step leads nowhere, until Clear().
  bool overflowed() const { return overflowed_; }
  // Forgets everything. Positions given so far are no longer valid.
  void Clear();
  int64_t bytes() const { return bytes_; }

 private:
  static constexpr int32_t kNoCaller = 0, kUnknownCaller = 1;
  static constexpr size_t kMaxPositions = 1 << 16, kMaxFrames = 1 << 20, kMaxPlaces = 4096;
  static constexpr size_t kFewSteps = 8;

  struct Move {
    Symbol low = 0, high = 0;
    Place to;
  };
  struct Node {
    std::vector<Place> places;
    bool complete = false, left = false;
    bool closed = false;  // moves are there
    std::vector<Move> moves;
    std::vector<std::pair<Symbol, Position>> few;  // steps known, the first ones
    std::unique_ptr<Position[]> all;               // by symbol, kUnknown: not yet
  };
  using Key = std::tuple<std::vector<Place>, bool, bool>;
  static constexpr Position kUnknown = -2;

  const GrammarState& state(StateId id) const { return grammar_.states[static_cast<size_t>(id)]; }
  int32_t Push(Place caller);
  bool Pop(Place* place, bool* complete, bool* left) const;
  void Settle(Place place, std::vector<Place>* places, bool* complete, bool* left) const;
  Position Intern(std::vector<Place> places, bool complete, bool left);
  void Close(Node* node);
  Position Compute(Position from, Symbol symbol);

  const Grammar& grammar_;
  std::vector<std::unique_ptr<Node>> positions_;
  std::map<Key, Position> known_;
  std::vector<Place> frames_;  // what a stack's top returns to, and the stack below it
  std::map<Place, int32_t> known_frames_;
  bool overflowed_ = false;
  int64_t bytes_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_GRAMMAR_GRAMMAR_MACHINE_H_

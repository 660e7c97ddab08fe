#ifndef HOLDFAST_GRAMMAR_TOKEN_GRAMMAR_H_
#define HOLDFAST_GRAMMAR_TOKEN_GRAMMAR_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "grammar/grammar.h"
#include "grammar/grammar_machine.h"
#include "grammar/token_mask.h"
#include "grammar/token_trie.h"

namespace holdfast {

// A grammar over a vocabulary: which tokens may follow. Shared by all requests that use it; what
// one has worked out the others find.
//
// Where a string may go on, nearly every token may. So for those places it is worked out once, for
// a place alone, which tokens fit whatever surrounds it; only the few that end the string are then
// looked at in each surrounding.
//
// Threads: any.
class TokenGrammar {
 public:
  TokenGrammar(Grammar grammar, std::shared_ptr<const TokenTrie> trie);
  TokenGrammar(const TokenGrammar&) = delete;
  TokenGrammar& operator=(const TokenGrammar&) = delete;

  // What one grammar remembers of what it has worked out: beyond it that is forgotten, between two
  // tokens, and worked out again when needed.
  static constexpr int64_t kMaxWorkedOutBytes = 32 << 20;

  // Works out ahead what its strings need, which is what takes long, until about `most` has passed.
  // Nobody who uses the grammar waits for it; what they find is the same with and without it.
  void Prepare(std::chrono::milliseconds most);

  const TokenTrie& trie() const { return *trie_; }
  // The vocabulary's trie not counted, which all grammars share.
  int64_t bytes() const;

 private:
  friend class Constraint;
  using Position = GrammarMachine::Position;
  using Place = GrammarMachine::Place;

  // Tokens behind a place alone.
  struct Table {
    TokenMask fit;               // they never leave it
    std::vector<TokenId> leave;  // they fit as far as it goes, and go on behind it
    // Of a repeat, with what they repeat most first: how often, and the tokens that fit.
    std::vector<std::pair<int32_t, TokenId>> by_count;

    int64_t bytes() const;
  };

  // With any machine of this grammar.
  Table ComputeTable(StateId state, GrammarMachine* machine) const;
  // The places that tables are of, in about the order of a text.
  std::vector<StateId> TableStates() const;

  // All with mutex_ held.
  Position After(Position position, TokenId token);
  std::shared_ptr<const TokenMask> MaskAt(Position position);
  TokenMask ComputeMask(Position position);
  const Table& TableOf(StateId state);
  bool AddTable(const Place& place, TokenMask* mask, std::vector<TokenId>* to_check);
  void AddWalk(Position position, TokenMask* mask);
  void ClearWhenLarge();
  int64_t WorkedOutBytes() const;

  Grammar grammar_;
  std::map<RuleId, StateId> probes_;  // states that repeat a rule and count how often
  const std::shared_ptr<const TokenTrie> trie_;
  mutable std::mutex mutex_;
  GrammarMachine machine_;  // guarded by mutex_, as all below
  std::unordered_map<StateId, Table> tables_;
  int64_t table_bytes_ = 0;
  std::unordered_map<Position, std::shared_ptr<const TokenMask>> masks_;
  uint64_t epoch_ = 0;  // of the machine's positions
};

// Where one reply stands in a grammar.
//
// Threads: one at a time.
class Constraint {
 public:
  // `in_thought`: the reply begins inside a think block, and the grammar behind it.
  Constraint(std::shared_ptr<TokenGrammar> grammar, bool in_thought);

  // The tokens that may come next, never none. Valid until the next call of Mask or Advance.
  // kResourceExhausted when the grammar is more ambiguous than its bounds allow.
  Result<const TokenMask*> Mask();
  // `token` has come. False when the mask did not have it; nothing may follow then.
  bool Advance(TokenId token);
  // How many of `tokens`, from the front, may come one after the other. Nothing has come then.
  int64_t CountAllowed(std::span<const TokenId> tokens);
  bool in_thought() const { return in_thought_; }

 private:
  void CatchUp();

  const std::shared_ptr<TokenGrammar> grammar_;
  bool in_thought_;
  const bool after_thought_;
  std::vector<TokenId> tokens_;  // of the grammar so far
  TokenGrammar::Position position_ = GrammarMachine::kNowhere;
  uint64_t epoch_ = 0;  // of position_; 0: none
  std::shared_ptr<const TokenMask> mask_;
};

}  // namespace holdfast

#endif  // HOLDFAST_GRAMMAR_TOKEN_GRAMMAR_H_

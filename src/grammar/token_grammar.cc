#include "grammar/token_grammar.h"

#include <algorithm>
#include <set>

namespace holdfast {
namespace {

// Beyond these what was worked out is forgotten and worked out again when needed.
constexpr size_t kManyPositions = 1 << 14, kManyTables = 256, kManyMasks = 256;
// More tokens than this are not looked at one by one.
constexpr size_t kManyChecks = 4096;

constexpr int32_t kCounting = kUnlimited - 1;

}  // namespace

TokenGrammar::TokenGrammar(Grammar grammar, std::shared_ptr<const TokenTrie> trie)
    : grammar_(std::move(grammar)), trie_(std::move(trie)), machine_(&grammar_), epoch_(1) {
  const size_t n_states = grammar_.states.size();
  for (size_t i = 0; i < n_states; ++i) {
    const GrammarState::Repeat repeat = grammar_.states[i].repeat;
    if (repeat.rule < 0 || !grammar_.states[i].in_text || probes_.contains(repeat.rule)) continue;
    const StateId probe = static_cast<StateId>(grammar_.states.size());
    grammar_.states.resize(grammar_.states.size() + 2);
    grammar_.states[static_cast<size_t>(probe)].repeat = {
        .rule = repeat.rule, .min = 0, .max = kCounting, .exit = probe + 1};
    grammar_.states[static_cast<size_t>(probe) + 1].is_final = true;
    probes_[repeat.rule] = probe;
  }
}

int64_t TokenGrammar::bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t bytes = WorkedOutBytes();
  for (const GrammarState& s : grammar_.states) {
    bytes += static_cast<int64_t>(sizeof(s) + s.reads.size() * sizeof(s.reads[0]) +
                                  s.calls.size() * sizeof(s.calls[0]) + s.skips.size() * 4);
  }
  return bytes;
}

int64_t TokenGrammar::WorkedOutBytes() const {
  const int64_t mask_bytes = trie_->vocab_size() / 8;
  return machine_.bytes() + table_bytes_ + static_cast<int64_t>(masks_.size()) * mask_bytes;
}

TokenGrammar::Position TokenGrammar::After(Position position, TokenId token) {
  const std::vector<Symbol> symbols = trie_->SymbolsOf(token);
  if (symbols.empty()) return GrammarMachine::kNowhere;
  for (const Symbol symbol : symbols) position = machine_.Step(position, symbol);
  return position;
}

void TokenGrammar::ClearWhenLarge() {
  if (machine_.n_positions() < kManyPositions && tables_.size() < kManyTables &&
      masks_.size() < kManyMasks && WorkedOutBytes() <= kMaxWorkedOutBytes &&
      !machine_.overflowed()) {
    return;
  }
  machine_.Clear();
  tables_.clear();
  table_bytes_ = 0;
  masks_.clear();
  ++epoch_;
}

// Adds every token that leads somewhere from `position`.
void TokenGrammar::AddWalk(Position position, TokenMask* mask) {
  const auto& nodes = trie_->nodes();
  std::vector<Position> path(static_cast<size_t>(trie_->max_depth()) + 1);
  path[0] = position;
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const Position next = machine_.Step(path[node.depth - 1u], node.symbol);
    if (next == GrammarMachine::kNowhere) {
      i = node.end;
      continue;
    }
    path[node.depth] = next;
    if (node.token >= 0) mask->Add(node.token);
    ++i;
  }
}

int64_t TokenGrammar::Table::bytes() const {
  return static_cast<int64_t>(fit.words().size() * sizeof(uint64_t) +
                              leave.size() * sizeof(leave[0]) +
                              by_count.size() * sizeof(by_count[0]));
}

const TokenGrammar::Table& TokenGrammar::TableOf(StateId state) {
  auto it = tables_.find(state);
  if (it == tables_.end()) {
    it = tables_.emplace(state, ComputeTable(state, &machine_)).first;
    table_bytes_ += it->second.bytes();
  }
  return it->second;
}

TokenGrammar::Table TokenGrammar::ComputeTable(StateId state, GrammarMachine* machine) const {
  Table table;
  table.fit = TokenMask(trie_->vocab_size());
  const bool counts = grammar_.states[static_cast<size_t>(state)].repeat.rule >= 0;
  const auto& nodes = trie_->nodes();
  std::vector<Position> path(static_cast<size_t>(trie_->max_depth()) + 1);
  // How many of the path's positions, from the top, come with a way out of the place.
  std::vector<bool> may_leave(path.size());
  path[0] = machine->Of({machine->Alone(state)});
  if (path[0] == GrammarMachine::kNowhere) return table;  // what can never be completed
  may_leave[0] = machine->left(path[0]);
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const size_t depth = node.depth;
    const bool out = may_leave[depth - 1];
    const Position next = machine->Step(path[depth - 1], node.symbol);
    if (next == GrammarMachine::kNowhere && !out) {
      i = node.end;
      continue;
    }
    path[depth] = next;
    may_leave[depth] = out || (next != GrammarMachine::kNowhere && machine->left(next));
    if (node.token >= 0) {
      if (next == GrammarMachine::kNowhere) {
        table.leave.push_back(node.token);
      } else {
        table.fit.Add(node.token);
        if (counts) table.by_count.emplace_back(machine->OutermostCount(next), node.token);
      }
    }
    ++i;
  }
  std::ranges::sort(table.by_count, std::greater());
  return table;
}

std::vector<StateId> TokenGrammar::TableStates() const {
  std::vector<StateId> states;
  std::set<StateId> seen;
  for (size_t i = 0; i < grammar_.states.size(); ++i) {
    const GrammarState& s = grammar_.states[i];
    if (!s.in_text) continue;
    const StateId state = s.repeat.rule < 0 ? static_cast<StateId>(i) : probes_.at(s.repeat.rule);
    if (seen.insert(state).second) states.push_back(state);
  }
  return states;
}

void TokenGrammar::Prepare(std::chrono::milliseconds most) {
  const auto end = std::chrono::steady_clock::now() + most;
  GrammarMachine machine(&grammar_);
  for (const StateId state : TableStates()) {
    {
      const std::lock_guard lock(mutex_);
      if (tables_.contains(state)) continue;
      // Half of what may be kept is left for what the replies come to.
      if (tables_.size() >= kManyTables / 2 || WorkedOutBytes() >= kMaxWorkedOutBytes / 2) break;
    }
    Table table = ComputeTable(state, &machine);
    if (machine.overflowed()) break;
    if (machine.n_positions() >= kManyPositions) machine.Clear();
    const std::lock_guard lock(mutex_);
    const int64_t n_bytes = table.bytes();
    if (tables_.emplace(state, std::move(table)).second) table_bytes_ += n_bytes;
    if (std::chrono::steady_clock::now() >= end) return;
  }
  const std::lock_guard lock(mutex_);
  for (const RuleId rule : {grammar_.root, grammar_.after_thought}) {
    const Position start = machine_.Start(rule);
    if (start != GrammarMachine::kNowhere) MaskAt(start);
  }
}

// Adds the tokens behind a place in a string. False when that is better found out by a walk.
bool TokenGrammar::AddTable(const Place& place, TokenMask* mask, std::vector<TokenId>* to_check) {
  const GrammarState::Repeat& repeat = grammar_.states[static_cast<size_t>(place.state)].repeat;
  if (repeat.rule < 0) {
    const Table& table = TableOf(place.state);
    mask->Add(table.fit);
    to_check->insert(to_check->end(), table.leave.begin(), table.leave.end());
    return true;
  }
  const Table& table = TableOf(probes_.at(repeat.rule));
  const int32_t room = repeat.max == kUnlimited ? kUnlimited : repeat.max - place.count;
  const auto fitting = std::ranges::find_if(
      table.by_count, [&](const auto& counted) { return counted.first <= room; });
  const size_t n_too_long = static_cast<size_t>(fitting - table.by_count.begin());
  if (n_too_long > kManyChecks) return false;
  TokenMask fit = table.fit;
  for (auto it = table.by_count.begin(); it != fitting; ++it) {
    fit.Remove(it->second);
    to_check->push_back(it->second);
  }
  mask->Add(fit);
  to_check->insert(to_check->end(), table.leave.begin(), table.leave.end());
  return true;
}

TokenMask TokenGrammar::ComputeMask(Position position) {
  TokenMask mask(trie_->vocab_size());
  std::vector<Place> others;
  std::vector<TokenId> to_check;
  const std::vector<Place> places = machine_.places(position);
  for (const Place& place : places) {
    const bool in_text = grammar_.states[static_cast<size_t>(place.state)].in_text;
    if (!in_text || !AddTable(place, &mask, &to_check)) others.push_back(place);
  }
  if (!others.empty()) AddWalk(machine_.Of(std::move(others)), &mask);
  for (const TokenId token : to_check) {
    if (!mask.Has(token) && After(position, token) != GrammarMachine::kNowhere) mask.Add(token);
  }
  if (machine_.complete(position)) {
    for (const TokenId token : trie_->end_tokens()) mask.Add(token);
  }
  return mask;
}

std::shared_ptr<const TokenMask> TokenGrammar::MaskAt(Position position) {
  auto& mask = masks_[position];
  if (mask == nullptr) mask = std::make_shared<const TokenMask>(ComputeMask(position));
  return mask;
}

Constraint::Constraint(std::shared_ptr<TokenGrammar> grammar, bool in_thought)
    : grammar_(std::move(grammar)), in_thought_(in_thought), after_thought_(in_thought) {}

// Finds the position again when the grammar has forgotten it.
void Constraint::CatchUp() {
  grammar_->ClearWhenLarge();
  if (epoch_ == grammar_->epoch_) return;
  epoch_ = grammar_->epoch_;
  const Grammar& grammar = grammar_->grammar_;
  position_ = grammar_->machine_.Start(after_thought_ ? grammar.after_thought : grammar.root);
  for (const TokenId token : tokens_) position_ = grammar_->After(position_, token);
}

Result<const TokenMask*> Constraint::Mask() {
  if (in_thought_) return &grammar_->trie().thinking();
  const std::lock_guard lock(grammar_->mutex_);
  CatchUp();
  if (position_ != GrammarMachine::kNowhere) mask_ = grammar_->MaskAt(position_);
  if (position_ == GrammarMachine::kNowhere || grammar_->machine_.overflowed()) {
    return ResourceExhaustedError("the grammar of this reply is too ambiguous");
  }
  return mask_.get();
}

bool Constraint::Advance(TokenId token) {
  if (in_thought_) {
    if (token == grammar_->trie().think_end()) in_thought_ = false;
    return grammar_->trie().thinking().Has(token);
  }
  const std::lock_guard lock(grammar_->mutex_);
  CatchUp();
  if (position_ == GrammarMachine::kNowhere) return false;
  if (std::ranges::binary_search(grammar_->trie().end_tokens(), token)) {
    return grammar_->machine_.complete(position_);
  }
  tokens_.push_back(token);
  position_ = grammar_->After(position_, token);
  return position_ != GrammarMachine::kNowhere;
}

int64_t Constraint::CountAllowed(std::span<const TokenId> tokens) {
  const TokenTrie& trie = grammar_->trie();
  const std::lock_guard lock(grammar_->mutex_);
  CatchUp();
  bool in_thought = in_thought_;
  TokenGrammar::Position position = position_;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (in_thought) {
      if (!trie.thinking().Has(tokens[i])) return static_cast<int64_t>(i);
      if (tokens[i] == trie.think_end()) in_thought = false;
      continue;
    }
    if (position == GrammarMachine::kNowhere) return static_cast<int64_t>(i);
    if (std::ranges::binary_search(trie.end_tokens(), tokens[i])) {
      // Nothing follows an end.
      return static_cast<int64_t>(i) + (grammar_->machine_.complete(position) ? 1 : 0);
    }
    position = grammar_->After(position, tokens[i]);
    if (position == GrammarMachine::kNowhere) return static_cast<int64_t>(i);
  }
  return static_cast<int64_t>(tokens.size());
}

}  // namespace holdfast

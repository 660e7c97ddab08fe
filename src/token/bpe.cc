#include "token/bpe.h"

#include <queue>

namespace holdfast {
namespace {

// A symbol of a piece while it is merged, in a linked list; len 0: taken by its left neighbour.
struct Symbol {
  TokenId id;
  int32_t len;
  int32_t previous, next;  // -1: none
};

// A pair that could be merged when it was queued; stale if either side has changed since.
struct Candidate {
  int32_t rank;
  int32_t left;  // index of the left symbol; the right one is its neighbour
  TokenId left_id, right_id, merged;

  bool operator<(const Candidate& other) const {  // a max-heap: lowest rank, then leftmost, on top
    return rank != other.rank ? rank > other.rank : left > other.left;
  }
};

}  // namespace

Bpe::Bpe(const std::array<TokenId, 256>& byte_ids, const std::vector<BpeMerge>& merges)
    : byte_ids_(byte_ids), shards_(std::make_unique<std::array<Shard, kShards>>()) {
  rules_.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const BpeMerge& merge = merges[rank];
    rules_.emplace(Pair(merge.left, merge.right), Rule{static_cast<int32_t>(rank), merge.merged});
  }
}

std::vector<Bpe::Token> Bpe::Merge(std::string_view piece) const {
  const auto n = static_cast<int32_t>(piece.size());
  std::vector<Symbol> symbols(piece.size());
  for (int32_t i = 0; i < n; ++i) {
    const auto byte = static_cast<uint8_t>(piece[static_cast<size_t>(i)]);
    symbols[static_cast<size_t>(i)] = {byte_ids_[byte], 1, i - 1, i + 1 < n ? i + 1 : -1};
  }
  std::priority_queue<Candidate> queue;
  const auto consider = [this, &symbols, &queue](int32_t left) {
    if (left < 0) return;
    const Symbol& a = symbols[static_cast<size_t>(left)];
    if (a.next < 0) return;
    const Symbol& b = symbols[static_cast<size_t>(a.next)];
    const auto rule = rules_.find(Pair(a.id, b.id));
    if (rule == rules_.end()) return;
    queue.push({rule->second.rank, left, a.id, b.id, rule->second.merged});
  };
  for (int32_t i = 0; i + 1 < n; ++i) consider(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& a = symbols[static_cast<size_t>(best.left)];
    if (a.len == 0 || a.id != best.left_id || a.next < 0) continue;
    Symbol& b = symbols[static_cast<size_t>(a.next)];
    if (b.id != best.right_id) continue;
    a.id = best.merged;
    a.len += b.len;
    b.len = 0;
    a.next = b.next;
    if (a.next >= 0) symbols[static_cast<size_t>(a.next)].previous = best.left;
    consider(a.previous);
    consider(best.left);
  }
  std::vector<Token> tokens;
  for (int32_t i = 0; i >= 0 && i < n; i = symbols[static_cast<size_t>(i)].next) {
    tokens.push_back({symbols[static_cast<size_t>(i)].id, i});
  }
  return tokens;
}

void Bpe::Encode(std::string_view piece, std::vector<TokenId>* out,
                 std::vector<int64_t>* begins) const {
  const auto append = [out, begins](const std::vector<Token>& tokens) {
    for (const Token& token : tokens) {
      out->push_back(token.id);
      if (begins != nullptr) begins->push_back(token.begin);
    }
  };
  if (piece.size() > kCachedPieceBytes) return append(Merge(piece));
  std::string key(piece);
  Shard& shard = (*shards_)[std::hash<std::string>()(key) % kShards];
  {
    const std::lock_guard lock(shard.mutex);
    const auto it = shard.pieces.find(key);
    if (it != shard.pieces.end()) return append(it->second);
  }
  std::vector<Token> tokens = Merge(piece);
  append(tokens);
  const std::lock_guard lock(shard.mutex);
  if (shard.pieces.size() >= kShardPieces) shard.pieces.clear();
  shard.pieces.emplace(std::move(key), std::move(tokens));
}

}  // namespace holdfast

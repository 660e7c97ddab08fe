#ifndef HOLDFAST_TOKEN_BPE_H_
#define HOLDFAST_TOKEN_BPE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "token/vocabulary.h"

namespace holdfast {

// One rule: the neighbours `left` and `right` become `merged`. Lower ranks go first.
struct BpeMerge {
  TokenId left = 0;
  TokenId right = 0;
  TokenId merged = 0;
};

// Merges the bytes of a piece into tokens: always the neighbouring pair of lowest rank, the
// leftmost of equal ones, until no pair has a rank. O(n log n) per piece.
//
// Threads: Encode may be called from many threads at once; short pieces are remembered under a
// lock.
class Bpe {
 public:
  // byte_ids: the token of each single byte. The index of a merge is its rank; pairs are unique.
  Bpe(const std::array<TokenId, 256>& byte_ids, const std::vector<BpeMerge>& merges);

  // Appends the tokens of `piece` to `out`; begins (when not null) gets each one's offset in it.
  void Encode(std::string_view piece, std::vector<TokenId>* out,
              std::vector<int64_t>* begins) const;

 private:
  struct Token {
    TokenId id;
    int32_t begin;
  };
  struct Rule {
    int32_t rank;
    TokenId merged;
  };
  struct PairHash {
    size_t operator()(uint64_t pair) const {
      return static_cast<size_t>((pair ^ pair >> 29) * 0x9E3779B97F4A7C15u >> 16);
    }
  };
  // Pieces of ordinary text repeat a lot. A full shard is emptied: simple, and bounded.
  struct Shard {
    std::mutex mutex;
    std::unordered_map<std::string, std::vector<Token>> pieces;  // guarded by mutex
  };
  static constexpr size_t kShards = 16;
  static constexpr size_t kShardPieces = 2048;
  static constexpr size_t kCachedPieceBytes = 48;

  static uint64_t Pair(TokenId left, TokenId right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  std::vector<Token> Merge(std::string_view piece) const;

  std::array<TokenId, 256> byte_ids_;
  std::unordered_map<uint64_t, Rule, PairHash> rules_;
  std::unique_ptr<std::array<Shard, kShards>> shards_;
};

}  // namespace holdfast

#endif  // HOLDFAST_TOKEN_BPE_H_

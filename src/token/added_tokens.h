#ifndef HOLDFAST_TOKEN_ADDED_TOKENS_H_
#define HOLDFAST_TOKEN_ADDED_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "token/vocabulary.h"

namespace holdfast {

// Finds the texts of added tokens: a trie, so that a text costs at most its length times the
// longest added text, whatever a vocabulary holds.
class AddedTokenTrie {
 public:
  struct Match {
    TokenId id = 0;
    size_t n_bytes = 0;
  };

  // `text` is not empty.
  void Add(std::string_view text, TokenId id, bool user_defined);

  // The longest added token at the front of `text`.
  std::optional<Match> Longest(std::string_view text, bool user_defined_only) const;

 private:
  struct End {
    TokenId id = -1;  // -1: no token ends here
    bool user_defined = false;
  };

  std::unordered_map<uint64_t, uint32_t> edges_;  // node << 8 | byte -> node
  std::vector<End> ends_ = {End{}};               // by node; 0 is the root
};

}  // namespace holdfast

#endif  // HOLDFAST_TOKEN_ADDED_TOKENS_H_

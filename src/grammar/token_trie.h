#ifndef HOLDFAST_GRAMMAR_TOKEN_TRIE_H_
#define HOLDFAST_GRAMMAR_TOKEN_TRIE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/token_mask.h"
#include "token/tokenizer.h"

namespace holdfast {

// A vocabulary as a grammar reads it: tokens by the symbols they stand for, in the order of a walk
// through the tree of their beginnings.
class TokenTrie {
 public:
  // `tokenizer` must outlive this object.
  explicit TokenTrie(const Tokenizer* tokenizer);

  struct Node {
    Symbol symbol = 0;
    uint16_t depth = 0;  // symbols up to and with this one; at least 1
    uint32_t end = 0;    // index of the first node that does not begin like this one
    TokenId token = -1;  // that ends here; -1: none
  };
  // Depth first, symbols ascending.
  const std::vector<Node>& nodes() const { return nodes_; }
  int max_depth() const { return max_depth_; }
  int64_t vocab_size() const { return tokenizer_->vocab_size(); }

  // Empty for tokens that no grammar knows (control tokens, unused ones).
  std::vector<Symbol> SymbolsOf(TokenId token) const;
  const std::vector<TokenId>& end_tokens() const { return tokenizer_->end_of_generation(); }
  std::optional<TokenId> think_end() const { return think_end_; }
  // What may stand in a thought: nothing that ends the reply or a turn, or begins a call.
  const TokenMask& thinking() const { return thinking_; }
  int64_t bytes() const;

 private:
  std::optional<TokenId> AddedToken(std::string_view text) const;
  void AddNodes(std::vector<std::pair<std::vector<Symbol>, TokenId>> tokens);

  const Tokenizer* const tokenizer_;
  std::optional<TokenId> call_begin_, call_end_, think_end_;
  std::vector<Node> nodes_;
  int max_depth_ = 0;
  TokenMask thinking_;
};

}  // namespace holdfast

#endif  // HOLDFAST_GRAMMAR_TOKEN_TRIE_H_

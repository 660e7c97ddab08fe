#ifndef HOLDFAST_GRAMMAR_GRAMMAR_CACHE_H_
#define HOLDFAST_GRAMMAR_GRAMMAR_CACHE_H_

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"
#include "grammar/reply_format.h"
#include "grammar/token_grammar.h"
#include "token/tokenizer.h"

namespace holdfast {

// Compiled grammars of a vocabulary, the ones used last: a client sends the same few schemas again
// and again.
//
// Threads: any.
class GrammarCache {
 public:
  static constexpr int64_t kMaxBytes = 64 << 20;  // beyond it those used longest ago are given up
  static constexpr size_t kMaxGrammars = 64;

  // `tokenizer` must outlive this object and what it gives.
  explicit GrammarCache(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {}

  // At most, with what `n_replies` at once may hold; the vocabulary's trie not counted.
  static constexpr int64_t BudgetBytes(int n_replies) {
    return kMaxBytes + n_replies * TokenGrammar::kMaxWorkedOutBytes;
  }
  // Of the grammars kept, now.
  int64_t bytes();

  // The grammar of a format that constrains. Errors: those of CompileFormat.
  Result<std::shared_ptr<TokenGrammar>> Get(const ReplyFormat& format, std::string* where);

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<TokenGrammar> grammar;
  };

  std::shared_ptr<const TokenTrie> Trie();
  // Gives up what is beyond the limits; all but the first may be. Needs mutex_.
  void Trim();

  const Tokenizer* const tokenizer_;
  std::mutex mutex_;
  std::shared_ptr<const TokenTrie> trie_;  // guarded by mutex_, as all below; made when needed
  std::list<Entry> entries_;               // the last used one first
};

}  // namespace holdfast

#endif  // HOLDFAST_GRAMMAR_GRAMMAR_CACHE_H_

#ifndef HOLDFAST_GRAMMAR_GRAMMAR_CACHE_H_
#define HOLDFAST_GRAMMAR_GRAMMAR_CACHE_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/status.h"
#include "grammar/reply_format.h"
#include "grammar/token_grammar.h"
#include "token/tokenizer.h"

namespace holdfast {

// Compiled grammars of a vocabulary, the ones used last: a client sends the same few schemas again
// and again. What a new one's strings need is worked out by a thread of its own, mostly while the
// prompt is still being read.
//
// Threads: any.
class GrammarCache {
 public:
  static constexpr int64_t kMaxBytes = 64 << 20;  // beyond it those used longest ago are given up
  static constexpr size_t kMaxGrammars = 64;

  // `tokenizer` must outlive this object and what it gives.
  explicit GrammarCache(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {}
  ~GrammarCache();
  GrammarCache(const GrammarCache&) = delete;
  GrammarCache& operator=(const GrammarCache&) = delete;

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
  // Has a thread prepare it. Needs mutex_.
  void PrepareLater(const std::shared_ptr<TokenGrammar>& grammar);
  void RunPreparing();
  // Gives up what is beyond the limits; all but the first may be. Needs mutex_.
  void Trim();

  const Tokenizer* const tokenizer_;
  std::mutex mutex_;
  std::shared_ptr<const TokenTrie> trie_;  // guarded by mutex_, as all below; made when needed
  std::list<Entry> entries_;               // the last used one first
  std::deque<std::weak_ptr<TokenGrammar>> to_prepare_;
  bool stop_ = false;
  std::condition_variable wake_;
  std::thread preparing_;  // begun with the first grammar
};

}  // namespace holdfast

#endif  // HOLDFAST_GRAMMAR_GRAMMAR_CACHE_H_

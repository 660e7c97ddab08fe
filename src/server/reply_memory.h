#ifndef HOLDFAST_SERVER_REPLY_MEMORY_H_
#define HOLDFAST_SERVER_REPLY_MEMORY_H_

// What the model generated is never tokenised again: a history that comes back with a reply of ours
// in it gets the very tokens that were generated (a model may spell a text with other tokens than
// the tokenizer would, and its markers are tokens where a history's are text).

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/hash128.h"
#include "server/json.h"
#include "token/vocabulary.h"

namespace holdfast {

// Names a history by its structure: tools, then each message's role, texts and tool calls. Two
// histories with equal names say the same things in the same roles; whether they also render to the
// same text is for the user of the name to check.
class HistoryName {
 public:
  explicit HistoryName(const Json& tools);
  void Add(const Json& message);
  Hash128 value() const { return value_; }

 private:
  Hash128 value_;
};

// Threads: any.
class ReplyMemory {
 public:
  explicit ReplyMemory(int64_t max_tokens = 8 << 20) : max_tokens_(max_tokens) {}

  // All tokens of a history that ends with a generated reply, without its end token. The oldest
  // ones are forgotten beyond max_tokens.
  void Remember(const Hash128& history, std::vector<TokenId> tokens);
  std::shared_ptr<const std::vector<TokenId>> Find(const Hash128& history);

 private:
  using Name = std::pair<uint64_t, uint64_t>;
  struct Entry {
    Name name;
    std::shared_ptr<const std::vector<TokenId>> tokens;
  };

  const int64_t max_tokens_;
  std::mutex mutex_;
  // Guarded by mutex_: most recently used first.
  std::list<Entry> entries_;
  std::map<Name, std::list<Entry>::iterator> by_name_;
  int64_t n_tokens_ = 0;
};

// The assistant message that a client gets, as a history will bring it back.
class ReplyRecorder {
 public:
  void AddReasoning(std::string_view text) { reasoning_ += text; }
  void AddContent(std::string_view text) { content_ += text; }
  void BeginToolCall(std::string name) { calls_.push_back({std::move(name), ""}); }
  void AddArguments(std::string_view text) {
    if (!calls_.empty()) calls_.back().second += text;
  }
  Json Message() const;

 private:
  std::string reasoning_, content_;
  std::vector<std::pair<std::string, std::string>> calls_;  // name, arguments as JSON text
};

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_REPLY_MEMORY_H_

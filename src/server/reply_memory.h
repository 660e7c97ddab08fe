#ifndef HOLDFAST_SERVER_REPLY_MEMORY_H_
#define HOLDFAST_SERVER_REPLY_MEMORY_H_

// What the model generated is never tokenised again: a history that comes back with a reply of ours
// in it gets the very tokens that were generated (a model may spell a text with other tokens than
// the tokenizer would, and its markers are tokens where a history's are text).
//
// A reply is found by the history that it answered, or by the id of one of its tool calls: among
// the latest ones in memory, and in the store, where every saved turn keeps its messages and their
// places among its tokens.

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash128.h"
#include "server/json.h"
#include "store/store.h"
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
  // Names the replies to this history.
  Hash128 answer() const;

 private:
  Hash128 value_;
};

// A reply as it was given.
struct GivenReply {
  Json message;          // of ReplyRecorder
  int64_t n_prompt = 0;  // tokens of the history and the generation prompt before it
  int64_t n_tokens = 0;  // with those of the reply, without its end token
  std::shared_ptr<const std::vector<TokenId>> tokens;  // all of them; null: in the store
  std::string conversation;                            // of the store
};

// Threads: any.
class ReplyMemory {
 public:
  // `store` may be null; otherwise it outlives the memory.
  explicit ReplyMemory(Store* store = nullptr, int64_t max_tokens = 8 << 20)
      : store_(store), max_tokens_(max_tokens) {}

  // `reply.tokens` must be set. The oldest ones are forgotten beyond max_tokens.
  void Remember(const Hash128& answer, GivenReply reply);
  // The reply that an assistant message of a history is, whose messages before it have this
  // answer().
  std::optional<GivenReply> Match(const Hash128& answer, const Json& received);
  // All n_tokens tokens of a reply. kNotFound, kDataLoss.
  Result<std::shared_ptr<const std::vector<TokenId>>> TokensOf(const GivenReply& reply);

 private:
  using Name = std::pair<uint64_t, uint64_t>;
  struct Entry {
    Name name;
    GivenReply reply;
  };
  using Entries = std::list<Entry>;
  void Erase(Entries::iterator entry);
  std::optional<GivenReply> MatchInMemory(const Name& name, const Json& received);
  std::optional<GivenReply> MatchCallInMemory(const std::string& id, const Json& received);

  Store* const store_;
  const int64_t max_tokens_;
  std::mutex mutex_;
  // Guarded by mutex_: most recently used first.
  Entries entries_;
  std::multimap<Name, Entries::iterator> by_name_;
  std::multimap<std::string, Entries::iterator, std::less<>> by_call_;
  int64_t n_tokens_ = 0;
};

// The ids of a message's tool calls.
std::vector<std::string> ToolCallIds(const Json& message);

// The assistant message that a client gets, as a history will bring it back.
class ReplyRecorder {
 public:
  void AddReasoning(std::string_view text) { reasoning_ += text; }
  void AddContent(std::string_view text) { content_ += text; }
  void BeginToolCall(std::string id, std::string name) {
    calls_.push_back({std::move(id), std::move(name), ""});
  }
  void AddArguments(std::string_view text) {
    if (!calls_.empty()) calls_.back().arguments += text;
  }
  Json Message() const;

 private:
  struct Call {
    std::string id, name, arguments;  // arguments: JSON text
  };
  std::string reasoning_, content_;
  std::vector<Call> calls_;
};

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_REPLY_MEMORY_H_

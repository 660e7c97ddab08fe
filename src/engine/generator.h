#ifndef HOLDFAST_ENGINE_GENERATOR_H_
#define HOLDFAST_ENGINE_GENERATOR_H_

// What a server or a command asks of an engine: tokens in, tokens out, with the story of each read.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/draft_policy.h"
#include "engine/sampling_params.h"
#include "state/checkpoint_policy.h"
#include "store/store_types.h"
#include "token/vocabulary.h"

namespace holdfast {

class TokenGrammar;

using RequestId = uint64_t;

enum class Priority {
  kNormal,
  kSide
};  // kSide: a short call that should not wait behind long ones

struct GenerateRequest {
  std::vector<TokenId> prompt;  // at least one token
  SamplingParams sampling;
  int64_t max_tokens = -1;  // -1: until the context is full
  bool ignore_eos = false;  // go on after an end token
  int n_top_logprobs = -1;  // -1: no logprobs; n >= 0: the token's own and the n best
  // Also for the tokens of the prompt (their own at least): nothing of it is reused, all of its
  // rows are computed.
  bool prompt_logprobs = false;
  // Prompt prefixes at which a checkpoint is worth keeping, any order: the end of system and tools,
  // before the generation prompt, cache_control marks.
  std::vector<CheckpointMark> checkpoints;
  std::string conversation;  // id to continue, empty: found by its tokens
  Priority priority = Priority::kNormal;
  // What the reply must be, behind the thinking if the prompt ends in it; null: anything.
  std::shared_ptr<TokenGrammar> grammar;
};

struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0.0f;
};

struct TokenEvent {
  TokenId id = 0;
  int64_t position = 0;           // of this token in the conversation
  float logprob = 0.0f;           // when asked for
  std::vector<TokenLogprob> top;  // best first, when asked for
};

enum class FinishReason { kEndOfTurn, kMaxTokens, kContextFull, kStopped, kCancelled, kError };

enum class ReuseSource { kNone, kLive, kRam, kDisk, kBorrowed };

// How much of the prompt was already there, and why not more.
struct ReuseInfo {
  ReuseSource source = ReuseSource::kNone;
  int64_t tokens_reused = 0;
  int64_t tokens_read = 0;
  // In common with what is kept: those beyond tokens_reused were read again, the rest are new.
  int64_t tokens_known = 0;
  double restore_ms = 0.0;
  int64_t first_difference = -1;      // position in the prompt, -1: none found
  TokenId expected = -1, found = -1;  // the two tokens there, -1: none
  std::string reason;                 // one sentence
  std::string_view limit;             // the same as a word: ReuseLimitName of reuse.h
  std::string conversation;           // whose state it was; empty when nothing was reused
};

struct GenerateTimings {
  double queue_ms = 0.0;
  double prompt_ms = 0.0;   // reading the prompt, up to the first token
  double predict_ms = 0.0;  // from the first token to the last
  int64_t n_prompt = 0;     // prompt tokens, reused ones included
  int64_t n_predicted = 0;
  int64_t n_drafted = 0, n_accepted = 0;
  DraftCounts drafts;
};

struct GenerateResult {
  FinishReason reason = FinishReason::kError;
  Status status;      // why, when reason is kError or kCancelled
  uint64_t seed = 0;  // the one used
  std::string conversation;
  ReuseInfo reuse;
  GenerateTimings timings;
};

enum class SinkAnswer { kContinue, kStop };

// What a conversation says, for whoever lists it, and for finding its tokens again after a restart.
struct TurnRecord {
  std::vector<StoredMessage> messages;  // all of it, with their places among its tokens
  std::string title;                    // for a conversation that has none
};

// Where the tokens of one request go. Called from the engine's thread, in order, never two at a
// time; must not block. OnFinish is the last call, exactly once for each accepted request.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  // Reading goes on: `processed` of `total` prompt tokens are there, `reused` of them for free.
  virtual void OnPromptProgress(int64_t processed, int64_t total, int64_t reused) {
    (void)processed, (void)total, (void)reused;
  }
  // With prompt_logprobs: the tokens of the prompt, in order, some with every step. The first one
  // of all has no logprob: nothing stands before it.
  virtual void OnPromptTokens(std::span<const TokenEvent> tokens) { (void)tokens; }
  // kStop ends the request after this token with FinishReason::kStopped.
  // The end-of-turn token is reported too (its text is empty).
  virtual SinkAnswer OnToken(const TokenEvent& event) = 0;
  // Asked once the last token is there, before OnFinish and before anything is saved: what is to be
  // kept with the conversation. Null: nothing is known of it.
  virtual std::shared_ptr<const TurnRecord> TurnToKeep(FinishReason reason) {
    (void)reason;
    return nullptr;
  }
  virtual void OnFinish(const GenerateResult& result) = 0;
};

class Generator {
 public:
  virtual ~Generator() = default;
  // Queues the request. kInvalidArgument for bad parameters or token ids, kOutOfRange when the
  // prompt does not fit into the context (both numbers named), kUnavailable when the queue is full
  // or the engine is shutting down. Thread-safe.
  virtual Result<RequestId> Submit(GenerateRequest request, std::shared_ptr<RequestSink> sink) = 0;
  // The request finishes soon with kCancelled; what was computed stays resumable. Thread-safe,
  // unknown or finished ids are ignored.
  virtual void Cancel(RequestId id) = 0;
  virtual int64_t context_length() const = 0;
  virtual int64_t vocab_size() const = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_GENERATOR_H_

#ifndef HOLDFAST_SERVER_GENERATION_H_
#define HOLDFAST_SERVER_GENERATION_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "engine/generator.h"
#include "server/model_service.h"
#include "server/reply_assembler.h"
#include "server/reply_memory.h"
#include "server/thinking_budget.h"

namespace holdfast {

struct PromptProgress {
  int64_t processed = 0, total = 0, reused = 0;
};

// A generated token with its log-probabilities, when the request asked for them.
struct TokenDetail {
  struct Choice {
    TokenId id = 0;
    float logprob = 0.0f;
    std::string bytes;  // what the token stands for; may be part of a character
  };
  Choice chosen;
  std::vector<Choice> top;
};

// Tokens of the prompt, when the request asked for their log-probabilities; in order.
struct PromptDetails {
  int64_t first_position = 0;  // of tokens[0]; the token at 0 has no log-probability
  std::vector<TokenDetail> tokens;
};

// The end of a reply; always the last event.
struct FinishedReply {
  GenerateResult result;
  bool has_tool_calls = false;
  std::string stop_matched;  // the stop string that ended it, empty if none did
  int64_t n_reasoning_tokens = 0;
};

using GenerationEvent =
    std::variant<PromptProgress, PromptDetails, TokenDetail, ReplyEvent, FinishedReply>;

// One request in the engine, between the engine's thread, which must not wait, and a connection,
// which may be slow: tokens are parsed and matched against stop strings on the engine's thread (so
// that it stops at once), and the events wait here.
//
// Thinking that reaches its limit is stopped; the reply goes on as a second request of the engine,
// whose prompt is the first one's, what was generated, and the end of the thinking. The engine
// resumes it where it stopped, so that this costs a few tokens; the client sees one reply.
class Generation : public RequestSink, public std::enable_shared_from_this<Generation> {
 public:
  struct Options {
    // Text that may wait for the client; beyond it the client is too slow and the reply ends.
    int64_t max_waiting_bytes = 4 << 20;
    bool progress = false;          // report PromptProgress
    bool single_tool_call = false;  // end the reply with its first tool call
    std::string prefill;            // what the client wrote of the reply itself
    ThinkingBudget thinking;
    int slot = -1;           // the number its conversation is to have (slot_names.h); -1: any
    std::string reuse_note;  // joined to the reason of what was reused
    // Called once, at the end: with the message the client has got and the tokens it was made of
    // (without the end token behind them), or without a message when the reply is none to build on.
    // Gives what is to be kept with the conversation. On the engine's thread.
    std::function<std::shared_ptr<const TurnRecord>(const Json* message,
                                                    const std::vector<TokenId>& tokens)>
        on_end;
  };

  // Errors: those of Generator::Submit.
  static Result<std::shared_ptr<Generation>> Start(std::shared_ptr<const ModelService> model,
                                                   GenerateRequest request,
                                                   ReplyAssembler assembler,
                                                   const Options& options);

  // Called, from any thread, when Take() has something.
  void SetWaker(std::function<void()> wake);
  // All events since the last call.
  std::vector<GenerationEvent> Take();
  // Ends the request soon; its FinishedReply then carries `why`. Only the first call counts.
  void Cancel(Status why);
  // Ends the reply now, without waiting for the engine, whose later events are dropped: for an
  // engine that hangs.
  void Fail(Status why);
  // The conversation that the request names; empty when it names none.
  const std::string& named() const { return named_; }
  // Whether it has ended (its FinishedReply may still wait to be taken).
  bool finished();

  SinkAnswer OnToken(const TokenEvent& event) override;
  std::shared_ptr<const TurnRecord> TurnToKeep(FinishReason reason) override;
  void OnPromptProgress(int64_t processed, int64_t total, int64_t reused) override;
  void OnPromptTokens(std::span<const TokenEvent> tokens) override;
  void OnFinish(const GenerateResult& result) override;

 private:
  Generation(std::shared_ptr<const ModelService> model, ReplyAssembler assembler,
             const Options& options);
  void SetThinkingLimit(const GenerateRequest& request);
  void CloseThinking(GenerateRequest* request, std::vector<GenerationEvent>* events);
  void EndReply(FinishReason reason);
  bool GoOnAfterThinking(const GenerateResult& result);
  void AddEarlierPart(GenerateResult* result) const;
  std::vector<ReplyEvent> Record(std::vector<ReplyEvent> events);
  TokenDetail MakeDetail(const TokenEvent& event) const;
  TokenDetail::Choice MakeChoice(TokenId id, float logprob) const;
  bool Enqueue(std::vector<GenerationEvent> events);

  const std::shared_ptr<const ModelService> model_;
  const Options options_;
  std::string named_;
  ReplyAssembler assembler_;  // the engine's thread only, as all up to mutex_
  ReplyRecorder recorder_;
  std::optional<std::chrono::steady_clock::time_point> last_token_;  // none: no token yet
  std::vector<TokenId> tokens_;                                      // of the reply
  bool ended_ = false;            // the assembler has given everything
  std::vector<ReplyEvent> last_;  // what it gave at the end
  std::shared_ptr<const TurnRecord> record_;
  bool with_logprobs_ = false;
  int64_t thinking_limit_ = -1;            // -1: never closed
  std::vector<TokenId> thinking_end_;      // what closes it
  bool at_thinking_limit_ = false;         // the engine has been told to stop because of it
  GenerateRequest request_;                // the running one, if it may have to be continued
  size_t n_tokens_before_ = 0;             // of tokens_, those in its prompt
  std::optional<GenerateResult> earlier_;  // of the requests before it, put together

  std::mutex mutex_;
  std::vector<GenerationEvent> waiting_;  // guarded by mutex_, as all below
  int64_t waiting_bytes_ = 0;
  std::function<void()> wake_;
  RequestId request_id_ = 0;
  bool submitted_ = false, finished_ = false;
  Status cancelled_;  // why, once it is
};

// Adds what was done to the prompt, if anything, to why it was reused so far.
void AddReuseNote(const std::string& note, std::string* reason);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_GENERATION_H_

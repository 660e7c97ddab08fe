#ifndef HOLDFAST_HOLDFAST_H_
#define HOLDFAST_HOLDFAST_H_

// holdfast inside another program: load a model, submit conversations, stream replies, cancel.
//
// Threads: every method may be called from any thread. Callbacks come from the engine's thread, in
// order for each request, and must not block.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::api {

struct LoadOptions {
  std::string model_path;  // GGUF; of a split model the first part
  std::string mtp_path;    // draft-head sidecar; empty: none, or what the model file has
  int64_t ctx = 0;         // tokens; 0: as trained, or what memory allows
  int threads = 0;         // 0: every CPU this process may use
  int slots = 4;           // conversations that are computed together
  std::string store_dir;   // where conversations are kept across runs; empty: nowhere
};

struct Message {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

struct Request {
  std::vector<Message> messages;  // rendered by the model's own chat template
  std::optional<bool> thinking;   // not set: as the template says
  int64_t max_tokens = -1;        // -1: until the turn ends or the context is full
  float temperature = 0.0f;       // 0 picks the best token
  float top_p = 1.0f;
  int top_k = 0;
  std::optional<uint64_t> seed;
};

struct Outcome {
  std::string error;  // empty: the reply is whole, or ended as the caller wished
  bool cancelled = false;
  int64_t prompt_tokens = 0;
  int64_t reused_tokens = 0;  // prompt tokens that did not have to be read
  int64_t reply_tokens = 0;
  double tokens_per_second = 0.0;
};

struct Callbacks {
  // A piece of the reply, whole UTF-8 characters. False ends the reply here.
  std::function<bool(std::string_view text)> on_text;
  // Exactly once, last.
  std::function<void(const Outcome& outcome)> on_done;
};

using RequestId = uint64_t;

class Engine {
 public:
  // Null with *error set when the model cannot be loaded.
  static std::unique_ptr<Engine> Load(const LoadOptions& options, std::string* error);
  virtual ~Engine() = default;

  // 0 with *error set when the request is refused; no callback is called then.
  virtual RequestId Submit(const Request& request, Callbacks callbacks, std::string* error) = 0;
  // The request ends soon; what was computed of it is kept. Unknown ids are ignored.
  virtual void Cancel(RequestId id) = 0;
  virtual int64_t context_length() const = 0;
};

}  // namespace holdfast::api

#endif  // HOLDFAST_HOLDFAST_H_

#ifndef HOLDFAST_SERVER_MODEL_SERVICE_H_
#define HOLDFAST_SERVER_MODEL_SERVICE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/generator.h"
#include "engine/sampling_params.h"
#include "token/chat_template.h"
#include "token/tokenizer.h"

namespace holdfast {

class Engine;
class GrammarCache;
class ReplyMemory;
class RequestHistory;
class RequestMetrics;
class RunningGenerations;
class SlotNames;

// A setting of the program, for people.
struct Setting {
  std::string name;    // "--ctx"
  std::string value;   // as text; of secrets only whether there is one
  std::string source;  // "flag", "environment", "file" or "default"
};

// A loaded model as the APIs use it. The pointers outlive the service.
struct ModelService {
  Generator* generator = nullptr;
  const Tokenizer* tokenizer = nullptr;
  const ChatTemplate* chat_template = nullptr;
  std::string model_id;                   // what /v1/models and every response call it
  SamplingParams default_sampling;        // of the model file and the flags; a request overrides it
  int64_t created_s = 0;                  // UNIX time of loading
  Engine* engine = nullptr;               // the generator, when it is a real one
  std::shared_ptr<ReplyMemory> replies;   // may be null: histories are tokenised as text
  RunningGenerations* running = nullptr;  // told of every request; may be null
  std::shared_ptr<RequestHistory> history;  // told of every request's end; may be null
  std::shared_ptr<RequestMetrics> metrics;  // as well; may be null
  std::shared_ptr<SlotNames> slots;         // told of every request's end; may be null
  std::vector<Setting> settings;            // what the program was started with
  std::shared_ptr<GrammarCache> grammars;   // of formats that replies must have; may be null
  bool pin_billing_line = true;             // see billing_line.h
  int64_t n_restarts = 0;                   // of the engine, after steps that did not end
};

// Whether there is a model yet, and how far loading is. Thread-safe.
class ModelState {
 public:
  struct Progress {
    std::string phase;      // "reading weights"
    double fraction = 0.0;  // of the whole load, 0 to 1
  };

  // Null until Set().
  std::shared_ptr<const ModelService> service() const;
  void Set(std::shared_ptr<const ModelService> service);

  Progress progress() const;
  void SetProgress(Progress progress);

  // Why there will be no model (loading failed, or the engine had to be given up).
  Status failure() const;
  void SetFailure(Status failure);

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const ModelService> service_;  // guarded by mutex_, as all below
  Progress progress_{"starting", 0.0};
  Status failure_;
};

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_MODEL_SERVICE_H_

#ifndef HOLDFAST_SERVER_RUNNING_GENERATIONS_H_
#define HOLDFAST_SERVER_RUNNING_GENERATIONS_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/status.h"

namespace holdfast {

class Generation;

// The requests that are in the engine, for whoever has to end them from outside. Thread-safe.
class RunningGenerations {
 public:
  void Add(const std::shared_ptr<Generation>& generation);
  // How many there are.
  int count();
  // Fails every request (Generation::Fail). Returns how many.
  int FailAll(const Status& why);
  // Called whenever the engine says anything about any request.
  void OnEngineEvent();
  // Time since then, or since the first request came to an idle engine; none when no request is
  // unfinished. The engine reports every part of a prompt and every token, so this is the age of
  // its last step.
  std::optional<std::chrono::milliseconds> silence();

 private:
  // The live ones; forgets the others.
  std::vector<std::shared_ptr<Generation>> Live();

  std::atomic<std::chrono::steady_clock::time_point> last_event_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::vector<std::weak_ptr<Generation>> generations_;  // guarded by mutex_
};

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_RUNNING_GENERATIONS_H_

#ifndef HOLDFAST_SERVER_RUNNING_GENERATIONS_H_
#define HOLDFAST_SERVER_RUNNING_GENERATIONS_H_

#include <chrono>
#include <memory>
#include <mutex>
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
  // Fails and cancels those of which the engine has said nothing for `bound`. Returns how many.
  int FailSilent(std::chrono::milliseconds bound, const Status& why);

 private:
  // The live ones; forgets the others.
  std::vector<std::shared_ptr<Generation>> Live();

  std::mutex mutex_;
  std::vector<std::weak_ptr<Generation>> generations_;  // guarded by mutex_
};

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_RUNNING_GENERATIONS_H_

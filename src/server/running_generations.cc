#include "server/running_generations.h"

#include <algorithm>

#include "server/generation.h"

namespace holdfast {

void RunningGenerations::Add(const std::shared_ptr<Generation>& generation) {
  std::lock_guard lock(mutex_);
  std::erase_if(generations_, [](const auto& weak) { return weak.expired(); });
  generations_.push_back(generation);
}

std::vector<std::shared_ptr<Generation>> RunningGenerations::Live() {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Generation>> live;
  for (const auto& weak : generations_) {
    if (auto generation = weak.lock()) live.push_back(std::move(generation));
  }
  std::erase_if(generations_, [](const auto& weak) { return weak.expired(); });
  return live;
}

int RunningGenerations::count() { return static_cast<int>(Live().size()); }

int RunningGenerations::FailAll(const Status& why) {
  const auto live = Live();
  for (const auto& generation : live) generation->Fail(why);
  return static_cast<int>(live.size());
}

int RunningGenerations::FailSilent(std::chrono::milliseconds bound, const Status& why) {
  int n = 0;
  for (const auto& generation : Live()) {
    if (generation->silence() < bound) continue;
    generation->Cancel(why);
    generation->Fail(why);
    ++n;
  }
  return n;
}

}  // namespace holdfast

#include "server/running_generations.h"

#include <algorithm>

#include "server/generation.h"

namespace holdfast {

void RunningGenerations::Add(const std::shared_ptr<Generation>& generation) {
  if (!silence()) OnEngineEvent();
  std::lock_guard lock(mutex_);
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

void RunningGenerations::OnEngineEvent() { last_event_ = std::chrono::steady_clock::now(); }

std::optional<std::chrono::milliseconds> RunningGenerations::silence() {
  const auto live = Live();
  if (std::all_of(live.begin(), live.end(), [](const auto& g) { return g->finished(); })) {
    return std::nullopt;
  }
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               last_event_.load());
}

}  // namespace holdfast

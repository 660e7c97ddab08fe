#ifndef HOLDFAST_ENGINE_STEP_GATE_H_
#define HOLDFAST_ENGINE_STEP_GATE_H_

#include <atomic>
#include <chrono>
#include <thread>

namespace holdfast {

// A computation may never end, and the thread in it cannot be ended alone. Taking the gate makes
// sure that this thread touches nothing more than what it is computing on, so that another may look
// after everything else until the process ends.
class StepGate {
 public:
  // Runs a computation on the owner's thread. Does not return once the gate has been taken.
  template <typename Computation>
  auto Run(const Computation& computation) {
    state_ = State::kInside;
    auto result = computation();
    State inside = State::kInside;
    if (!state_.compare_exchange_strong(inside, State::kOutside)) Forever();
    return result;
  }

  // From another thread: true, once, when the owner is in a computation. It never comes out of it.
  bool Take() {
    State inside = State::kInside;
    return state_.compare_exchange_strong(inside, State::kTaken);
  }

 private:
  enum class State { kOutside, kInside, kTaken };

  [[noreturn]] static void Forever() {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }

  std::atomic<State> state_ = State::kOutside;
};

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_STEP_GATE_H_

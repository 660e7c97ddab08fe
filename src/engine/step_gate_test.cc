#include "engine/step_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

namespace holdfast {
namespace {

TEST(StepGateTest, CannotBeTakenOutsideOfAComputation) {
  StepGate gate;
  EXPECT_FALSE(gate.Take());
  EXPECT_EQ(gate.Run([&] { return 7; }), 7);
  EXPECT_FALSE(gate.Take());
}

TEST(StepGateTest, AComputationWhoseGateWasTakenDoesNotComeBack) {
  // The thread stays for as long as the process: so does what it uses.
  struct Shared {
    StepGate gate;
    std::promise<void> inside, go_on;
    std::atomic<bool> computed = false, came_back = false;
  };
  const auto shared = std::make_shared<Shared>();
  std::thread([shared] {
    shared->gate.Run([&] {
      shared->inside.set_value();
      shared->go_on.get_future().wait();
      return shared->computed.exchange(true);
    });
    shared->came_back = true;
  }).detach();
  shared->inside.get_future().wait();
  EXPECT_TRUE(shared->gate.Take());
  EXPECT_FALSE(shared->gate.Take()) << "only one may";
  shared->go_on.set_value();
  while (!shared->computed) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(shared->came_back);
}

}  // namespace
}  // namespace holdfast

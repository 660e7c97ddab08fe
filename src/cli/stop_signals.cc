#include "cli/stop_signals.h"

#include <signal.h>

#include <ctime>

namespace holdfast::cli {
namespace {

sigset_t TheSignals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

StopSignals::StopSignals() {
  const sigset_t signals = TheSignals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

StopSignals::~StopSignals() {
  const sigset_t signals = TheSignals();
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

int StopSignals::WaitFor(std::chrono::milliseconds bound) {
  const sigset_t signals = TheSignals();
  timespec time{};
  time.tv_sec = bound.count() / 1000;
  time.tv_nsec = (bound.count() % 1000) * 1'000'000;
  const int number = ::sigtimedwait(&signals, nullptr, &time);
  return number > 0 ? number : 0;
}

}  // namespace holdfast::cli

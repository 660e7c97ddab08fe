#ifndef HOLDFAST_CLI_STOP_SIGNALS_H_
#define HOLDFAST_CLI_STOP_SIGNALS_H_

#include <chrono>

namespace holdfast::cli {

// Takes SIGTERM and SIGINT out of the hands of handlers: they are blocked in the calling thread and
// in all threads it starts from now on, and wait until asked for. SIGPIPE is ignored.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Waits for one of them; its number, or 0 when none came within `bound`.
  int WaitFor(std::chrono::milliseconds bound);
};

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_STOP_SIGNALS_H_

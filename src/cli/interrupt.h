#ifndef HOLDFAST_CLI_INTERRUPT_H_
#define HOLDFAST_CLI_INTERRUPT_H_

namespace holdfast::cli {

// While one exists, Ctrl-C (SIGINT) does not end the program but is remembered.
class InterruptCatcher {
 public:
  InterruptCatcher();
  ~InterruptCatcher();
  InterruptCatcher(const InterruptCatcher&) = delete;
  InterruptCatcher& operator=(const InterruptCatcher&) = delete;

  // Whether Ctrl-C was pressed since the last Clear().
  static bool pressed();
  static void Clear();
};

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_INTERRUPT_H_

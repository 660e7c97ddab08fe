#include "cli/interrupt.h"

#include <csignal>

namespace holdfast::cli {
namespace {

// A signal handler can reach nothing but a global.
volatile std::sig_atomic_t g_pressed = 0;

void OnInterrupt(int) { g_pressed = 1; }

void SetHandler(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  ::sigemptyset(&action.sa_mask);
  // Without SA_RESTART: a read of the terminal ends, so that the prompt can come back.
  ::sigaction(SIGINT, &action, nullptr);
}

}  // namespace

InterruptCatcher::InterruptCatcher() {
  Clear();
  SetHandler(OnInterrupt);
}

InterruptCatcher::~InterruptCatcher() { SetHandler(SIG_DFL); }

bool InterruptCatcher::pressed() { return g_pressed != 0; }
void InterruptCatcher::Clear() { g_pressed = 0; }

}  // namespace holdfast::cli

#include "cli/service_manager.h"

#include <cstdint>

#ifdef HOLDFAST_HAS_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

namespace holdfast::cli {
namespace {

// A manager that cannot be reached is none of the server's troubles: results are not looked at.
#ifdef HOLDFAST_HAS_SYSTEMD
void Notify(const std::string& state) { ::sd_notify(/*unset_environment=*/0, state.c_str()); }

std::optional<std::chrono::microseconds> WatchdogInterval() {
  uint64_t interval = 0;
  if (::sd_watchdog_enabled(/*unset_environment=*/0, &interval) <= 0) return std::nullopt;
  return std::chrono::microseconds(interval);
}
#else
void Notify(const std::string&) {}

std::optional<std::chrono::microseconds> WatchdogInterval() { return std::nullopt; }
#endif

}  // namespace

ServiceManager::ServiceManager() : watchdog_(WatchdogInterval()) {}

void ServiceManager::Ready(const std::string& status) {
  status_ = status;
  Notify("READY=1\nSTATUS=" + status);
}

void ServiceManager::Say(const std::string& status) {
  if (status == status_) return;
  status_ = status;
  Notify("STATUS=" + status);
}

void ServiceManager::Alive() {
  const auto now = std::chrono::steady_clock::now();
  if (!watchdog_ || now - last_sign_ < *watchdog_ / 2) return;
  last_sign_ = now;
  Notify("WATCHDOG=1");
}

void ServiceManager::Ending() { Notify("STOPPING=1\nSTATUS=saving conversations"); }

}  // namespace holdfast::cli

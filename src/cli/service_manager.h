#ifndef HOLDFAST_CLI_SERVICE_MANAGER_H_
#define HOLDFAST_CLI_SERVICE_MANAGER_H_

#include <chrono>
#include <optional>
#include <string>

namespace holdfast::cli {

// Tells a service manager that asks for it (NOTIFY_SOCKET: systemd) how the server is. Does nothing
// where there is none, or where this program was built without libsystemd. For one thread.
class ServiceManager {
 public:
  // Reads the environment.
  ServiceManager();

  void Ready(const std::string& status);
  // One line for people; sent when it has changed.
  void Say(const std::string& status);
  // The server works: at most sent as often as the manager's watchdog wants.
  void Alive();
  void Ending();

 private:
  std::optional<std::chrono::microseconds> watchdog_;  // wants a sign in each half of this
  std::chrono::steady_clock::time_point last_sign_;
  std::string status_;
};

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_SERVICE_MANAGER_H_

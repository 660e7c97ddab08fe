#include "cli/service_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/temp_folder.h"

namespace holdfast::cli {
namespace {

// A service manager's end of the socket.
class Manager {
 public:
  Manager() : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    const std::string path = folder_.path() + "/notify";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
    ::setenv("WATCHDOG_USEC", "60000000", 1);
    ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  }
  ~Manager() {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(name);
    ::close(fd_);
  }
  std::vector<std::string> Messages() {
    std::vector<std::string> messages;
    char buffer[4096];
    for (ssize_t n; (n = ::recv(fd_, buffer, sizeof(buffer), 0)) > 0;) {
      messages.emplace_back(buffer, static_cast<size_t>(n));
    }
    return messages;
  }

 private:
  const TempFolder folder_ = TempFolder::Create("manager").value();
  const int fd_;
};

TEST(ServiceManagerTest, TellsOfTheStartTheWorkAndTheEnd) {
#ifndef HOLDFAST_HAS_SYSTEMD
  GTEST_SKIP() << "built without libsystemd";
#endif
  Manager manager;
  ServiceManager service;
  service.Say("loading the model 50 %");
  service.Say("loading the model 50 %");
  service.Ready("ready on http://127.0.0.1:8080");
  service.Alive();
  service.Alive();  // too soon to be sent again
  service.Ending();
  EXPECT_THAT(manager.Messages(),
              ::testing::ElementsAre("STATUS=loading the model 50 %",
                                     "READY=1\nSTATUS=ready on http://127.0.0.1:8080", "WATCHDOG=1",
                                     "STOPPING=1\nSTATUS=saving conversations"));
}

TEST(ServiceManagerTest, NobodyToTellIsNoError) {
  ServiceManager service;
  service.Ready("ready");
  service.Alive();
  service.Ending();
}

}  // namespace
}  // namespace holdfast::cli

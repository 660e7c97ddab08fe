#include "cli/restart.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

namespace holdfast::cli {
namespace {

constexpr const char* kVariable = "HOLDFAST_RESTARTED";
constexpr size_t kTimesKept = 100;

// "12 -1 3": whole numbers with one space between. None for anything else.
std::optional<std::vector<int64_t>> ReadNumbers(std::string_view text) {
  std::vector<int64_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    const auto [next, error] = std::from_chars(at, end, numbers.emplace_back());
    if (error != std::errc()) return std::nullopt;
    if (next == end) return numbers;
    if (*next != ' ') return std::nullopt;
    at = next + 1;
  }
}

bool IsListening(int fd) {
  int yes = 0;
  socklen_t size = sizeof(yes);
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &size) == 0 && yes != 0;
}

// The arguments as the process was given them.
std::vector<std::string> Arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) {
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

std::vector<char*> Pointers(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

void CloseAtExec(int kept) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    if (fd > STDERR_FILENO) ::fcntl(fd, F_SETFD, fd == kept ? 0 : FD_CLOEXEC);
  }
}

}  // namespace

Restarts Restarts::TakeFromEnvironment() {
  const char* const value = std::getenv(kVariable);
  if (value == nullptr) return {};
  Restarts restarts = Parse(value, ::getpid());
  ::unsetenv(kVariable);
  if (restarts.listening_socket_ >= 0 && !IsListening(restarts.listening_socket_)) {
    restarts.listening_socket_ = -1;
  }
  return restarts;
}

Restarts Restarts::Parse(std::string_view text, int64_t process_id) {
  const auto numbers = ReadNumbers(text);
  if (!numbers || numbers->size() < 3 || numbers->front() != process_id) return {};
  Restarts restarts;
  restarts.listening_socket_ =
      static_cast<int>(std::clamp<int64_t>((*numbers)[1], -1, std::int64_t{1} << 30));
  restarts.n_total_ = std::max<int64_t>((*numbers)[2], 0);
  for (size_t i = 3; i < numbers->size(); ++i) restarts.times_.emplace_back((*numbers)[i]);
  return restarts;
}

std::string Restarts::Text(int64_t process_id) const {
  std::string text = fmt::format("{} {} {}", process_id, listening_socket_, n_total_);
  for (const std::chrono::seconds time : times_) text += fmt::format(" {}", time.count());
  return text;
}

int64_t Restarts::CountSince(std::chrono::seconds time) const {
  return std::ranges::count_if(times_, [&](std::chrono::seconds t) { return t >= time; });
}

void Restarts::Add(std::chrono::seconds now, int listening_socket) {
  ++n_total_;
  times_.push_back(now);
  if (times_.size() > kTimesKept) times_.erase(times_.begin());
  listening_socket_ = listening_socket;
}

Status Restarts::Execute() const {
  std::error_code error;
  std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return UnimplementedError("the program's own file is not known here");
  // A program that was replaced meanwhile is still there by this name.
  if (!std::filesystem::exists(program, error)) program = "/proc/self/exe";
  std::vector<std::string> arguments = Arguments();
  if (arguments.empty()) return UnimplementedError("the program's arguments are not known here");
  std::vector<std::string> environment;
  const std::string prefix = fmt::format("{}=", kVariable);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with(prefix)) environment.emplace_back(*entry);
  }
  environment.push_back(prefix + Text(::getpid()));
  CloseAtExec(listening_socket_);
  ::execve(program.c_str(), Pointers(&arguments).data(), Pointers(&environment).data());
  return ErrnoError(errno, program);
}

std::chrono::seconds SteadySeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace holdfast::cli

#include "base/thread_activity.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <list>
#include <mutex>
#include <system_error>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

namespace holdfast {
namespace {

using Clock = std::chrono::steady_clock;

int64_t NowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch())
      .count();
}

int64_t CurrentThreadId() {
#if defined(__linux__)
  return ::syscall(SYS_gettid);
#else
  return 0;
#endif
}

std::string FirstLine(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The state letter of /proc/.../stat, which follows the name in parentheses.
std::string StateOf(const std::filesystem::path& task) {
  const std::string stat = FirstLine(task / "stat");
  const size_t end = stat.rfind(')');
  return end == std::string::npos || end + 2 >= stat.size() ? "?" : stat.substr(end + 2, 1);
}

}  // namespace

struct ThreadActivity::Entry {
  std::string name;
  int64_t thread_id = 0;
  std::atomic<const char*> what{"starting"};
  std::atomic<int64_t> since_ms{NowMs()};

  // The board must be reachable from whoever notices a hang, so it is a global. It is never
  // destroyed: threads may end after main() has.
  struct Board {
    std::mutex mutex;
    std::list<std::shared_ptr<Entry>> entries;  // guarded by mutex
  };
  static Board& TheBoard() {
    static Board* const board = new Board;
    return *board;
  }
};

ThreadActivity::ThreadActivity(const std::string& name) : entry_(std::make_shared<Entry>()) {
  entry_->name = name;
  entry_->thread_id = CurrentThreadId();
#if defined(__linux__)
  ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
#endif
  Entry::Board& board = Entry::TheBoard();
  std::lock_guard lock(board.mutex);
  board.entries.push_back(entry_);
}

ThreadActivity::~ThreadActivity() {
  Entry::Board& board = Entry::TheBoard();
  std::lock_guard lock(board.mutex);
  board.entries.remove(entry_);
}

void ThreadActivity::Set(const char* what) {
  entry_->what.store(what, std::memory_order_relaxed);
  entry_->since_ms.store(NowMs(), std::memory_order_relaxed);
}

std::string DescribeThreads() {
  std::list<std::shared_ptr<ThreadActivity::Entry>> entries;
  {
    auto& board = ThreadActivity::Entry::TheBoard();
    std::lock_guard lock(board.mutex);
    entries = board.entries;
  }
  const int64_t now_ms = NowMs();
  const auto describe = [&](const ThreadActivity::Entry& entry) {
    return fmt::format("{}: {}, for {:.1f} s", entry.name, entry.what.load(),
                       static_cast<double>(now_ms - entry.since_ms.load()) / 1000);
  };
  std::string text;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    const std::string id = task.path().filename().string();
    std::string said = FirstLine(task.path() / "comm");
    const auto known = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) {
      return std::to_string(entry->thread_id) == id;
    });
    if (known != entries.end()) said = describe(**known);
    text += fmt::format("  thread {} {} [state {}, in {}]\n", id, said, StateOf(task.path()),
                        FirstLine(task.path() / "wchan"));
  }
  if (!text.empty()) return text;
  for (const auto& entry : entries) text += "  " + describe(*entry) + "\n";  // no /proc here
  return text;
}

}  // namespace holdfast

#include "base/mapping_guard.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <utility>

namespace holdfast {
namespace {

struct Guarded {
  std::atomic<uintptr_t> begin{0}, end{0};  // no mapping: begin is 0
  std::atomic<bool> failed{false};
};
Guarded g_guarded[MappingGuard::kMaxGuarded];
std::mutex g_mutex;  // places are taken and given back under it
struct sigaction g_action_before;

// So much of a mapping is given up at once: a file that has lost its end fails at every page.
constexpr uintptr_t kGivenUp = uintptr_t{2} << 20;

Guarded* Find(uintptr_t address) {
  for (Guarded& g : g_guarded) {
    const uintptr_t begin = g.begin.load(std::memory_order_acquire);
    if (begin != 0 && address >= begin && address < g.end.load(std::memory_order_relaxed)) {
      return &g;
    }
  }
  return nullptr;
}

// Zeros in place of what cannot be read, so that the instruction can be run again.
bool GiveUp(Guarded* g, uintptr_t address) {
  const uintptr_t begin = std::max(address / kGivenUp * kGivenUp, g->begin.load());
  const uintptr_t end = std::min(address / kGivenUp * kGivenUp + kGivenUp, g->end.load());
  g->failed.store(true, std::memory_order_seq_cst);  // before anybody can see a zero
  return ::mmap(reinterpret_cast<void*>(begin), end - begin, PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

// Only calls what a signal handler may, and mmap(), which is a bare system call.
void OnBusError(int signal_number, siginfo_t* info, void*) {
  const int error = errno;
  const bool by_memory = info->si_code > 0;  // otherwise somebody sent it
  Guarded* const guarded = by_memory ? Find(reinterpret_cast<uintptr_t>(info->si_addr)) : nullptr;
  if (guarded == nullptr || !GiveUp(guarded, reinterpret_cast<uintptr_t>(info->si_addr))) {
    // Not ours: as it would have been without us, now that the instruction or the signal repeats.
    ::sigaction(signal_number, &g_action_before, nullptr);
    if (!by_memory) ::raise(signal_number);
  }
  errno = error;
}

void Install() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, &g_action_before);
  });
}

}  // namespace

MappingGuard::MappingGuard(const void* begin, size_t n_bytes) {
  Install();
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::lock_guard lock(g_mutex);
  for (int i = 0; i < kMaxGuarded; ++i) {
    Guarded& g = g_guarded[i];
    if (g.begin.load(std::memory_order_relaxed) != 0) continue;
    const auto address = reinterpret_cast<uintptr_t>(begin);
    g.failed.store(false, std::memory_order_relaxed);
    g.end.store(address + (n_bytes + page - 1) / page * page, std::memory_order_relaxed);
    g.begin.store(address, std::memory_order_release);
    place_ = i;
    return;
  }
}

MappingGuard::MappingGuard(MappingGuard&& other) noexcept
    : place_(std::exchange(other.place_, -1)) {}

MappingGuard& MappingGuard::operator=(MappingGuard&& other) noexcept {
  std::swap(place_, other.place_);
  return *this;
}

MappingGuard::~MappingGuard() {
  if (place_ < 0) return;
  const std::lock_guard lock(g_mutex);
  g_guarded[place_].begin.store(0, std::memory_order_release);
}

bool MappingGuard::failed() const {
  return place_ >= 0 && g_guarded[place_].failed.load(std::memory_order_seq_cst);
}

}  // namespace holdfast

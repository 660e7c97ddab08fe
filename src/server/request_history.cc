#include "server/request_history.h"

#include <chrono>

namespace holdfast {

void RequestHistory::Add(const GenerateResult& result) {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::lock_guard lock(mutex_);
  entries_.push_back({++last_number_, duration_cast<milliseconds>(now).count(), result});
  if (entries_.size() > kMaxRequests) entries_.pop_front();
}

int64_t RequestHistory::last_number() const {
  std::lock_guard lock(mutex_);
  return last_number_;
}

std::vector<RequestHistory::Entry> RequestHistory::After(int64_t number) const {
  std::lock_guard lock(mutex_);
  std::vector<Entry> after;
  for (const Entry& entry : entries_) {
    if (entry.number > number) after.push_back(entry);
  }
  return after;
}

}  // namespace holdfast

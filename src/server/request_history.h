#ifndef HOLDFAST_SERVER_REQUEST_HISTORY_H_
#define HOLDFAST_SERVER_REQUEST_HISTORY_H_

// The last requests that ended, so that a person can see afterwards why one was fast or slow.

#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "engine/generator.h"

namespace holdfast {

// Threads: any.
class RequestHistory {
 public:
  static constexpr size_t kMaxRequests = 256;

  struct Entry {
    int64_t number = 0;       // 1 for the first request of the process
    int64_t finished_ms = 0;  // UNIX time
    GenerateResult result;
  };

  void Add(const GenerateResult& result);
  // Of the newest one; 0: there was none.
  int64_t last_number() const;
  // Those with a number above `number`, oldest first.
  std::vector<Entry> After(int64_t number) const;

 private:
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;  // guarded by mutex_, as below
  int64_t last_number_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_REQUEST_HISTORY_H_

#ifndef HOLDFAST_SERVER_RESPONSE_STORE_H_
#define HOLDFAST_SERVER_RESPONSE_STORE_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "server/json.h"
#include "server/responses_request.h"

namespace holdfast {

// A response of /v1/responses that may be asked for again or continued.
struct StoredResponse {
  Json response;  // the object as the client got it
  ResponsesHistory history;
};

// The newest responses, in memory, up to a number of bytes. Threads: any.
class ResponseStore {
 public:
  explicit ResponseStore(int64_t max_bytes = 64 << 20) : max_bytes_(max_bytes) {}

  // Forgets the oldest ones that have no more room; one that is too large by itself is not kept.
  void Add(const std::string& id, StoredResponse response);
  std::shared_ptr<const StoredResponse> Find(const std::string& id);
  bool Remove(const std::string& id);

 private:
  struct Entry {
    std::string id;
    int64_t n_bytes = 0;
    std::shared_ptr<const StoredResponse> response;
  };

  void Erase(std::list<Entry>::iterator entry);

  const int64_t max_bytes_;
  std::mutex mutex_;
  // Guarded by mutex_: the most recently used first.
  std::list<Entry> entries_;
  std::map<std::string, std::list<Entry>::iterator> by_id_;
  int64_t n_bytes_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_RESPONSE_STORE_H_

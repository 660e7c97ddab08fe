#include "server/response_store.h"

#include <utility>

namespace holdfast {

void ResponseStore::Add(const std::string& id, StoredResponse response) {
  const auto bytes = [](const Json& json) { return static_cast<int64_t>(ToText(json).size()); };
  const int64_t n_bytes =
      bytes(response.response) + bytes(response.history.messages) + bytes(response.history.output);
  if (n_bytes > max_bytes_) return;
  auto kept = std::make_shared<const StoredResponse>(std::move(response));
  const std::lock_guard lock(mutex_);
  if (const auto it = by_id_.find(id); it != by_id_.end()) Erase(it->second);
  entries_.push_front({id, n_bytes, std::move(kept)});
  by_id_[id] = entries_.begin();
  n_bytes_ += n_bytes;
  while (n_bytes_ > max_bytes_) Erase(std::prev(entries_.end()));
}

std::shared_ptr<const StoredResponse> ResponseStore::Find(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto it = by_id_.find(id);
  if (it == by_id_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, it->second);
  return it->second->response;
}

bool ResponseStore::Remove(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto it = by_id_.find(id);
  if (it == by_id_.end()) return false;
  Erase(it->second);
  return true;
}

void ResponseStore::Erase(std::list<Entry>::iterator entry) {
  n_bytes_ -= entry->n_bytes;
  by_id_.erase(entry->id);
  entries_.erase(entry);
}

}  // namespace holdfast

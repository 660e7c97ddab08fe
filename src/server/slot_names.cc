#include "server/slot_names.h"

#include <algorithm>

namespace holdfast {

void SlotNames::Use(const std::string& conversation, int wanted) {
  if (conversation.empty() || slots_.empty()) return;
  const std::lock_guard lock(mutex_);
  auto slot = std::ranges::find(slots_, conversation, &Slot::conversation);
  if (wanted >= 0 && wanted < size()) {
    if (slot != slots_.end()) *slot = {};
    slot = slots_.begin() + wanted;
  }
  // Empty ones were never used, so the one used longest ago is one of them if there is any.
  if (slot == slots_.end()) slot = std::ranges::min_element(slots_, {}, &Slot::used);
  *slot = {conversation, ++clock_};
}

std::vector<std::string> SlotNames::All() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> all;
  for (const Slot& slot : slots_) all.push_back(slot.conversation);
  return all;
}

void SlotNames::Clear(int slot) {
  const std::lock_guard lock(mutex_);
  slots_.at(static_cast<size_t>(slot)) = {};
}

}  // namespace holdfast

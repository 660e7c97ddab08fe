#ifndef HOLDFAST_SERVER_SLOT_NAMES_H_
#define HOLDFAST_SERVER_SLOT_NAMES_H_

// llama.cpp's slots as its clients know them: numbers, each of which stands for the conversation
// that was computed under it last, also when nothing of it is being computed. Here a conversation
// needs no number to be found again; it has one for those who save and restore by number.

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace holdfast {

// Threads: any.
class SlotNames {
 public:
  explicit SlotNames(int n_slots) : slots_(static_cast<size_t>(n_slots)) {}

  int size() const { return static_cast<int>(slots_.size()); }
  // This conversation is or was computed. It takes number `wanted`; without one (-1, or none of
  // these) it keeps its number, or takes an empty one, or that which was used longest ago.
  void Use(const std::string& conversation, int wanted = -1);
  // By number; empty: no conversation.
  std::vector<std::string> All() const;
  void Clear(int slot);

 private:
  struct Slot {
    std::string conversation;
    int64_t used = 0;  // larger: later
  };

  mutable std::mutex mutex_;
  std::vector<Slot> slots_;  // guarded by mutex_, as below
  int64_t clock_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_SLOT_NAMES_H_

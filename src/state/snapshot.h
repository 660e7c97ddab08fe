#ifndef HOLDFAST_STATE_SNAPSHOT_H_
#define HOLDFAST_STATE_SNAPSHOT_H_

// A conversation's state held still for a reader on another thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "state/block_pool.h"
#include "state/checkpoint_policy.h"
#include "state/token_sequence.h"

namespace holdfast {

// Holds one block; while it lives nobody writes to the block (a writer copies it first). May be
// moved to and destroyed on any thread.
class BlockReader {
 public:
  BlockReader() = default;
  explicit BlockReader(BlockPtr block) : block_(std::move(block)) {
    if (block_) block_->n_readers.fetch_add(1, std::memory_order_relaxed);
  }
  BlockReader(BlockReader&& other) noexcept : block_(std::move(other.block_)) {}
  BlockReader& operator=(BlockReader&& other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~BlockReader() {
    if (block_) block_->n_readers.fetch_sub(1, std::memory_order_release);
  }
  BlockReader(const BlockReader&) = delete;
  BlockReader& operator=(const BlockReader&) = delete;

  explicit operator bool() const { return block_ != nullptr; }
  // For reading only. draft() may be null.
  Buffer* trunk() const { return block_->trunk.get(); }
  Buffer* draft() const { return block_->draft.get(); }
  // Equal for equal blocks: a shared page is the same object in every snapshot.
  const StateBlock* block() const { return block_.get(); }
  bool sealed() const { return block_->sealed; }

 private:
  BlockPtr block_;
};

struct CheckpointSnapshot {
  int64_t position = 0;
  CheckpointKind kind = CheckpointKind::kTurnEnd;
  BlockReader running;
};

struct ConversationSnapshot {
  std::string id;
  TokenSequence tokens;  // the n computed ones
  std::optional<TokenKey> next_token;
  bool has_draft = false, pinned = false;
  std::string forked_from;
  int64_t fork_position = 0;
  // PagesFor(n). In the last one only the first n % page_tokens cells mean anything; the others may
  // hold cells of another branch and must not leave the machine.
  std::vector<BlockReader> pages;
  BlockReader running;                          // at n; none when n is 0
  std::vector<CheckpointSnapshot> checkpoints;  // ascending; the last may be at n
  std::shared_ptr<const int> counted;           // tells the cache that there is a snapshot
};

}  // namespace holdfast

#endif  // HOLDFAST_STATE_SNAPSHOT_H_

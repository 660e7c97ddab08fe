#ifndef HOLDFAST_STATE_CONVERSATION_H_
#define HOLDFAST_STATE_CONVERSATION_H_

// One conversation in RAM: its tokens, pages, running state and checkpoints. Only StateCache
// creates or changes one; the engine holds a pointer while it is bound.
//
// The first n_computed() of its tokens have state. Pages and running states may be shared with
// other conversations (and with own checkpoints); StateCache::PrepareWrite makes what the next step
// writes private.
//
// Threads: the engine's.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "state/block_pool.h"
#include "state/checkpoint_policy.h"
#include "state/index.h"
#include "state/token_sequence.h"

namespace holdfast {

struct Checkpoint {
  int64_t position = 0;
  CheckpointKind kind = CheckpointKind::kTurnEnd;
  BlockPtr running;
};

class Conversation {
 public:
  const std::string& id() const { return id_; }
  OwnerId owner() const { return owner_; }
  bool bound() const { return bound_; }
  bool pinned() const { return pinned_; }
  // Known by a name that somebody gave it (a request, a fork): never dropped as superseded.
  bool named() const { return named_; }
  // Made with the draft layer's cells and state. All of its pages have them, or none.
  bool has_draft() const { return has_draft_; }

  TokenView tokens() const { return tokens_->view(); }
  int64_t n_tokens() const { return tokens_->size(); }
  int64_t n_computed() const { return n_computed_; }
  // The token after the last computed one, when it was known at the time of parking.
  std::optional<TokenKey> next_token() const { return next_token_; }

  // For the step's Segment. Valid until the next call of StateCache with this conversation.
  std::span<Buffer* const> page_buffers() const { return trunk_buffers_; }
  std::span<Buffer* const> draft_page_buffers() const { return draft_buffers_; }
  Buffer* running() const { return running_ ? running_->trunk.get() : nullptr; }
  Buffer* draft_running() const { return running_ ? running_->draft.get() : nullptr; }

  const std::vector<BlockPtr>& pages() const { return pages_; }
  const BlockPtr& running_block() const { return running_; }
  const std::vector<Checkpoint>& checkpoints() const { return checkpoints_; }  // ascending
  // It was begun on this many tokens of another conversation's state; 0: on none.
  int64_t n_borrowed() const { return n_borrowed_; }
  const std::string& forked_from() const { return forked_from_; }  // its id then; may be empty
  int64_t n_returns() const { return n_returns_; }
  double last_used_s() const { return last_used_s_; }  // of the cache's clock

 private:
  friend class StateCache;
  std::string id_;
  OwnerId owner_ = 0;
  bool bound_ = false, pinned_ = false, named_ = false, has_draft_ = false;
  std::shared_ptr<TokenSequence> tokens_;
  int64_t n_computed_ = 0;
  std::optional<TokenKey> next_token_;
  std::vector<BlockPtr> pages_;
  std::vector<Buffer*> trunk_buffers_, draft_buffers_;
  BlockPtr running_;  // null at position 0 until something is written
  std::vector<Checkpoint> checkpoints_;
  std::vector<CheckpointMark> marks_;  // of the running read, ascending, > n_computed
  int64_t n_borrowed_ = 0;
  std::string forked_from_;
  int64_t n_returns_ = 0;
  double last_used_s_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_STATE_CONVERSATION_H_

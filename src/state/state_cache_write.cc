#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "state/state_cache.h"

namespace holdfast {

int64_t StateCache::NextStop(const Conversation& c) const {
  const int64_t rung = options_.policy.NextRung(c.n_computed_);
  return c.marks_.empty() ? rung : std::min(rung, c.marks_.front().position);
}

Status StateCache::PrepareWrite(Conversation* c, int64_t end) {
  HF_CHECK(c->bound_ && end > c->n_computed_);
  HF_RETURN_IF_ERROR(MakeRunningWritable(c));
  const int64_t size = static_cast<int64_t>(page_tokens());
  for (int64_t i = c->n_computed_ / size; i * size < end; ++i) {
    HF_RETURN_IF_ERROR(MakePageWritable(c, static_cast<size_t>(i)));
  }
  PublishStats();
  return OkStatus();
}

Status StateCache::MakeRunningWritable(Conversation* c) {
  if (c->running_ == nullptr) {
    HF_ASSIGN_OR_RETURN(BlockPtr fresh, AllocateFor(c, running_pool_.get(), nullptr));
    SetRunning(c, std::move(fresh));
    return OkStatus();
  }
  if (c->running_->exclusive()) return running_pool_->Unseal(c->running_.get());
  HF_ASSIGN_OR_RETURN(BlockPtr copy, AllocateFor(c, running_pool_.get(), c->running_.get()));
  const BlockPtr kept = c->running_;
  SetRunning(c, std::move(copy));
  return running_pool_->Seal(kept.get());
}

// Cells are only ever appended, so the conversation that appends to a page may do so while others
// name it: they need none of the cells it writes. Everybody else copies the page first.
Status StateCache::MakePageWritable(Conversation* c, size_t index) {
  if (index == c->pages_.size()) {
    HF_ASSIGN_OR_RETURN(BlockPtr fresh, AllocateFor(c, page_pool_.get(), nullptr));
    PushPage(c, std::move(fresh));
  }
  StateBlock* page = c->pages_[index].get();
  const bool appends = page->writer == c->owner_ && !page->sealed &&
                       page->n_readers.load(std::memory_order_acquire) == 0;
  if (!appends && !page->exclusive()) {
    HF_ASSIGN_OR_RETURN(BlockPtr copy, AllocateFor(c, page_pool_.get(), page));
    ReplacePage(c, index, std::move(copy));
    page = c->pages_[index].get();
  }
  page->writer = c->owner_;
  return page_pool_->Unseal(page);
}

void StateCache::Append(Conversation* c, TokenKey token) {
  HF_CHECK(c->bound_);
  c->tokens_->Append(token);
}

Status StateCache::Advance(Conversation* c, int64_t n_computed) {
  HF_CHECK(c->bound_ && n_computed >= c->n_computed_ && n_computed <= c->n_tokens());
  HF_DCHECK(n_computed <= NextStop(*c));
  const int64_t from = c->n_computed_;
  const int64_t stop = NextStop(*c);
  c->n_computed_ = n_computed;
  index_.Extend(c->owner_);
  HF_RETURN_IF_ERROR(SealPages(c, from));
  if (n_computed == stop && n_computed > from) {
    const bool marked = !c->marks_.empty() && c->marks_.front().position == stop;
    TakeCheckpoint(c, marked ? c->marks_.front().kind : CheckpointKind::kLadder);
  }
  std::erase_if(c->marks_, [&](const CheckpointMark& m) { return m.position <= n_computed; });
  PublishStats();
  return OkStatus();
}

void StateCache::TakeCheckpoint(Conversation* c, CheckpointKind kind) {
  HF_CHECK(c->running_ != nullptr && c->n_computed_ > 0);
  if (options_.policy.NextRung(c->n_computed_ - 1) == c->n_computed_) {
    kind = std::max(kind, CheckpointKind::kLadder);
  }
  AddCheckpoint(c, c->n_computed_, kind, c->running_);
  ++counts_.n_checkpoints;
  ThinOut(c);
  PublishStats();
}

void StateCache::ThinOut(Conversation* c) {
  std::vector<CheckpointMark> kept;
  for (const Checkpoint& checkpoint : c->checkpoints_) {
    kept.push_back({checkpoint.position, checkpoint.kind});
  }
  const auto dropped = ThinCheckpoints(options_.policy, c->n_computed_, kept);
  for (size_t i = dropped.size(); i-- > 0;) DropCheckpoint(c, dropped[i]);
  counts_.n_checkpoints_thinned += static_cast<int64_t>(dropped.size());
}

Status StateCache::SealPages(Conversation* c, int64_t from) {
  const size_t size = page_tokens();
  for (size_t i = from / size; i < c->n_computed_ / size; ++i) {
    if (BlockPtr twin = TwinOf(*c, i)) {
      ReplacePage(c, i, std::move(twin));
      ++counts_.n_pages_shared_on_seal;
      continue;
    }
    StateBlock* const page = c->pages_[i].get();
    page->writer = 0;
    HF_RETURN_IF_ERROR(page_pool_->Seal(page));
  }
  return OkStatus();
}

// Somebody else's sealed page with the same cells (the same tokens from the start on), computed at
// the same time or where no checkpoint was near: one of the two is enough.
BlockPtr StateCache::TwinOf(const Conversation& c, size_t index) const {
  const int64_t end = static_cast<int64_t>((index + 1) * page_tokens());
  for (OwnerId owner : index_.Sharing(c.owner_, end)) {
    const Conversation* const other = ByOwner(owner);
    if (other == nullptr || other->n_computed_ < end) continue;
    const BlockPtr& page = other->pages_[index];
    if (page == c.pages_[index] || !page->sealed) continue;
    if (c.has_draft_ && page->draft == nullptr) continue;
    return page;
  }
  return nullptr;
}

Status StateCache::Truncate(Conversation* c, int64_t position) {
  HF_CHECK(c->bound_ && position >= 0);
  BlockPtr running = position == c->n_computed_ ? c->running_ : nullptr;
  for (const Checkpoint& checkpoint : c->checkpoints_) {
    if (checkpoint.position == position) running = checkpoint.running;
  }
  if (running == nullptr && position != 0) {
    return NotFoundError(
        fmt::format("conversation {}: no checkpoint at {} tokens", c->id_, position));
  }
  while (!c->checkpoints_.empty() && c->checkpoints_.back().position > position) {
    DropCheckpoint(c, c->checkpoints_.size() - 1);
  }
  SetRunning(c, std::move(running));
  KeepPages(c, options_.trunk->PagesFor(position));
  // Who shares the last page may need the cells that are given up here.
  if (!c->pages_.empty() && c->pages_.back()->writer == c->owner_) c->pages_.back()->writer = 0;
  c->n_computed_ = position;
  c->marks_.clear();
  c->next_token_.reset();
  CutTokens(c, position);
  PublishStats();
  return OkStatus();
}

void StateCache::DropDraft(Conversation* c) {
  c->has_draft_ = false;
  c->draft_buffers_.clear();
}

}  // namespace holdfast

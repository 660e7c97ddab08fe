#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "state/state_cache.h"

namespace holdfast {

ConversationSnapshot StateCache::Snapshot(const Conversation& c) const {
  ConversationSnapshot snapshot;
  const int64_t n = c.n_computed_;
  snapshot.id = c.id_;
  snapshot.counted = snapshots_;
  snapshot.tokens = TokenSequence(c.tokens().Prefix(n));
  snapshot.next_token = c.n_tokens() > n ? c.tokens().key(n) : c.next_token_;
  snapshot.has_draft = c.has_draft_;
  snapshot.pinned = c.pinned_;
  snapshot.forked_from = c.forked_from_;
  snapshot.fork_position = std::min(c.n_borrowed_, n);
  const int64_t n_pages = options_.trunk->PagesFor(n);
  for (int64_t i = 0; i < n_pages; ++i) snapshot.pages.emplace_back(c.pages_[i]);
  if (n > 0) snapshot.running = BlockReader(c.running_);
  for (const Checkpoint& checkpoint : c.checkpoints_) {
    snapshot.checkpoints.push_back(
        {checkpoint.position, checkpoint.kind, BlockReader(checkpoint.running)});
  }
  return snapshot;
}

std::vector<BlockPtr> StateCache::SharedPages(TokenView tokens, bool with_draft) const {
  std::vector<BlockPtr> best;
  for (const auto& [owner, common] : index_.Along(tokens)) {
    const Conversation* const c = ByOwner(owner);
    if (c == nullptr || (with_draft && !c->has_draft_)) continue;
    const size_t n_full = std::min(common, c->n_computed_) / page_tokens();
    if (n_full > best.size()) best.assign(c->pages_.begin(), c->pages_.begin() + n_full);
  }
  return best;
}

Result<BlockPtr> StateCache::AllocatePage(bool with_draft) {
  return AllocateBlock(page_pool_.get(), with_draft, nullptr, {});
}

Result<BlockPtr> StateCache::AllocateRunning(bool with_draft) {
  return AllocateBlock(running_pool_.get(), with_draft, nullptr, {});
}

namespace {

Status CheckRestored(const RestoredConversation& r, const StateLayout& layout) {
  const auto wrong = [&](std::string what) {
    return InvalidArgumentError(fmt::format("conversation {}: {}", r.id, what));
  };
  const int64_t n = r.tokens.size();
  if (n == 0) return wrong("0 tokens, wanted at least 1");
  if (static_cast<int64_t>(r.pages.size()) != layout.PagesFor(n)) {
    return wrong(
        fmt::format("{} pages, wanted {} for {} tokens", r.pages.size(), layout.PagesFor(n), n));
  }
  const auto fits = [&](const BlockPtr& block) {
    return block != nullptr && (!r.has_draft || block->draft != nullptr);
  };
  if (!std::ranges::all_of(r.pages, fits) || !fits(r.running)) {
    return wrong("a page or running state without its draft part");
  }
  int64_t below = 0;
  for (const Checkpoint& checkpoint : r.checkpoints) {
    if (checkpoint.position <= below || checkpoint.position > n || !fits(checkpoint.running)) {
      return wrong(fmt::format("a checkpoint at {} behind one at {}, wanted ascending up to {}",
                               checkpoint.position, below, n));
    }
    below = checkpoint.position;
  }
  return OkStatus();
}

}  // namespace

Result<Conversation*> StateCache::Adopt(RestoredConversation restored) {
  if (!restored.id.empty() && by_id_.find(restored.id) != by_id_.end()) {
    return AlreadyExistsError(fmt::format("conversation {}: already in memory", restored.id));
  }
  HF_RETURN_IF_ERROR(CheckRestored(restored, *options_.trunk));
  const int64_t n = restored.tokens.size();
  for (size_t i = 0; i < n / page_tokens(); ++i) {
    HF_RETURN_IF_ERROR(page_pool_->Seal(restored.pages[i].get()));
  }
  Conversation* const c = NewConversation(restored.id, restored.tokens);
  c->has_draft_ = restored.has_draft && options_.draft != nullptr;
  c->pinned_ = restored.pinned;
  c->forked_from_ = restored.forked_from;
  if (!restored.forked_from.empty()) c->n_borrowed_ = n;
  c->next_token_ = restored.next_token;
  if (n % page_tokens() != 0) restored.pages.back()->writer = c->owner_;
  for (BlockPtr& page : restored.pages) PushPage(c, std::move(page));
  SetRunning(c, std::move(restored.running));
  c->n_computed_ = n;
  for (Checkpoint& checkpoint : restored.checkpoints) {
    AddCheckpoint(c, checkpoint.position, checkpoint.kind, std::move(checkpoint.running));
  }
  SetBound(c, false);
  index_.AddPoint(c->owner_, {.position = n, .kind = PointKind::kLiveEnd});
  PublishStats();
  return c;
}

void StateCache::RegisterDisk(const std::string& id, TokenView tokens,
                              std::span<const DiskPoint> points) {
  UnregisterDisk(id);
  const OwnerId owner = next_owner_++;
  index_.Add(owner, std::make_shared<TokenSequence>(tokens));
  index_.Touch(owner, ++use_clock_);
  for (const DiskPoint& point : points) {
    index_.AddPoint(owner, {.position = point.position,
                            .kind = point.kind,
                            .tier = Tier::kDisk,
                            .payload = point.payload});
  }
  disk_[id] = {owner, {points.begin(), points.end()}};
  disk_ids_[owner] = id;
  Trim();
}

void StateCache::UnregisterDisk(const std::string& id) {
  const auto it = disk_.find(id);
  if (it == disk_.end()) return;
  index_.Remove(it->second.owner);
  disk_ids_.erase(it->second.owner);
  disk_.erase(it);
  PublishStats();
}

bool StateCache::OnDisk(const Conversation& c) const {
  return index_.DeepestOther(c.owner_, c.n_computed_, Tier::kDisk) == c.n_computed_;
}

}  // namespace holdfast

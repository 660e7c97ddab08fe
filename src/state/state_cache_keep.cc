#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "state/state_cache.h"

namespace holdfast {

bool StateCache::Park(Conversation* c) {
  HF_CHECK(c->bound_);
  const int64_t n = c->n_computed_;
  const bool too_short = n < options_.params.min_write_tokens && !c->pinned_ && !c->named_;
  if (n == 0 || too_short) {
    ++counts_.n_not_kept;
    Erase(c);
    PublishStats();
    return false;
  }
  KeepPages(c, options_.trunk->PagesFor(n));
  if (c->n_tokens() > n) {
    c->next_token_ = c->tokens().key(n);
    CutTokens(c, n);
  }
  c->marks_.clear();
  ThinOut(c);  // it may have inherited more than it is long enough for
  SetBound(c, false);
  index_.AddPoint(c->owner_, {.position = n, .kind = PointKind::kLiveEnd});
  Touch(c);
  const OwnerId owner = c->owner_;
  EvictionNeed need = NeedOf(*c);
  need.spare_longer = false;  // it goes first itself
  DropSuperseded(c);
  TrimFor(need);
  PublishStats();
  return ByOwner(owner) != nullptr;
}

bool StateCache::ParkAtCheckpoint(Conversation* c) {
  const int64_t position = c->checkpoints_.empty() ? 0 : c->checkpoints_.back().position;
  // At n_computed() itself the live end may be a copy that was written since.
  SetRunning(c, nullptr);
  const Status status = Truncate(c, position);
  HF_CHECK(status.ok());
  return Park(c);
}

void StateCache::Discard(Conversation* c) {
  Erase(c);
  PublishStats();
}

// Everything that the shorter one can be resumed at, the longer one can too, from the same pages.
bool StateCache::Supersedes(const Conversation& longer, const Conversation& shorter) const {
  if (shorter.bound_ || shorter.pinned_ || shorter.named_ || longer.bound_) return false;
  if (shorter.has_draft_ && !longer.has_draft_) return false;
  if (longer.n_computed_ < shorter.n_computed_) return false;
  const size_t n_full = shorter.n_computed_ / page_tokens();
  for (size_t i = 0; i < n_full; ++i) {
    if (longer.pages_[i] != shorter.pages_[i]) return false;
  }
  const auto resumable = [&](int64_t position) {
    return position == longer.n_computed_ ||
           std::ranges::binary_search(longer.checkpoints_, position, {}, &Checkpoint::position);
  };
  return resumable(shorter.n_computed_) &&
         std::ranges::all_of(shorter.checkpoints_, resumable, &Checkpoint::position);
}

void StateCache::DropSuperseded(Conversation* c) {
  for (OwnerId owner : index_.PrefixesOf(c->owner_)) {
    Conversation* const shorter = ByOwner(owner);
    if (shorter == nullptr || !Supersedes(*c, *shorter)) continue;
    ++counts_.n_superseded;
    Erase(shorter);
  }
  for (OwnerId owner : index_.Sharing(c->owner_, c->n_computed_)) {
    const Conversation* const longer = ByOwner(owner);
    if (longer == nullptr || !Supersedes(*longer, *c)) continue;
    ++counts_.n_superseded;
    Erase(c);
    return;
  }
}

EvictionNeed StateCache::NeedOf(const Conversation& c) const {
  EvictionNeed need;
  need.one_shot = c.n_returns_ == 0;
  need.n_tokens = c.n_tokens();
  // While others run there is something to wait for. Alone it finds the work bytes free, unless the
  // host has less than was planned: then serving comes before keeping.
  need.spare_longer =
      need.one_shot && need.n_tokens <= options_.params.short_tokens && bound_.size() > 1;
  return need;
}

EvictionCandidate StateCache::CandidateOf(const Conversation& c) const {
  EvictionCandidate candidate;
  candidate.owner = c.owner_;
  candidate.n_tokens = c.n_computed_;
  candidate.exclusive_bytes = ExclusiveBytes(c);
  candidate.age_s = AgeSeconds(c);
  candidate.n_returns = c.n_returns_;
  candidate.pinned = c.pinned_;
  const int64_t elsewhere = index_.DeepestOther(c.owner_, c.n_computed_, Tier::kRam);
  candidate.seconds_saved = static_cast<double>(c.n_computed_ - elsewhere) * seconds_per_token_;
  if (OnDisk(c)) {
    candidate.seconds_saved =
        std::min(candidate.seconds_saved,
                 static_cast<double>(candidate.exclusive_bytes) * seconds_per_byte_);
  }
  return candidate;
}

StateCache::Evicted StateCache::EvictOne(const EvictionNeed& need, bool pinned_too,
                                         bool only_on_disk) {
  std::vector<EvictionCandidate> candidates;
  for (const auto& [owner, c] : conversations_) {
    if (!c->bound_ && (pinned_too || !c->pinned_)) candidates.push_back(CandidateOf(*c));
  }
  bool saving = false;
  for (const EvictionCandidate& candidate : EvictionOrder(std::move(candidates), need)) {
    Conversation* const c = ByOwner(candidate.owner);
    if (!OnDisk(*c)) {
      // One save at a time is begun for one need; meanwhile what is on disk can go.
      if (only_on_disk || saving) continue;
      if (evict_hook_ && evict_hook_(*c) == EvictAnswer::kSaving) {
        saving = true;
        continue;
      }
    }
    ++counts_.n_evicted;
    Erase(c);
    return Evicted::kYes;
  }
  return saving ? Evicted::kSaving : Evicted::kNone;
}

void StateCache::TrimFor(const EvictionNeed& need) {
  while (parked_bytes_ > options_.params.cache_ram_bytes) {
    if (EvictOne(need, /*pinned_too=*/true, /*only_on_disk=*/false) != Evicted::kYes) return;
  }
}

void StateCache::Trim() {
  TrimFor({});
  PublishStats();
}

Result<BlockPtr> StateCache::AllocateBlock(BlockPool* pool, bool with_draft,
                                           const StateBlock* source, const EvictionNeed& need) {
  while (true) {
    auto block = source ? pool->Clone(*source, with_draft) : pool->Allocate(with_draft);
    if (block.ok() || block.status().code() != StatusCode::kResourceExhausted) return block;
    // Free buffers of the other size first.
    if (page_pool_->ReleaseFree() + running_pool_->ReleaseFree() > 0) continue;
    switch (EvictOne(need, /*pinned_too=*/true, /*only_on_disk=*/false)) {
      case Evicted::kYes:
        break;
      case Evicted::kSaving:
        return UnavailableError(block.status().message() +
                                "; a parked conversation is being saved to make room");
      case Evicted::kNone:
        if (snapshots_.use_count() > 1) {
          return UnavailableError(block.status().message() + "; some of it is being saved");
        }
        return block.status();
    }
  }
}

Result<BlockPtr> StateCache::AllocateFor(Conversation* c, BlockPool* pool,
                                         const StateBlock* source) {
  while (true) {
    auto block = AllocateBlock(pool, c->has_draft_, source, NeedOf(*c));
    if (block.ok() || block.status().code() != StatusCode::kResourceExhausted) return block;
    if (!GiveUpCheckpoint(c)) return block;
  }
}

// Reading again what lies behind a checkpoint is better than failing for want of its memory.
bool StateCache::GiveUpCheckpoint(Conversation* c) {
  std::vector<CheckpointMark> kept;
  for (const Checkpoint& checkpoint : c->checkpoints_) {
    kept.push_back({checkpoint.position, checkpoint.kind});
  }
  const auto index = CheckpointToGiveUp(options_.policy, c->n_computed_, kept);
  if (!index) return false;
  DropCheckpoint(c, *index);
  ++counts_.n_checkpoints_thinned;
  return true;
}

size_t StateCache::Release(GiveBack level, size_t bytes) {
  const size_t before = budget_->taken_bytes();
  const auto given = [&] {
    page_pool_->ReleaseFree();
    running_pool_->ReleaseFree();
    return before - std::min(before, budget_->taken_bytes());
  };
  size_t given_bytes = given();
  if (level != GiveBack::kFreeBuffers) {
    const bool only_on_disk = level == GiveBack::kOnDisk;
    while (given_bytes < bytes &&
           EvictOne({}, /*pinned_too=*/false, only_on_disk) == Evicted::kYes) {
      given_bytes = given();
    }
  }
  PublishStats();
  return given_bytes;
}

}  // namespace holdfast

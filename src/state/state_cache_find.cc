#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "state/conversation_id.h"
#include "state/state_cache.h"

namespace holdfast {

void PrefixMatch::TakeNothing(MatchLimit why) {
  source = MatchSource::kNone;
  position = 0;
  owner_ = 0;
  live_end = false;
  conversation.clear();
  limit = why;
}

PrefixMatch StateCache::Find(TokenView prompt, std::string_view named) const {
  const IndexMatch found = index_.Find(prompt);
  PrefixMatch match;
  match.common = found.common;
  match.differs = found.differs;
  match.expected = found.expected;
  match.found = found.found;
  if (found.common_owner != 0) {
    const Conversation* const c = ByOwner(found.common_owner);
    match.common_conversation = c ? c->id_ : disk_ids_.at(found.common_owner);
  }
  match.owner_ = found.owner;
  match.position = found.point.position;
  match.live_end = found.owner != 0 && found.point.kind == PointKind::kLiveEnd;
  match.payload = found.point.payload;
  const bool on_disk = found.owner != 0 && found.point.tier == Tier::kDisk;
  if (on_disk) {
    match.source = MatchSource::kDisk;
    match.conversation = disk_ids_.at(found.owner);
  }
  FindAmongBound(prompt, &match);
  if (!named.empty()) PreferNamed(prompt, named, &match);
  if (const Conversation* const donor = ByOwner(match.owner_)) {
    match.conversation = donor->id_;
    match.source = SourceOf(*donor, match);
  }
  match.limit = LimitOf(prompt, match);
  if (match.position > 0 && match.position < options_.params.min_read_tokens) {
    match.TakeNothing(MatchLimit::kTooShort);
  }
  return match;
}

// Live ends of bound conversations move with every step; they are few, so they are looked at one by
// one instead of being kept in the index.
void StateCache::FindAmongBound(TokenView prompt, PrefixMatch* match) const {
  std::vector<int64_t> common;
  for (const Conversation* c : bound_) {
    common.push_back(FirstDifference(c->tokens(), prompt));
    const int64_t usable = c->n_computed_;
    if (usable == 0 || usable > common.back() || usable >= prompt.size()) continue;
    const bool tie =
        usable == match->position && (match->source == MatchSource::kDisk || !match->live_end);
    if (usable < match->position || (usable == match->position && !tie)) continue;
    match->position = usable;
    match->owner_ = c->owner_;
    match->live_end = true;
    match->source = MatchSource::kBorrowed;
  }
  for (size_t i = 0; i < bound_.size(); ++i) {
    const int64_t useful = std::min(common[i], prompt.size() - 1);
    if (useful <= bound_[i]->n_computed_ || useful <= match->position) continue;
    if (common[i] <= match->reading_common) continue;
    match->reading_conversation = bound_[i]->id_;
    match->reading_common = common[i];
  }
}

void StateCache::PreferNamed(TokenView prompt, std::string_view named, PrefixMatch* match) const {
  const auto it = by_id_.find(named);
  const Conversation* const c = it == by_id_.end() ? nullptr : ByOwner(it->second);
  if (c == nullptr || c->bound_ || c->n_computed_ == 0 || c->n_computed_ != match->position ||
      FirstDifference(c->tokens(), prompt) < c->n_computed_) {
    return;
  }
  match->owner_ = c->owner_;
  match->live_end = true;
}

MatchSource StateCache::SourceOf(const Conversation& donor, const PrefixMatch& match) const {
  if (match.live_end && !donor.bound_) return MatchSource::kLive;
  if (donor.bound_) return MatchSource::kBorrowed;
  // Beyond the system prompt it is the same dialogue, edited; up to there only the same client.
  int64_t system = 0;
  for (const Checkpoint& c : donor.checkpoints_) {
    if (c.kind == CheckpointKind::kSystem) system = std::max(system, c.position);
  }
  return match.position > system ? MatchSource::kCheckpoint : MatchSource::kBorrowed;
}

MatchLimit StateCache::LimitOf(TokenView prompt, const PrefixMatch& match) const {
  if (match.common == 0) return MatchLimit::kNothingKept;
  if (match.position == match.common) {
    return match.differs ? MatchLimit::kDiffers : MatchLimit::kExtends;
  }
  if (match.position == prompt.size() - 1) return MatchLimit::kWholePrompt;
  return match.reading_common > match.position ? MatchLimit::kNotComputed
                                               : MatchLimit::kNoCheckpoint;
}

Result<Conversation*> StateCache::Begin(const PrefixMatch& match, TokenView prompt,
                                        const BeginOptions& options) {
  if (prompt.size() == 0) return InvalidArgumentError("a prompt of 0 tokens, wanted at least 1");
  if (match.source == MatchSource::kDisk) {
    return FailedPreconditionError(
        fmt::format("conversation {}: on disk, must be loaded first", match.conversation));
  }
  Conversation* c = nullptr;
  if (match.source == MatchSource::kNone) {
    c = NewConversation(FreshId(), prompt);
    c->has_draft_ = options.with_draft && options_.draft != nullptr;
  } else {
    Conversation* const donor = ByOwner(match.owner_);
    if (donor == nullptr || match.position >= prompt.size() ||
        match.position > donor->n_computed_ ||
        FirstDifference(donor->tokens(), prompt) < match.position) {
      return FailedPreconditionError(
          fmt::format("conversation {}: no longer what was matched", match.conversation));
    }
    // Somebody's conversation of another name stays his.
    const bool is_theirs = !options.id.empty() && donor->named_ && donor->id_ != options.id;
    if (match.source == MatchSource::kLive && !is_theirs) {
      HF_ASSIGN_OR_RETURN(c, Continue(donor, match, prompt));
    } else {
      HF_ASSIGN_OR_RETURN(c, Branch(*donor, match, prompt, FreshId()));
    }
  }
  if (!options.id.empty()) TakeId(c, options.id);
  c->marks_ = PlanCheckpoints(options_.policy, c->n_computed_, prompt.size(), options.marks);
  ++counts_.n_begun[static_cast<size_t>(match.source)];
  counts_.n_tokens_reused += c->n_computed_;
  PublishStats();
  return c;
}

Result<Conversation*> StateCache::Continue(Conversation* c, const PrefixMatch& match,
                                           TokenView prompt) {
  if (c->bound_ || c->n_computed_ != match.position) {
    return FailedPreconditionError(
        fmt::format("conversation {}: no longer parked at {} tokens", c->id_, match.position));
  }
  index_.RemovePoint(c->owner_, c->n_computed_, PointKind::kLiveEnd, Tier::kRam);
  SetBound(c, true);
  c->tokens_->AppendFrom(prompt, c->n_computed_);
  index_.Extend(c->owner_);
  c->next_token_.reset();
  ++c->n_returns_;
  Touch(c);
  return c;
}

Result<Conversation*> StateCache::Branch(const Conversation& donor, const PrefixMatch& match,
                                         TokenView prompt, std::string id) {
  BlockPtr running;
  if (match.live_end && donor.n_computed_ == match.position) running = donor.running_;
  for (const Checkpoint& checkpoint : donor.checkpoints_) {
    if (checkpoint.position == match.position) running = checkpoint.running;
  }
  if (running == nullptr) {
    return FailedPreconditionError(fmt::format(
        "conversation {}: nothing kept at {} tokens any more", donor.id_, match.position));
  }
  const int64_t n_returns = match.source == MatchSource::kCheckpoint ? donor.n_returns_ + 1 : 0;
  Conversation* const c =
      ShareInto(donor, match.position, std::move(running), std::move(id), prompt);
  c->n_returns_ = n_returns;
  c->n_borrowed_ = match.position;
  c->forked_from_ = donor.id_;
  // The donor's live end is as good a place to come back to from here; it costs nothing yet.
  if (match.live_end) {
    AddCheckpoint(c, match.position, CheckpointKind::kTurnEnd, c->running_);
  }
  return c;
}

// A new bound conversation on the donor's first `position` tokens.
Conversation* StateCache::ShareInto(const Conversation& donor, int64_t position, BlockPtr running,
                                    std::string id, TokenView tokens) {
  Conversation* const c = NewConversation(std::move(id), tokens);
  c->has_draft_ = donor.has_draft_;
  const int64_t n_pages = options_.trunk->PagesFor(position);
  for (int64_t i = 0; i < n_pages; ++i) PushPage(c, donor.pages_[i]);
  SetRunning(c, std::move(running));
  c->n_computed_ = position;
  for (const Checkpoint& checkpoint : donor.checkpoints_) {
    if (checkpoint.position <= position) {
      AddCheckpoint(c, checkpoint.position, checkpoint.kind, checkpoint.running);
    }
  }
  return c;
}

Result<Conversation*> StateCache::Fork(std::string_view id, std::string new_id) {
  const Conversation* const source = FindById(id);
  if (source == nullptr) return NotFoundError(fmt::format("conversation {}: not in memory", id));
  if (source->n_computed_ == 0) {
    return FailedPreconditionError(fmt::format("conversation {}: nothing computed yet", id));
  }
  if (!new_id.empty()) HF_RETURN_IF_ERROR(CheckConversationId(new_id));
  if (!new_id.empty() && IdTaken(new_id)) {
    return AlreadyExistsError(fmt::format("conversation {}: the id is taken", new_id));
  }
  const int64_t n = source->n_computed_;
  Conversation* const c =
      ShareInto(*source, n, source->running_, new_id.empty() ? FreshId() : new_id,
                source->tokens().Prefix(n));
  c->named_ = true;
  c->n_borrowed_ = n;
  c->forked_from_ = source->id_;
  c->n_returns_ = source->n_returns_;
  c->next_token_ = source->n_tokens() > n ? source->tokens().key(n) : source->next_token_;
  SetBound(c, false);
  index_.AddPoint(c->owner_, {.position = n, .kind = PointKind::kLiveEnd});
  PublishStats();
  return c;
}

}  // namespace holdfast

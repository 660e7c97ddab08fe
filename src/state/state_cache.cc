#include "state/state_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "base/check.h"

namespace holdfast {
namespace {

constexpr std::string_view kFreshPrefix = "conv_";

// Not one that FreshId() made.
bool IsGivenName(std::string_view id) {
  return !id.starts_with(kFreshPrefix) || id.size() != kFreshPrefix.size() + 16;
}

double SteadySeconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::function<uint64_t()> SystemRandom() {
  std::random_device device;
  const uint64_t seed = (uint64_t{device()} << 32) ^ device();
  return [engine = std::mt19937_64(seed)]() mutable { return engine(); };
}

StateCacheOptions WithDefaults(StateCacheOptions options) {
  if (!options.now_s) options.now_s = SteadySeconds;
  if (!options.random_id) options.random_id = SystemRandom();
  return options;
}

}  // namespace

Result<std::unique_ptr<StateCache>> StateCache::Create(StateCacheOptions options) {
  HF_CHECK(options.backend != nullptr && options.trunk != nullptr);
  HF_RETURN_IF_ERROR(options.params.Validate());
  HF_RETURN_IF_ERROR(options.policy.Validate());
  const StateLayout& trunk = *options.trunk;
  const size_t draft_page = options.draft ? options.draft->page_bytes() : 0;
  const size_t draft_running = options.draft ? options.draft->running_bytes() : 0;
  if (options.draft && options.draft->page_tokens() != trunk.page_tokens()) {
    return InvalidArgumentError(fmt::format("draft pages of {} tokens, wanted the trunk's {}",
                                            options.draft->page_tokens(), trunk.page_tokens()));
  }
  const size_t page = trunk.page_bytes() + draft_page;
  const size_t running = trunk.running_bytes() + draft_running;
  const size_t limit = options.params.cache_ram_bytes + options.params.work_bytes;
  if (options.params.work_bytes < page + 2 * running) {
    return ResourceExhaustedError(
        fmt::format("{} B planned for bound conversations, wanted at least one page ({} B) and two "
                    "running states ({} B each): {} B",
                    options.params.work_bytes, page, running, page + 2 * running));
  }
  std::unique_ptr<StateCache> cache(new StateCache(WithDefaults(std::move(options))));
  Backend* const backend = cache->options_.backend;
  cache->budget_ = std::make_shared<MemoryBudget>(limit, cache->options_.consent);
  cache->page_pool_ = BlockPool::Create(backend, cache->budget_, trunk.page_bytes(), draft_page);
  cache->running_pool_ =
      BlockPool::Create(backend, cache->budget_, trunk.running_bytes(), draft_running);
  cache->PublishStats();
  return cache;
}

StateCache::StateCache(StateCacheOptions options) : options_(std::move(options)) {}

StateCache::~StateCache() = default;

Conversation* StateCache::ByOwner(OwnerId owner) const {
  const auto it = conversations_.find(owner);
  return it == conversations_.end() ? nullptr : it->second.get();
}

Conversation* StateCache::FindById(std::string_view id) {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : ByOwner(it->second);
}

bool StateCache::IdTaken(std::string_view id) const {
  return by_id_.find(id) != by_id_.end() || disk_.find(id) != disk_.end();
}

std::string StateCache::FreshId() {
  while (true) {
    std::string id = fmt::format("{}{:016x}", kFreshPrefix, options_.random_id());
    if (!IdTaken(id)) return id;
  }
}

void StateCache::Rename(Conversation* c, std::string id) {
  by_id_.erase(c->id_);
  const std::string from = std::exchange(c->id_, std::move(id));
  by_id_.emplace(c->id_, c->owner_);
  c->named_ = IsGivenName(c->id_);
  if (rename_hook_) rename_hook_(from, c->id_);
}

void StateCache::TakeId(Conversation* c, const std::string& id) {
  if (c->id_ == id) return;
  if (Conversation* const before = FindById(id)) Rename(before, FreshId());
  Rename(c, id);
}

// Bound, without state.
Conversation* StateCache::NewConversation(std::string id, TokenView tokens) {
  auto owned = std::make_unique<Conversation>();
  Conversation* const c = owned.get();
  c->id_ = id.empty() ? FreshId() : std::move(id);
  c->named_ = IsGivenName(c->id_);
  c->owner_ = next_owner_++;
  c->bound_ = true;
  c->tokens_ = std::make_shared<TokenSequence>(tokens);
  conversations_.emplace(c->owner_, std::move(owned));
  by_id_.emplace(c->id_, c->owner_);
  bound_.push_back(c);
  index_.Add(c->owner_, c->tokens_);
  index_.SetBound(c->owner_, true);
  Touch(c);
  return c;
}

void StateCache::Touch(Conversation* c) {
  c->last_used_s_ = options_.now_s();
  index_.Touch(c->owner_, ++use_clock_);
}

void StateCache::Ref(const Conversation& c, StateBlock* block) {
  if (!c.bound_ && block->n_parked == 0) parked_bytes_ += block->bytes();
  ++(c.bound_ ? block->n_bound : block->n_parked);
}

void StateCache::Unref(const Conversation& c, StateBlock* block) {
  int& n = c.bound_ ? block->n_bound : block->n_parked;
  HF_CHECK(n > 0);
  --n;
  if (!c.bound_ && block->n_parked == 0) parked_bytes_ -= block->bytes();
}

void StateCache::SetBound(Conversation* c, bool bound) {
  HF_CHECK(c->bound_ != bound);
  const auto move = [&](StateBlock* block) {
    c->bound_ = !bound;
    Unref(*c, block);
    c->bound_ = bound;
    Ref(*c, block);
  };
  for (const BlockPtr& page : c->pages_) move(page.get());
  if (c->running_) move(c->running_.get());
  for (const Checkpoint& checkpoint : c->checkpoints_) move(checkpoint.running.get());
  c->bound_ = bound;
  index_.SetBound(c->owner_, bound);
  if (bound) {
    bound_.push_back(c);
  } else {
    std::erase(bound_, c);
  }
}

void StateCache::PushPage(Conversation* c, BlockPtr page) {
  Ref(*c, page.get());
  c->trunk_buffers_.push_back(page->trunk.get());
  if (c->has_draft_) c->draft_buffers_.push_back(page->draft.get());
  c->pages_.push_back(std::move(page));
}

void StateCache::ReplacePage(Conversation* c, size_t index, BlockPtr page) {
  Ref(*c, page.get());
  c->trunk_buffers_[index] = page->trunk.get();
  if (c->has_draft_) c->draft_buffers_[index] = page->draft.get();
  std::swap(c->pages_[index], page);
  if (page->writer == c->owner_) page->writer = 0;
  Unref(*c, page.get());
}

void StateCache::KeepPages(Conversation* c, size_t n_pages) {
  while (c->pages_.size() > n_pages) {
    StateBlock* const page = c->pages_.back().get();
    if (page->writer == c->owner_) page->writer = 0;
    Unref(*c, page);
    c->pages_.pop_back();
    c->trunk_buffers_.pop_back();
    if (c->has_draft_) c->draft_buffers_.pop_back();
  }
}

void StateCache::SetRunning(Conversation* c, BlockPtr running) {
  if (running) Ref(*c, running.get());
  std::swap(c->running_, running);
  if (running) Unref(*c, running.get());
}

void StateCache::AddCheckpoint(Conversation* c, int64_t position, CheckpointKind kind,
                               BlockPtr running) {
  const auto it = std::ranges::lower_bound(c->checkpoints_, position, {}, &Checkpoint::position);
  if (it != c->checkpoints_.end() && it->position == position) {
    it->kind = std::max(it->kind, kind);
    return;
  }
  Ref(*c, running.get());
  c->checkpoints_.insert(it, Checkpoint{position, kind, std::move(running)});
  index_.AddPoint(c->owner_, {.position = position, .kind = PointKind::kCheckpoint});
}

void StateCache::DropCheckpoint(Conversation* c, size_t index) {
  const Checkpoint& checkpoint = c->checkpoints_[index];
  index_.RemovePoint(c->owner_, checkpoint.position, PointKind::kCheckpoint, Tier::kRam);
  Unref(*c, checkpoint.running.get());
  c->checkpoints_.erase(c->checkpoints_.begin() + static_cast<int64_t>(index));
}

void StateCache::CutTokens(Conversation* c, int64_t n) {
  if (index_.Registered(c->owner_) <= n) {
    c->tokens_->Truncate(n);
    return;
  }
  index_.Remove(c->owner_);
  c->tokens_->Truncate(n);
  index_.Add(c->owner_, c->tokens_);
  index_.SetBound(c->owner_, c->bound_);
  index_.Touch(c->owner_, ++use_clock_);
  for (const Checkpoint& checkpoint : c->checkpoints_) {
    index_.AddPoint(c->owner_, {.position = checkpoint.position, .kind = PointKind::kCheckpoint});
  }
}

void StateCache::Erase(Conversation* c) {
  index_.Remove(c->owner_);
  for (const Checkpoint& checkpoint : c->checkpoints_) Unref(*c, checkpoint.running.get());
  SetRunning(c, nullptr);
  KeepPages(c, 0);
  if (c->bound_) std::erase(bound_, c);
  by_id_.erase(c->id_);
  conversations_.erase(c->owner_);
}

std::vector<const Conversation*> StateCache::List() const {
  std::vector<const Conversation*> list;
  for (const auto& [owner, c] : conversations_) list.push_back(c.get());
  std::ranges::sort(list, [](const Conversation* a, const Conversation* b) {
    return std::pair(a->last_used_s_, a->owner_) > std::pair(b->last_used_s_, b->owner_);
  });
  return list;
}

Status StateCache::SetPinned(std::string_view id, bool pinned) {
  Conversation* const c = FindById(id);
  if (c == nullptr) return NotFoundError(fmt::format("conversation {}: not in memory", id));
  c->pinned_ = pinned;
  return OkStatus();
}

namespace {

struct HeldBytes {
  size_t exclusive = 0, shared = 0;
};

HeldBytes BytesOf(const Conversation& c) {
  // A running state may be named by the live end and by a checkpoint, both its own.
  std::map<const StateBlock*, int> own;
  for (const BlockPtr& page : c.pages()) ++own[page.get()];
  if (c.running_block()) ++own[c.running_block().get()];
  for (const Checkpoint& checkpoint : c.checkpoints()) ++own[checkpoint.running.get()];
  HeldBytes bytes;
  for (const auto& [block, n] : own) {
    (block->n_owners() == n ? bytes.exclusive : bytes.shared) += block->bytes();
  }
  return bytes;
}

}  // namespace

size_t StateCache::ExclusiveBytes(const Conversation& c) const { return BytesOf(c).exclusive; }

size_t StateCache::SharedBytes(const Conversation& c) const { return BytesOf(c).shared; }

double StateCache::AgeSeconds(const Conversation& c) const {
  return options_.now_s() - c.last_used_s_;
}

void StateCache::PublishStats() {
  counts_.pages = page_pool_->counters();
  counts_.running = running_pool_->counters();
  counts_.limit_bytes = budget_->limit_bytes();
  counts_.taken_bytes = budget_->taken_bytes();
  counts_.peak_bytes = budget_->peak_bytes();
  counts_.parked_bytes = parked_bytes_;
  counts_.n_bound = static_cast<int64_t>(bound_.size());
  counts_.n_parked = static_cast<int64_t>(conversations_.size() - bound_.size());
  counts_.n_on_disk = static_cast<int64_t>(disk_.size());
  std::lock_guard lock(stats_mutex_);
  stats_ = counts_;
}

StateCacheStats StateCache::stats() const {
  std::lock_guard lock(stats_mutex_);
  return stats_;
}

}  // namespace holdfast

#include "state/block_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace holdfast {

MemoryBudget::MemoryBudget(size_t limit_bytes, Consent consent)
    : limit_bytes_(limit_bytes), consent_(std::move(consent)) {}

Status MemoryBudget::Take(size_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes > limit_bytes_ - taken_bytes_) {
    return ResourceExhaustedError(
        fmt::format("conversation state: {} B wanted, {} of {} B are taken", bytes, taken_bytes_,
                    limit_bytes_));
  }
  if (consent_) HF_RETURN_IF_ERROR(consent_(bytes));
  taken_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, taken_bytes_);
  return OkStatus();
}

void MemoryBudget::Give(size_t bytes) {
  std::lock_guard lock(mutex_);
  HF_CHECK(bytes <= taken_bytes_);
  taken_bytes_ -= bytes;
}

size_t MemoryBudget::taken_bytes() const {
  std::lock_guard lock(mutex_);
  return taken_bytes_;
}

size_t MemoryBudget::peak_bytes() const {
  std::lock_guard lock(mutex_);
  return peak_bytes_;
}

std::shared_ptr<BlockPool> BlockPool::Create(Backend* backend, std::shared_ptr<MemoryBudget> budget,
                                             size_t trunk_bytes, size_t draft_bytes) {
  // The constructor is private, so make_shared cannot reach it.
  return std::shared_ptr<BlockPool>(
      std::unique_ptr<BlockPool>(
          new BlockPool(backend, std::move(budget), trunk_bytes, draft_bytes))
          .release());
}

BlockPool::BlockPool(Backend* backend, std::shared_ptr<MemoryBudget> budget, size_t trunk_bytes,
                     size_t draft_bytes)
    : backend_(backend),
      budget_(std::move(budget)),
      trunk_bytes_(trunk_bytes),
      draft_bytes_(draft_bytes) {}

// Every block holds the pool, so there are only free buffers left.
BlockPool::~BlockPool() { ReleaseFree(); }

Result<BlockPool::Taken> BlockPool::TakeBuffer(std::vector<FreeBuffer>* free, size_t bytes) {
  FreeBuffer found;
  {
    std::lock_guard lock(mutex_);
    if (!free->empty()) {
      found = std::move(free->back());
      free->pop_back();
    }
  }
  if (found.buffer == nullptr) {
    HF_RETURN_IF_ERROR(budget_->Take(bytes));
    auto buffer = backend_->Allocate(bytes);
    if (!buffer.ok()) {
      budget_->Give(bytes);
      return buffer.status();
    }
    return Taken{*std::move(buffer), false};
  }
  if (found.read_only) {
    const Status status = backend_->SetReadOnly(found.buffer.get(), false);
    if (!status.ok()) {
      budget_->Give(bytes);
      return status;
    }
  }
  return Taken{std::move(found.buffer), true};
}

Result<std::unique_ptr<Buffer>> BlockPool::ZeroBuffer(std::vector<FreeBuffer>* free, size_t bytes) {
  HF_ASSIGN_OR_RETURN(Taken taken, TakeBuffer(free, bytes));
  if (taken.recycled) {
    const Status status =
        backend_->WithHostBytes(taken.buffer.get(), [](std::span<std::byte> bytes_now) {
          std::memset(bytes_now.data(), 0, bytes_now.size());
          return OkStatus();
        });
    if (!status.ok()) {
      budget_->Give(bytes);
      return status;
    }
  }
  return std::move(taken.buffer);
}

Result<std::unique_ptr<Buffer>> BlockPool::CopyBuffer(std::vector<FreeBuffer>* free,
                                                      Buffer* source) {
  HF_ASSIGN_OR_RETURN(Taken taken, TakeBuffer(free, source->bytes()));
  const Status status = backend_->Copy(
      {.src = {source, 0}, .dst = {taken.buffer.get(), 0}, .bytes = source->bytes()});
  if (!status.ok()) {
    budget_->Give(source->bytes());
    return status;
  }
  return std::move(taken.buffer);
}

BlockPtr BlockPool::Adopt(std::unique_ptr<StateBlock> block, bool copied) {
  {
    std::lock_guard lock(mutex_);
    ++counters_.n_allocated;
    counters_.n_copied += copied;
    ++counters_.n_in_use;
    counters_.in_use_bytes += block->bytes();
  }
  return BlockPtr(block.release(), [pool = shared_from_this()](StateBlock* b) {
    pool->Return(std::unique_ptr<StateBlock>(b));
  });
}

Result<BlockPtr> BlockPool::Allocate(bool with_draft) {
  auto block = std::make_unique<StateBlock>();
  HF_ASSIGN_OR_RETURN(block->trunk, ZeroBuffer(&free_trunk_, trunk_bytes_));
  if (with_draft && draft_bytes_ != 0) {
    auto draft = ZeroBuffer(&free_draft_, draft_bytes_);
    if (!draft.ok()) {
      // Not into the free list: the caller would take it for memory that can be given back.
      block->trunk.reset();
      budget_->Give(trunk_bytes_);
      return draft.status();
    }
    block->draft = *std::move(draft);
  }
  return Adopt(std::move(block), /*copied=*/false);
}

Result<BlockPtr> BlockPool::Clone(const StateBlock& source, bool with_draft) {
  auto block = std::make_unique<StateBlock>();
  HF_ASSIGN_OR_RETURN(block->trunk, CopyBuffer(&free_trunk_, source.trunk.get()));
  if (with_draft && source.draft != nullptr) {
    auto draft = CopyBuffer(&free_draft_, source.draft.get());
    if (!draft.ok()) {
      // Not into the free list: the caller would take it for memory that can be given back.
      block->trunk.reset();
      budget_->Give(trunk_bytes_);
      return draft.status();
    }
    block->draft = *std::move(draft);
  }
  return Adopt(std::move(block), /*copied=*/true);
}

Status BlockPool::SetReadOnly(StateBlock* block, bool read_only) {
  HF_RETURN_IF_ERROR(backend_->SetReadOnly(block->trunk.get(), read_only));
  if (block->draft != nullptr) {
    HF_RETURN_IF_ERROR(backend_->SetReadOnly(block->draft.get(), read_only));
  }
  block->sealed = read_only;
  return OkStatus();
}

Status BlockPool::Seal(StateBlock* block) {
  return block->sealed ? OkStatus() : SetReadOnly(block, true);
}

Status BlockPool::Unseal(StateBlock* block) {
  return block->sealed ? SetReadOnly(block, false) : OkStatus();
}

void BlockPool::Return(std::unique_ptr<StateBlock> block) {
  std::lock_guard lock(mutex_);
  --counters_.n_in_use;
  counters_.in_use_bytes -= block->bytes();
  free_trunk_.push_back({std::move(block->trunk), block->sealed});
  if (block->draft != nullptr) free_draft_.push_back({std::move(block->draft), block->sealed});
}

size_t BlockPool::ReleaseFree() {
  std::vector<FreeBuffer> trunk, draft;
  {
    std::lock_guard lock(mutex_);
    trunk.swap(free_trunk_);
    draft.swap(free_draft_);
  }
  const size_t bytes = trunk.size() * trunk_bytes_ + draft.size() * draft_bytes_;
  trunk.clear();
  draft.clear();
  budget_->Give(bytes);
  return bytes;
}

size_t BlockPool::free_bytes() const {
  std::lock_guard lock(mutex_);
  return free_trunk_.size() * trunk_bytes_ + free_draft_.size() * draft_bytes_;
}

PoolCounters BlockPool::counters() const {
  std::lock_guard lock(mutex_);
  PoolCounters counters = counters_;
  counters.n_free = static_cast<int64_t>(free_trunk_.size());
  return counters;
}

}  // namespace holdfast

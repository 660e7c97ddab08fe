#ifndef HOLDFAST_STATE_BLOCK_POOL_H_
#define HOLDFAST_STATE_BLOCK_POOL_H_

// Where pages and running states come from: pooled backend buffers under one budget.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/status.h"
#include "ops/backend.h"
#include "state/layout.h"

namespace holdfast {

// Bytes that pages and running states together may take, free ones in the pools included. Grows
// only up to `limit_bytes`, and only when `consent` (the memory guard) agrees to each growth.
// Threads: any.
class MemoryBudget {
 public:
  using Consent = std::function<Status(size_t bytes)>;
  explicit MemoryBudget(size_t limit_bytes, Consent consent = nullptr);
  // kResourceExhausted with the arithmetic when it does not fit; the guard's own status when it
  // refuses.
  Status Take(size_t bytes);
  void Give(size_t bytes);
  size_t limit_bytes() const { return limit_bytes_; }
  size_t taken_bytes() const;
  size_t peak_bytes() const;

 private:
  const size_t limit_bytes_;
  const Consent consent_;
  mutable std::mutex mutex_;
  size_t taken_bytes_ = 0, peak_bytes_ = 0;  // guarded by mutex_
};

// A page or a running state: the trunk's buffer, and the draft layer's where there is one.
// Everything but `n_readers` belongs to the engine's thread.
struct StateBlock {
  std::unique_ptr<Buffer> trunk;
  std::unique_ptr<Buffer> draft;  // null: without a draft part
  // Read-only. Pages: full and accepted. Running states: a kept checkpoint.
  bool sealed = false;
  // How many conversations name this block (a running state: once per live end or checkpoint).
  int n_bound = 0, n_parked = 0;
  // Snapshots that are being read, possibly by other threads. No writes while there are any.
  std::atomic<int> n_readers{0};
  // Pages only: the conversation that appends to it (0: nobody).
  uint64_t writer = 0;

  int n_owners() const { return n_bound + n_parked; }
  bool exclusive() const {
    return n_owners() <= 1 && n_readers.load(std::memory_order_acquire) == 0;
  }
  size_t bytes() const { return trunk->bytes() + (draft ? draft->bytes() : 0); }
};
using BlockPtr = std::shared_ptr<StateBlock>;

struct PoolCounters {
  int64_t n_allocated = 0;  // blocks taken out of the pool, ever
  int64_t n_copied = 0;     // of them, as a copy of another
  int64_t n_in_use = 0;     // now
  int64_t n_free = 0;       // now, kept for the next
  size_t in_use_bytes = 0;
};

// Blocks of one size. The last BlockPtr to go puts the buffers into the free list. Backend calls
// are made on the caller's thread only; Release from any thread touches no backend.
class BlockPool : public std::enable_shared_from_this<BlockPool> {
 public:
  // `draft_bytes` 0: no draft parts. `backend` outlives the pool and its blocks.
  static std::shared_ptr<BlockPool> Create(Backend* backend, std::shared_ptr<MemoryBudget> budget,
                                           size_t trunk_bytes, size_t draft_bytes);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // A writable block, all zero: what another conversation left in it never shows.
  Result<BlockPtr> Allocate(bool with_draft);
  // A writable block with the bytes of `source` (its draft part only if `with_draft`).
  Result<BlockPtr> Clone(const StateBlock& source, bool with_draft);
  Status Seal(StateBlock* block);
  Status Unseal(StateBlock* block);
  // Gives free buffers back to the system. Returns the bytes.
  size_t ReleaseFree();
  size_t block_bytes(bool with_draft) const {
    return trunk_bytes_ + (with_draft ? draft_bytes_ : 0);
  }
  size_t free_bytes() const;
  PoolCounters counters() const;

 private:
  BlockPool(Backend* backend, std::shared_ptr<MemoryBudget> budget, size_t trunk_bytes,
            size_t draft_bytes);
  struct FreeBuffer {
    std::unique_ptr<Buffer> buffer;
    bool read_only = false;  // came back sealed; made writable when it is taken again
  };
  struct Taken {
    std::unique_ptr<Buffer> buffer;
    bool recycled = false;
  };
  Result<Taken> TakeBuffer(std::vector<FreeBuffer>* free, size_t bytes);
  Result<std::unique_ptr<Buffer>> ZeroBuffer(std::vector<FreeBuffer>* free, size_t bytes);
  Result<std::unique_ptr<Buffer>> CopyBuffer(std::vector<FreeBuffer>* free, Buffer* source);
  BlockPtr Adopt(std::unique_ptr<StateBlock> block, bool copied);
  Status SetReadOnly(StateBlock* block, bool read_only);
  void Return(std::unique_ptr<StateBlock> block);

  Backend* const backend_;
  const std::shared_ptr<MemoryBudget> budget_;
  const size_t trunk_bytes_, draft_bytes_;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<FreeBuffer> free_trunk_, free_draft_;
  PoolCounters counters_;
};

}  // namespace holdfast

#endif  // HOLDFAST_STATE_BLOCK_POOL_H_

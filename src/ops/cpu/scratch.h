#ifndef HOLDFAST_OPS_CPU_SCRATCH_H_
#define HOLDFAST_OPS_CPU_SCRATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace holdfast {

// Uninitialised memory that is given out piece by piece and taken back all at once. It grows to
// the largest op seen and then allocates nothing more. One thread at a time.
class Scratch {
 public:
  void Reset() {
    // One block that holds what the last round needed; so a steady state has a single block.
    if (blocks_.size() > 1) {
      size_t total = 0;
      for (const Block& block : blocks_) total += block.bytes;
      blocks_.clear();
      AddBlock(total);
    }
    used_ = 0;
  }

  template <typename T>
  T* Get(int64_t n) {
    const size_t bytes =
        (static_cast<size_t>(n) * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    if (blocks_.empty() || used_ + bytes > blocks_.back().bytes) AddBlock(bytes);
    std::byte* p = blocks_.back().data.get() + used_;
    used_ += bytes;
    return reinterpret_cast<T*>(p);
  }

  size_t bytes() const {
    size_t total = 0;
    for (const Block& block : blocks_) total += block.bytes;
    return total;
  }

 private:
  static constexpr size_t kAlignment = 64;
  struct Free {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{kAlignment}); }
  };
  struct Block {
    std::unique_ptr<std::byte, Free> data;
    size_t bytes;
  };

  void AddBlock(size_t bytes) {
    constexpr size_t kMinBlock = size_t{1} << 16;
    if (bytes < kMinBlock) bytes = kMinBlock;
    blocks_.push_back({std::unique_ptr<std::byte, Free>(static_cast<std::byte*>(
                           ::operator new (bytes, std::align_val_t{kAlignment}))),
                       bytes});
    used_ = 0;
  }

  std::vector<Block> blocks_;
  size_t used_ = 0;  // of the last block
};

}  // namespace holdfast

#endif  // HOLDFAST_OPS_CPU_SCRATCH_H_

#ifndef HOLDFAST_WEIGHTS_NGRAM_CACHE_H_
#define HOLDFAST_WEIGHTS_NGRAM_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"

namespace holdfast {

// Rows of the n-gram table in a fixed piece of memory.
//
// A row belongs to one set of places, by its hash. A new row takes, in its set, the place of the
// oldest one that nobody asked for again; every further use (three of them count) spares a row
// once. So one long prompt, most of whose rows are used once, does not turn out those that are used
// again and again.
//
// Threads: one.
class NgramCache {
 public:
  // What one place takes: the row, its number, its uses, and its share of the set's.
  static uint64_t SlotBytes(int64_t row_bytes) { return static_cast<uint64_t>(row_bytes) + 6; }
  // Places of a set.
  static constexpr int kWays = 16;
  // Row numbers are below this.
  static constexpr int64_t kMaxRows = UINT32_MAX;

  // `n_slots` >= 1 is rounded down to whole sets. kResourceExhausted. Memory is resident only where
  // there are rows.
  static Result<NgramCache> Create(int64_t n_slots, int64_t row_bytes);

  // The row's bytes, until the next Put(); null when they are not here. Counts as a use.
  const std::byte* Find(int64_t row);
  // Takes a copy of a row that is not here.
  void Put(int64_t row, const std::byte* bytes);

  int64_t n_slots() const { return n_sets_ * n_ways_; }
  int64_t n_rows() const { return n_rows_; }

 private:
  NgramCache() = default;
  int64_t SetOf(int64_t row) const;

  int64_t row_bytes_ = 0, n_sets_ = 0, n_rows_ = 0;
  int n_ways_ = 0;
  std::unique_ptr<std::byte[]> bytes_;   // by place
  std::unique_ptr<uint32_t[]> numbers_;  // by place: the row's plus one; 0: none
  std::unique_ptr<uint8_t[]> uses_;      // by place: beyond the first, as far as they still count
  std::unique_ptr<uint8_t[]> hands_;     // by set: the place that is looked at next
};

}  // namespace holdfast

#endif  // HOLDFAST_WEIGHTS_NGRAM_CACHE_H_

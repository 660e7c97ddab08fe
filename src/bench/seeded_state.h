#ifndef HOLDFAST_BENCH_SEEDED_STATE_H_
#define HOLDFAST_BENCH_SEEDED_STATE_H_

#include <cstdint>
#include <span>

#include "ops/backend.h"
#include "state/layout.h"

namespace holdfast {

// Fills a conversation's buffers with values that a model could have left there (finite, of usual
// size, different everywhere), where computing them would take too long. A step costs the same on
// them: no op's time depends on values.
//
// Threads: one.
class SeededState {
 public:
  SeededState(Backend* backend, const StateLayout* layout, uint64_t seed)
      : backend_(backend), layout_(layout), random_(seed * 2 + 1) {}

  Status FillPage(Buffer* page) { return Fill(page, layout_->cell_parts()); }
  Status FillRunning(Buffer* running) { return Fill(running, layout_->running_parts()); }

 private:
  Status Fill(Buffer* buffer, std::span<const Part> parts);
  void FillPart(const Part& part, std::span<std::byte> bytes);
  uint64_t Next();

  Backend* const backend_;
  const StateLayout* const layout_;
  uint64_t random_;
};

}  // namespace holdfast

#endif  // HOLDFAST_BENCH_SEEDED_STATE_H_

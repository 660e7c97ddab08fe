#ifndef HOLDFAST_WEIGHTS_EXPERT_RESIDENCY_H_
#define HOLDFAST_WEIGHTS_EXPERT_RESIDENCY_H_

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace holdfast {

// Which experts lie in which slots, and whose slot goes to the next one. Experts are numbered over
// all layers.
//
// An expert's worth is the sum over its uses of 2^(-age / half life): often and lately used ones
// stay, and one look at every expert (a long prompt) does not turn out those that are used again
// and again. The history of experts outside the slots is kept, too.
//
// Threads: one.
class ExpertResidency {
 public:
  ExpertResidency(int n_experts, int n_slots, double half_life);

  int n_slots() const { return static_cast<int>(expert_of_.size()); }
  // -1: in none.
  int SlotOf(int expert) const { return slot_of_[expert]; }
  int ExpertOf(int slot) const { return expert_of_[slot]; }

  // Counts a use at `now` (same unit as the half life, never falling).
  void Use(int expert, double now);
  // log2 of the worth, in a scale that does not move with time; lowest() when never used. Less
  // now / half life it is that of `now`.
  double Worth(int expert) const { return worth_[expert]; }
  // What an earlier run has learned, as of now = 0. Of experts without a slot.
  void SetWorth(int expert, double worth) { worth_[expert] = worth; }

  // A slot is `held` (not to be given away) or free to go. An empty slot is free.
  // The free slot of least worth; none when all are held.
  std::optional<int> LeastWorth() const;
  void Hold(int slot);
  void Free(int slot);

  // The held slot now has this expert, which had none; its former one has none.
  void Place(int expert, int slot);
  // The held slot has nothing.
  void Clear(int slot);

 private:
  const double half_life_;
  std::vector<double> worth_;   // by expert
  std::vector<int> slot_of_;    // by expert
  std::vector<int> expert_of_;  // by slot; -1: empty
  std::vector<double> key_;     // by slot: where it stands in free_
  std::set<std::pair<double, int>> free_;
};

}  // namespace holdfast

#endif  // HOLDFAST_WEIGHTS_EXPERT_RESIDENCY_H_

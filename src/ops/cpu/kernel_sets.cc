// Which kernel sets this CPU can run.

#include <string>

#include "ops/cpu/kernels.h"

namespace holdfast {
namespace {

struct KernelSet {
  const KernelTable* table;
  bool runs_here;
};

// Slowest first.
struct KernelSets {
  KernelSet sets[5];
  int n_sets = 0;
  std::string_view available[5];
  int n_available = 0;

  KernelSets() { Add(&ScalarKernels(), true); }

  void Add(const KernelTable* table, bool runs_here) {
    sets[n_sets++] = {table, runs_here};
    if (runs_here) available[n_available++] = table->name;
  }
};

const KernelSets& Sets() {
  static const KernelSets sets;
  return sets;
}

}  // namespace

Result<const KernelTable*> FindKernels(std::string_view name) {
  const KernelSets& sets = Sets();
  if (name == "auto") name = sets.available[sets.n_available - 1];
  std::string known;
  for (int i = 0; i < sets.n_sets; ++i) {
    const KernelSet& set = sets.sets[i];
    if (set.table->name != name) {
      known += ", " + std::string(set.table->name);
      continue;
    }
    if (set.runs_here) return set.table;
    return FailedPreconditionError("kernels " + std::string(name) +
                                   ": this CPU cannot run them; the fastest it can run is " +
                                   std::string(sets.available[sets.n_available - 1]));
  }
  return InvalidArgumentError("kernels '" + std::string(name) + "': unknown; use auto" + known);
}

std::string_view const* AvailableKernels(int* n) {
  const KernelSets& sets = Sets();
  *n = sets.n_available;
  return sets.available;
}

}  // namespace holdfast

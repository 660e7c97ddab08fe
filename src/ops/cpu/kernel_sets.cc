// Which kernel sets this CPU can run.

#include "ops/cpu/kernel_sets.h"

#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace holdfast {
namespace {

#if defined(__x86_64__)
// What g++ 12 and clang 14 do not both know by name.
bool HasF16cAndLzcnt() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & (1u << 29)) == 0) return false;
  return __get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) != 0 && (ecx & (1u << 5)) != 0;
}
#elif defined(__aarch64__)
bool HasDotProduct() {
#if defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
  return true;  // every Apple CPU of this kind
#endif
}
#endif

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

  KernelSets() {
    Add(&ScalarKernels(), true);
#if defined(__x86_64__)
    // These tell what the CPU has and the system saves: they check XCR0 for AVX and AVX-512 state.
    __builtin_cpu_init();
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                          __builtin_cpu_supports("popcnt") && HasF16cAndLzcnt();
    const bool has_avx512 =
        has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd");
    Add(&avx2::kTable, has_avx2);
    Add(&avx512::kTable, has_avx512);
    Add(&avx512vnni::kTable, has_avx512 && __builtin_cpu_supports("avx512vnni"));
#elif defined(__aarch64__)
    Add(&neon::kTable, HasDotProduct());
#endif
  }

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

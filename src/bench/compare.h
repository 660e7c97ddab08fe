#ifndef HOLDFAST_BENCH_COMPARE_H_
#define HOLDFAST_BENCH_COMPARE_H_

// A run beside an earlier one, with the noise of both taken into account.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/figure.h"

namespace holdfast {

enum class Change { kBetter, kWorse, kSame };
std::string_view ChangeName(Change change);  // "better", "worse", "same"

struct Comparison {
  Change verdict = Change::kSame;
  double before = 0.0;  // tokens per second, the earlier median
  double change = 0.0;  // now / before - 1
  double noise = 0.0;   // changes up to this say nothing: half the ranges of both, at least 2%
};

// Half of a figure's range, as a share of its median. Of a single run nothing is known: 5%.
double NoiseOf(const Spread& spread);
Comparison Compare(const Figure& before, const Figure& now);

// The figures of an earlier run, found by what they measure.
class Baseline {
 public:
  // The file is one --json run. Errors name the file. Of several figures that measure the same the
  // last counts.
  static Result<Baseline> Read(const std::string& path);
  explicit Baseline(std::vector<StoredFigure> figures) : figures_(std::move(figures)) {}

  std::optional<Comparison> CompareTo(const Figure& now) const;
  // What is not the same there (machine, kernels, threads, model, formats), for people; empty:
  // nothing. Differences in speed may come from it.
  std::string Differences(const BenchContext& now) const;

 private:
  std::vector<StoredFigure> figures_;
};

}  // namespace holdfast

#endif  // HOLDFAST_BENCH_COMPARE_H_

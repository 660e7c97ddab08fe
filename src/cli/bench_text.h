#ifndef HOLDFAST_CLI_BENCH_TEXT_H_
#define HOLDFAST_CLI_BENCH_TEXT_H_

// Figures as people read them.

#include <optional>
#include <string>

#include "bench/compare.h"
#include "bench/figure.h"
#include "bench/run_bench.h"

namespace holdfast::cli {

std::string MachineLine(const Machine& machine);
std::string HeaderText(const BenchHeader& header);
std::string FigureColumns();
std::string FigureLine(const Figure& figure, const std::optional<Comparison>& comparison);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_BENCH_TEXT_H_

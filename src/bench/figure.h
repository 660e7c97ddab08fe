#ifndef HOLDFAST_BENCH_FIGURE_H_
#define HOLDFAST_BENCH_FIGURE_H_

// One measured figure: what was done, how fast, how sure.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace holdfast {

// Median and extremes of repeated runs.
struct Spread {
  double median = 0.0, min = 0.0, max = 0.0;
  int n = 0;  // runs
  static Spread Of(std::vector<double> values);
};

// What all figures of a run have in common.
struct BenchContext {
  std::string version;
  std::string cpu;
  int n_cpus = 0;
  double others_busy = 0.0;  // share of the CPUs that other processes took at the start
  int n_threads = 0;
  std::string kernels;
  std::string model;  // its file's name without folder
  uint64_t model_bytes = 0;
  std::string kv, activations;
  double memory_bytes_per_s = 0.0;  // streaming reads, measured
  double int8_ops_per_s = 0.0;      // measured; 0: not known on this CPU
};

struct Figure {
  std::string test;   // prefill, decode, park, restore, save, load
  int64_t n = 0;      // tokens read, decoded (by each slot), kept or brought back
  int64_t depth = 0;  // tokens before them
  int n_slots = 1;
  std::string draft = "off";      // "off", "on"
  std::string prompt = "random";  // tokens at random, "text", or "none": bytes of no model
  // Where the tokens before came from: "none", "read", or "filled" (the layout's parts with seeded
  // bytes, where reading would take too long).
  std::string state = "none";

  Spread tokens_per_s;   // of all slots together
  double seconds = 0.0;  // of the median run

  // What the machine could do at best, where it is known.
  double bytes_per_token = 0.0;  // read; 0: not counted
  double ops_per_token = 0.0;    // of products; 0: not counted
  double of_roofline = 0.0;      // share of that; 0: none
  // Drafting.
  int64_t n_drafted = 0, n_accepted = 0;
  uint64_t state_bytes = 0;  // park, restore, save, load
  // Plain writing or reading of as many bytes in the same run, and the share of it that was
  // reached; 0: not measured.
  double plain_bytes_per_s = 0.0, of_plain = 0.0;

  // What makes two figures the same measurement.
  std::string Key() const;
  double bytes_per_s() const {
    return seconds > 0 ? static_cast<double>(state_bytes) / seconds : 0.0;
  }
};

nlohmann::ordered_json ToJson(const Figure& figure, const BenchContext& context);

struct StoredFigure {
  Figure figure;
  BenchContext context;
};
// kInvalidArgument naming the field that is missing or of another type.
Result<StoredFigure> FigureFromJson(const nlohmann::ordered_json& json);
// One object a line, as --json writes them, or an array. Errors name line or element.
Result<std::vector<StoredFigure>> ParseFigures(std::string_view text);

}  // namespace holdfast

#endif  // HOLDFAST_BENCH_FIGURE_H_

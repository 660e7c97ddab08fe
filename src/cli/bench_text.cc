#include "cli/bench_text.h"

#include <fmt/format.h>

namespace holdfast::cli {
namespace {

std::string Amount(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.0f} kB", bytes / 1e3);
}

std::string Duration(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

// What a figure means: how near to what the machine could do.
std::string Meaning(const Figure& f) {
  std::string text;
  const auto add = [&text](const std::string& part) {
    if (!text.empty()) text += ", ";
    text += part;
  };
  if (f.bytes_per_token > 0) {
    add(fmt::format("{} a token, {}/s", Amount(f.bytes_per_token),
                    Amount(f.bytes_per_token * f.tokens_per_s.median)));
    if (f.of_roofline > 0) add(fmt::format("{:.0f}% of memory", 100 * f.of_roofline));
  }
  if (f.ops_per_token > 0) {
    add(fmt::format("{:.2f} Tops", f.ops_per_token * f.tokens_per_s.median / 1e12));
    if (f.of_roofline > 0) add(fmt::format("{:.0f}% of int8", 100 * f.of_roofline));
  }
  if (f.draft == "on") {
    add(fmt::format("{} of {} guesses right", f.n_accepted, f.n_drafted));
  }
  if (f.test == "park" || f.test == "restore") {
    add(fmt::format("{} in {}, by reference", Amount(static_cast<double>(f.state_bytes)),
                    Duration(f.seconds)));
  } else if (f.state_bytes > 0) {
    add(fmt::format("{} in {}, {}/s", Amount(static_cast<double>(f.state_bytes)),
                    Duration(f.seconds), Amount(f.bytes_per_s())));
  }
  if (f.plain_bytes_per_s > 0) {
    add(fmt::format("{:.0f}% of {} at {}/s", 100 * f.of_plain,
                    f.test == "save" ? "dd bs=16M conv=fsync" : "cat (cached)",
                    Amount(f.plain_bytes_per_s)));
  }
  if (f.prompt == "text") add("a text");
  if (f.state == "filled" && f.prompt != "none") add("state filled");
  return text;
}

}  // namespace

std::string MachineLine(const Machine& machine) {
  return fmt::format("machine  {}, {} CPUs, {:.1f} GiB\n",
                     machine.cpu.empty() ? "unknown CPU" : machine.cpu, machine.n_cpus,
                     static_cast<double>(machine.memory_bytes) / (1 << 30));
}

std::string HeaderText(const BenchHeader& h) {
  const BenchContext& c = h.context;
  std::string text = MachineLine(h.machine);
  text += fmt::format("         {:.1f} GB/s streaming reads", c.memory_bytes_per_s / 1e9);
  if (c.int8_ops_per_s > 0) {
    text +=
        fmt::format(", {:.2f} Tops of int8 dots ({})", c.int8_ops_per_s / 1e12, h.int8_instruction);
  }
  text += fmt::format("\nkernels  {}, {} threads, KV {}, activations {}\n", c.kernels, c.n_threads,
                      c.kv, c.activations);
  text += fmt::format("model    {} ({}, {} layers, {}), trained on {} tokens\n", h.model_path,
                      h.model_name, h.n_layers, Amount(static_cast<double>(c.model_bytes)),
                      h.trained_ctx);
  const double row = static_cast<double>(h.work.StepBytes(1));
  text += fmt::format("token    {} of weights are read for one ({} of them experts), {} of state\n",
                      Amount(row),
                      Amount(row - static_cast<double>(h.work.dense_bytes + h.work.row_bytes)),
                      Amount(static_cast<double>(h.state_bytes)));
  return text;
}

std::string FigureColumns() {
  return fmt::format("{:<8} {:>7} {:>7} {:>5} {:>5} {:>11} {:>7} {:>4}\n", "test", "n", "depth",
                     "slots", "draft", "tokens/s", "+-", "runs");
}

std::string FigureLine(const Figure& f, const std::optional<Comparison>& comparison) {
  const Spread& s = f.tokens_per_s;
  const std::string noise =
      s.n < 2 ? "" : fmt::format("{:.1f}%", 100 * (s.max - s.min) / 2 / s.median);
  std::string line = fmt::format(
      "{:<8} {:>7} {:>7} {:>5} {:>5} {:>11} {:>7} {:>4}  {}", f.test, f.n, f.depth, f.n_slots,
      f.draft, s.median < 1e6 ? fmt::format("{:.1f}", s.median) : fmt::format("{:.2g}", s.median),
      noise, s.n, Meaning(f));
  if (comparison) {
    line +=
        fmt::format(" | {}: {:+.1f}% (was {:.1f}, noise {:.1f}%)", ChangeName(comparison->verdict),
                    100 * comparison->change, comparison->before, 100 * comparison->noise);
  }
  return line + "\n";
}

}  // namespace holdfast::cli

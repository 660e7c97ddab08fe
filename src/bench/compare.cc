#include "bench/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <iterator>

namespace holdfast {
namespace {

constexpr double kSingleRunNoise = 0.05;
constexpr double kLeastNoise = 0.02;  // clocks and caches differ that much between processes

}  // namespace

std::string_view ChangeName(Change change) {
  switch (change) {
    case Change::kBetter:
      return "better";
    case Change::kWorse:
      return "worse";
    case Change::kSame:
      return "same";
  }
  return "?";
}

double NoiseOf(const Spread& spread) {
  if (spread.n < 2 || spread.median <= 0) return kSingleRunNoise;
  return (spread.max - spread.min) / 2 / spread.median;
}

Comparison Compare(const Figure& before, const Figure& now) {
  Comparison result;
  result.before = before.tokens_per_s.median;
  result.noise = std::max(kLeastNoise, NoiseOf(before.tokens_per_s) + NoiseOf(now.tokens_per_s));
  if (result.before <= 0) return result;
  result.change = now.tokens_per_s.median / result.before - 1;
  if (result.change > result.noise) result.verdict = Change::kBetter;
  if (result.change < -result.noise) result.verdict = Change::kWorse;
  return result;
}

Result<Baseline> Baseline::Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return ErrnoError(errno, path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  Result<std::vector<StoredFigure>> figures = ParseFigures(text);
  if (!figures.ok()) {
    return InvalidArgumentError(
        fmt::format("{}: {}; wanted what --json prints", path, figures.status().message()));
  }
  if (figures->empty()) return InvalidArgumentError(path + ": no figures in it");
  return Baseline(*std::move(figures));
}

std::optional<Comparison> Baseline::CompareTo(const Figure& now) const {
  const std::string key = now.Key();
  for (auto it = figures_.rbegin(); it != figures_.rend(); ++it) {
    if (it->figure.Key() == key) return Compare(it->figure, now);
  }
  return std::nullopt;
}

std::string Baseline::Differences(const BenchContext& now) const {
  const BenchContext& before = figures_.back().context;
  std::string text;
  const auto compare = [&](std::string_view what, const auto& old_value, const auto& new_value) {
    if (old_value == new_value) return;
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {} -> {}", what, old_value, new_value);
  };
  compare("cpu", before.cpu, now.cpu);
  compare("threads", before.n_threads, now.n_threads);
  compare("kernels", before.kernels, now.kernels);
  compare("model", before.model, now.model);
  compare("model bytes", before.model_bytes, now.model_bytes);
  compare("kv", before.kv, now.kv);
  compare("activations", before.activations, now.activations);
  if (std::max(before.others_busy, now.others_busy) > 0.1) {
    compare("CPUs that others took", fmt::format("{:.0f}%", 100 * before.others_busy),
            fmt::format("{:.0f}%", 100 * now.others_busy));
  }
  return text;
}

}  // namespace holdfast

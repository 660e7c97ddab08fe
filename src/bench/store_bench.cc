#include "bench/store_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/temp_folder.h"
#include "store/store_speed.h"

namespace holdfast {
namespace {

constexpr uint64_t kLeastBytes = 1 << 20, kEnoughBytes = 500'000'000;
constexpr int64_t kPageTokens = 256;

// One side of it over all runs.
struct Side {
  std::vector<double> bytes_per_s, plain, share;

  void Add(double ours, double theirs) {
    bytes_per_s.push_back(ours);
    plain.push_back(theirs);
    share.push_back(ours / theirs);
  }
  Figure ToFigure(const std::string& test, uint64_t n_bytes, int64_t n_tokens) const {
    Figure figure{.test = test, .n = n_tokens, .prompt = "none", .state = "filled"};
    std::vector<double> rates;
    for (const double rate : bytes_per_s) {
      rates.push_back(static_cast<double>(n_tokens) * rate / static_cast<double>(n_bytes));
    }
    figure.tokens_per_s = Spread::Of(rates);
    figure.state_bytes = n_bytes;
    figure.seconds = static_cast<double>(n_bytes) / Spread::Of(bytes_per_s).median;
    figure.plain_bytes_per_s = Spread::Of(plain).median;
    figure.of_plain = Spread::Of(share).median;
    return figure;
  }
};

}  // namespace

Status RunStoreBench(const StoreBenchOptions& options,
                     const std::function<void(const std::string&)>& note,
                     const std::function<void(const Figure&)>& on_figure) {
  if (options.n_bytes < kLeastBytes) {
    return InvalidArgumentError(
        fmt::format("--bytes is {}, wanted at least {}", options.n_bytes, kLeastBytes));
  }
  HF_ASSIGN_OR_RETURN(const TempFolder folder, TempFolder::Create("bench", options.dir));
  if (note && folder.in_memory()) {
    note(fmt::format("{} is kept in memory, not on a disk (--dir)", folder.path()));
  }
  if (note && options.n_bytes < kEnoughBytes) note("fewer than 500 MB say little about a disk");
  StoreSpeedOptions one{.dir = folder.path(), .n_bytes = options.n_bytes, .n_repeats = 1};
  one.running_bytes = std::min(one.running_bytes, options.n_bytes / 4);
  one.page_bytes = std::min(one.page_bytes, options.n_bytes / 4);
  Side save, load;
  StoreSpeed speed;
  for (int i = 0; i < std::max(options.n_runs, 1); ++i) {
    HF_ASSIGN_OR_RETURN(speed, MeasureStoreSpeed(one));
    save.Add(speed.save_bytes_per_s, speed.dd_bytes_per_s);
    load.Add(speed.load_bytes_per_s, speed.cat_bytes_per_s);
  }
  const int64_t n_tokens =
      static_cast<int64_t>((speed.n_bytes - one.running_bytes) / one.page_bytes) * kPageTokens;
  on_figure(save.ToFigure("save", speed.n_bytes, n_tokens));
  on_figure(load.ToFigure("load", speed.n_bytes, n_tokens));
  return OkStatus();
}

}  // namespace holdfast

// Parking and restoring in RAM, saving to disk and loading from it.

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

#include "base/temp_folder.h"
#include "bench/bench_run.h"
#include "engine/persistence.h"
#include "model/numerics.h"

namespace holdfast {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kIdentityBytesPerSecond = 1e9;
constexpr double kLongestIdentityWait = 20.0;
constexpr auto kLongestSave = std::chrono::minutes(10);

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

uint64_t StateBytesOf(const Conversation& c, const StateLayout& layout) {
  return c.pages().size() * layout.page_bytes() + layout.running_bytes();
}

// Bound again, as a request with these tokens would bind it.
Result<Conversation*> Bind(StateCache* cache, const Base& base) {
  const TokenView tokens(base.tokens);
  const PrefixMatch match = cache->Find(tokens);
  if (match.position != base.depth()) {
    return InternalError(fmt::format("a kept conversation of {} tokens was found up to {}",
                                     base.depth(), match.position));
  }
  return cache->Begin(match, tokens);
}

}  // namespace

Status BenchRun::StateFigures(BenchRig* rig, Base* base, const std::string& state) {
  Figure park{.test = "park", .n = base->depth(), .depth = base->depth(), .state = state};
  if (base->conversation == nullptr) return OkStatus();
  park.state_bytes = StateBytesOf(*base->conversation, model_->model()->layout());
  Figure restore = park;
  restore.test = "restore";

  StateCache& cache = rig->cache();
  std::vector<double> restore_seconds, restore_rates;
  const auto once = [&]() -> Result<TimedRun> {
    auto begin = Clock::now();
    if (!cache.Park(base->conversation)) return InternalError("a conversation was not kept");
    const TimedRun run{.seconds = SecondsSince(begin), .n_tokens = base->depth()};
    begin = Clock::now();
    HF_ASSIGN_OR_RETURN(base->conversation, Bind(&cache, *base));
    restore_seconds.push_back(SecondsSince(begin));
    restore_rates.push_back(static_cast<double>(run.n_tokens) / restore_seconds.back());
    return run;
  };
  HF_RETURN_IF_ERROR(once().status());
  restore_seconds.clear();
  restore_rates.clear();
  HF_RETURN_IF_ERROR(Repeat(once, &park));
  restore.tokens_per_s = Spread::Of(restore_rates);
  restore.seconds = Spread::Of(restore_seconds).median;
  profile_.clear();  // a park has no steps
  Report(park);
  Report(restore);
  return DiskFigures(rig, base, state);
}

Status BenchRun::DiskFigures(BenchRig* rig, Base* base, const std::string& state) {
  HF_ASSIGN_OR_RETURN(const TempFolder folder, TempFolder::Create("bench", options_.dir));
  if (folder.in_memory()) {
    Note(fmt::format("{} is kept in memory: what is saved there is on no disk (--dir)",
                     folder.path()));
  }
  StateCache& cache = rig->cache();
  HF_ASSIGN_OR_RETURN(
      const std::unique_ptr<Persistence> persistence,
      Persistence::Create({.dir = folder.path(),
                           .autosave = Autosave::kOff,
                           .write_limit_bytes_per_hour = 0,
                           .numerics_key = NumericsKey(options_.model.cpu.activations, {}),
                           .ctx = plan_.ctx},
                          model_->model(), &cache));
  // The model's file is hashed in the background meanwhile.
  const double wait_s =
      std::min(static_cast<double>(header_.context.model_bytes) / kIdentityBytesPerSecond,
               kLongestIdentityWait);
  std::this_thread::sleep_for(std::chrono::duration<double>(wait_s));

  Figure save{.test = "save", .n = base->depth(), .depth = base->depth(), .state = state};
  save.state_bytes = StateBytesOf(*base->conversation, model_->model()->layout());
  Figure load = save;
  load.test = "load";
  std::vector<double> load_seconds, load_rates;
  const auto once = [&]() -> Result<TimedRun> {
    const std::string id = base->conversation->id();
    // With the row that a load must compute again.
    persistence->TurnEnded(base->conversation, nullptr);
    const uint64_t written = persistence->stats().bytes_written;
    auto begin = Clock::now();
    (void)persistence->Flush(kLongestSave);
    const TimedRun run{.seconds = SecondsSince(begin), .n_tokens = base->depth()};
    if (persistence->stats().bytes_written - written < save.state_bytes) {
      return InternalError("a save wrote less than the conversation's state");
    }
    cache.Discard(base->conversation);
    base->conversation = nullptr;
    begin = Clock::now();
    const auto restore = persistence->StartRestore(TokenView(base->tokens), /*beyond=*/0, id);
    for (persistence->Tick(); !restore->done(); persistence->Tick()) std::this_thread::yield();
    const std::optional<RestoreReport>& report = restore->report();
    load_seconds.push_back(SecondsSince(begin));
    load_rates.push_back(static_cast<double>(run.n_tokens) / load_seconds.back());
    if (!report || report->position != base->depth()) {
      return InternalError(fmt::format("a saved conversation was loaded up to {} of {} tokens",
                                       report ? report->position : 0, base->depth()));
    }
    HF_ASSIGN_OR_RETURN(base->conversation, Bind(&cache, *base));
    HF_RETURN_IF_ERROR(persistence->store()->Remove(id));
    cache.UnregisterDisk(id);
    return run;
  };
  HF_RETURN_IF_ERROR(once().status());
  load_seconds.clear();
  load_rates.clear();
  HF_RETURN_IF_ERROR(Repeat(once, &save));
  load.tokens_per_s = Spread::Of(load_rates);
  load.seconds = Spread::Of(load_seconds).median;
  profile_.clear();
  Report(save);
  Report(load);
  return OkStatus();
}

}  // namespace holdfast

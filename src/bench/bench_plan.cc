#include "bench/bench_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace holdfast {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 24;
constexpr int64_t kMostSlots = 64;
constexpr int kMostRuns = 1000;
constexpr int64_t kUsualPrefill = 512;  // measured at every depth
constexpr int64_t kSpare = 16;          // tokens a conversation may go on for beyond what is timed

Status CheckCounts(std::string_view flag, const std::optional<std::vector<int64_t>>& counts,
                   int64_t low, int64_t high) {
  if (!counts) return OkStatus();
  if (counts->empty()) return InvalidArgumentError(fmt::format("{}: no number given", flag));
  for (const int64_t n : *counts) {
    if (n < low || n > high) {
      return InvalidArgumentError(fmt::format("{} is {}, wanted {} to {}", flag, n, low, high));
    }
  }
  return OkStatus();
}

std::vector<int64_t> Sorted(std::vector<int64_t> values) {
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

std::string List(const std::vector<int64_t>& values) {
  return fmt::format("{}", fmt::join(values, ", "));
}

double MiB(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// Takes out what has more tokens than the model was trained on, and says so.
void KeepTrained(const char* what, int64_t extra, int64_t trained_ctx, std::vector<int64_t>* values,
                 std::vector<std::string>* notes) {
  std::vector<int64_t> beyond;
  std::erase_if(*values, [&](int64_t n) {
    if (n + extra <= trained_ctx) return false;
    beyond.push_back(n);
    return true;
  });
  if (beyond.empty()) return;
  notes->push_back(fmt::format(
      "{} {} left out: the model was trained on {} tokens; when named, it is measured all the same",
      what, List(beyond), trained_ctx));
}

}  // namespace

Status BenchRequest::Validate() const {
  HF_RETURN_IF_ERROR(CheckCounts("--prefill", prefill, 0, kMostTokens));
  HF_RETURN_IF_ERROR(CheckCounts("--depth", depths, 0, kMostTokens));
  HF_RETURN_IF_ERROR(CheckCounts("--slots", slots, 1, kMostSlots));
  if (n_decode < 0 || n_decode > kMostTokens) {
    return InvalidArgumentError(
        fmt::format("--decode is {}, wanted 0 to {}", n_decode, kMostTokens));
  }
  if (n_runs < 0 || n_runs > kMostRuns) {
    return InvalidArgumentError(fmt::format("--repeat is {}, wanted 0 to {}", n_runs, kMostRuns));
  }
  return OkStatus();
}

Result<std::vector<int64_t>> ParseCounts(std::string_view flag, std::string_view text) {
  std::vector<int64_t> counts;
  std::string_view rest = text;
  while (true) {
    const size_t comma = rest.find(',');
    const std::string_view one = rest.substr(0, comma);
    int64_t n = 0;
    const char* const last = one.data() + one.size();
    auto [end, error] = std::from_chars(one.data(), last, n);
    int64_t unit = 1;
    if (error == std::errc() && end != last && end + 1 == last) {
      if (*end == 'K' || *end == 'k') unit = int64_t{1} << 10;
      if (*end == 'M' || *end == 'm') unit = int64_t{1} << 20;
      if (unit > 1) ++end;
    }
    if (error != std::errc() || end != last || n < 0 || n > kMostTokens / unit) {
      return InvalidArgumentError(
          fmt::format("{}: '{}' in '{}', wanted numbers such as 0,512,8K (at most {})", flag,
                      std::string(one), std::string(text), kMostTokens));
    }
    counts.push_back(n * unit);
    if (comma == std::string_view::npos) return counts;
    rest.remove_prefix(comma + 1);
  }
}

int64_t DepthPlan::max_slots() const {
  return slots.empty() ? 1 : *std::ranges::max_element(slots);
}

uint64_t StateRoom::Need(int64_t n_tokens, int64_t n_slots) const {
  const uint64_t pages = (n_tokens + page_tokens - 1) / page_tokens + 1;
  // Checkpoints take no more than the cells and four running states; a run works on a copy of the
  // running state, and the state it began from stays.
  return n_slots * (2 * pages * page_bytes + 8 * running_bytes);
}

Result<BenchPlan> MakeBenchPlan(const BenchRequest& request, int64_t trained_ctx,
                                const StateRoom& room) {
  BenchPlan plan;
  std::vector<int64_t> depths =
      Sorted(request.depths.value_or(std::vector<int64_t>{0, 2048, 8192, 32768, 131072}));
  std::vector<int64_t> prefill =
      Sorted(request.prefill.value_or(std::vector<int64_t>{128, 512, 2048, 8192}));
  std::erase(prefill, 0);
  if (!request.depths) {
    KeepTrained("depth", request.n_decode, trained_ctx, &depths, &plan.notes);
  }
  if (!request.prefill) {
    KeepTrained("prefill", 0, trained_ctx, &prefill, &plan.notes);
  }
  const std::vector<int64_t> slots =
      Sorted(request.slots.value_or(std::vector<int64_t>{1, 2, 4, 8}));
  const bool has_usual = std::ranges::find(prefill, kUsualPrefill) != prefill.end();

  for (const int64_t depth : depths) {
    const bool first = plan.depths.empty();
    DepthPlan one{.depth = depth, .prefill = prefill, .slots = slots};
    if (!first && !prefill.empty()) one.prefill = {has_usual ? kUsualPrefill : prefill.front()};
    if (!first && !request.slots) one.slots = {1};
    if (request.n_decode == 0) one.slots.clear();
    const auto drop = [&](std::vector<int64_t>* values, const char* what, const auto& tokens,
                          const auto& n_slots) {
      std::erase_if(*values, [&](int64_t value) {
        const uint64_t need = room.Need(tokens(value), n_slots(value));
        if (need <= room.room_bytes) return false;
        plan.notes.push_back(
            fmt::format("{} {} at depth {} left out: {:.0f} MiB of state, {:.0f} MiB are free",
                        what, value, depth, MiB(need), MiB(room.room_bytes)));
        return true;
      });
    };
    drop(
        &one.prefill, "prefill", [&](int64_t n) { return depth + n; }, [](int64_t) { return 1; });
    drop(
        &one.slots, "slots", [&](int64_t) { return depth + request.n_decode; },
        [](int64_t n) { return n; });
    if (one.prefill.empty() && one.slots.empty()) continue;
    for (const int64_t n : one.prefill) plan.ctx = std::max(plan.ctx, depth + n);
    if (!one.slots.empty()) plan.ctx = std::max(plan.ctx, depth + request.n_decode);
    plan.depths.push_back(std::move(one));
  }
  plan.ctx += kSpare;
  if (plan.ctx - kSpare > trained_ctx) {
    plan.notes.push_back(
        fmt::format("up to {} tokens, beyond the {} the model was trained on: speed is measured, "
                    "the text would be poor",
                    plan.ctx - kSpare, trained_ctx));
  }
  if (plan.depths.empty() && request.draft == DraftRuns::kOff && !request.state) {
    return InvalidArgumentError("nothing to measure");
  }
  return plan;
}

}  // namespace holdfast

#include "state/checkpoint_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

namespace holdfast {

namespace {

constexpr int64_t kLongest = int64_t{1} << 22;  // tokens
constexpr size_t kLatestTurns = 5;

}  // namespace

std::string_view CheckpointKindName(CheckpointKind kind) {
  switch (kind) {
    case CheckpointKind::kBeforeReply:
      return "before_reply";
    case CheckpointKind::kTurnEnd:
      return "turn_end";
    case CheckpointKind::kMark:
      return "mark";
    case CheckpointKind::kLadder:
      return "ladder";
    case CheckpointKind::kSystem:
      return "system";
  }
  return "?";
}

Status CheckpointPolicy::Validate() const {
  if (ratio != 2 && ratio != 4 && ratio != 8) {
    return InvalidArgumentError(fmt::format("checkpoint ratio {}, wanted 8, 4 or 2", ratio));
  }
  if (min_gap < 1) {
    return InvalidArgumentError(
        fmt::format("checkpoint gap of {} tokens, wanted at least 1", min_gap));
  }
  if (page_tokens < 1) {
    return InvalidArgumentError(fmt::format("page of {} tokens, wanted at least 1", page_tokens));
  }
  return OkStatus();
}

int64_t CheckpointPolicy::NextRung(int64_t position) const {
  int64_t rung = min_gap;
  // The last with Bound(rung) tokens above the one before: ratio / (ratio - 1) times as high.
  while (rung <= position) rung += std::max(min_gap, rung / (ratio - 1));
  return rung;
}

std::vector<int64_t> CheckpointPolicy::Rungs(int64_t from, int64_t to) const {
  std::vector<int64_t> rungs;
  for (int64_t rung = NextRung(from); rung <= to; rung = NextRung(rung)) rungs.push_back(rung);
  return rungs;
}

int64_t CheckpointPolicy::CountRungs(int64_t n_tokens) const {
  return static_cast<int64_t>(Rungs(0, n_tokens).size());
}

int64_t CheckpointPolicy::MaxCheckpoints(int64_t n_tokens) const {
  if (running_bytes == 0) return std::numeric_limits<int64_t>::max();
  const int64_t n_pages = (n_tokens + page_tokens - 1) / page_tokens;
  const double kv_bytes = static_cast<double>(n_pages * page_tokens) * kv_bytes_per_token;
  return static_cast<int64_t>(kv_bytes / static_cast<double>(running_bytes)) + 4;
}

int64_t CheckpointPolicy::Spare(int64_t n_tokens) const {
  int64_t n_rungs = CountRungs(n_tokens - 1);
  int64_t spare = MaxCheckpoints(n_tokens) - n_rungs - 2;
  // Rungs lie ever further apart, up to where the pages between two pay for the second.
  int64_t rung = NextRung(n_tokens - 1);
  for (; rung < kLongest; rung = NextRung(rung)) {
    spare = std::min(spare, MaxCheckpoints(rung + 1) - ++n_rungs - 2);
  }
  return spare;
}

int64_t CheckpointPolicy::Bound(int64_t n_shared) const {
  return std::max(min_gap, n_shared / ratio);
}

namespace {

// A ladder of this ratio, one system checkpoint and one before the reply, for every length: the
// number of rungs below a length only grows just behind a rung, where the pages are fewest.
bool Fits(const CheckpointPolicy& policy, int64_t context_length) {
  int64_t n_rungs = 0;
  for (int64_t rung : policy.Rungs(0, context_length - 1)) {
    if (++n_rungs + 2 > policy.MaxCheckpoints(rung + 1)) return false;
  }
  return true;
}

}  // namespace

RatioChoice ChooseCheckpointPolicy(const StateLayout& trunk, int64_t context_length,
                                   int64_t min_gap) {
  CheckpointPolicy policy;
  policy.min_gap = min_gap;
  policy.kv_bytes_per_token = static_cast<double>(trunk.page_bytes()) / trunk.page_tokens();
  policy.running_bytes = trunk.running_bytes();
  policy.page_tokens = trunk.page_tokens();
  for (int ratio : {8, 4, 2}) {
    policy.ratio = ratio;
    if (Fits(policy, context_length)) return {policy, true};
  }
  return {policy, false};
}

std::vector<CheckpointMark> PlanCheckpoints(const CheckpointPolicy& policy, int64_t from,
                                            int64_t to, std::span<const CheckpointMark> marks) {
  std::map<int64_t, CheckpointKind> stops;
  for (int64_t rung : policy.Rungs(from, to)) stops[rung] = CheckpointKind::kLadder;
  for (const CheckpointMark& mark : marks) {
    if (mark.position <= from || mark.position > to) continue;
    const auto [it, is_new] = stops.try_emplace(mark.position, mark.kind);
    if (!is_new) it->second = std::max(it->second, mark.kind);
  }
  std::vector<CheckpointMark> plan;
  for (const auto& [position, kind] : stops) plan.push_back({position, kind});
  return plan;
}

namespace {

class Thinning {
 public:
  Thinning(const CheckpointPolicy& policy, int64_t n_tokens, std::span<const CheckpointMark> kept)
      : policy_(policy),
        n_tokens_(n_tokens),
        kept_(kept),
        last_reply_(LastOf(CheckpointKind::kBeforeReply)),
        beginning_(Beginning()),
        dropped_(kept.size(), false) {}

  std::vector<size_t> Run() {
    // One at the live end shares its running state and takes no memory.
    n_left_ = std::ranges::count_if(kept_, [&](const auto& k) { return k.position < n_tokens_; });
    if (n_left_ <= policy_.MaxCheckpoints(n_tokens_)) return {};
    cover_limit_ =
        policy_.CountRungs(n_tokens_ - 1) + std::max<int64_t>(policy_.Spare(n_tokens_), 0);
    for (size_t i : Order()) TryDrop(i);
    std::vector<size_t> result;
    for (size_t i = 0; i < kept_.size(); ++i) {
      if (dropped_[i]) result.push_back(i);
    }
    return result;
  }

  std::optional<size_t> First() const {
    const std::vector<size_t> order = Order();
    const auto takes_memory = [&](size_t i) { return kept_[i].position < n_tokens_; };
    for (size_t i : order) {
      if (takes_memory(i) && BoundHoldsWithout(i)) return i;
    }
    const auto any = std::ranges::find_if(order, takes_memory);
    return any == order.end() ? std::nullopt : std::optional(*any);
  }

 private:
  // Of all of them, those that are given up first in front.
  std::vector<size_t> Order() const {
    std::vector<size_t> order;
    const auto add = [&](CheckpointKind kind, const auto& wanted) {
      for (size_t i = 0; i < kept_.size(); ++i) {
        const bool apart = i == last_reply_ || i == beginning_;
        if (kept_[i].kind == kind && !apart && wanted(i)) order.push_back(i);
      }
    };
    const auto any = [](size_t) { return true; };
    const size_t recent = BeginOfLatestTurns();
    const size_t last_mark = LastOf(CheckpointKind::kMark);
    const auto is_edge = [&](size_t i) { return i == last_mark || IsFirstMarkWorthMuch(i); };
    add(CheckpointKind::kBeforeReply, any);
    add(CheckpointKind::kLadder, any);
    add(CheckpointKind::kTurnEnd, [&](size_t i) { return i < recent; });
    add(CheckpointKind::kMark, [&](size_t i) { return !is_edge(i); });
    add(CheckpointKind::kTurnEnd, [&](size_t i) { return i >= recent; });
    add(CheckpointKind::kMark, is_edge);
    if (last_reply_ < kept_.size()) order.push_back(last_reply_);
    if (beginning_ < last_reply_) order.push_back(beginning_);
    for (size_t i = kept_.size(); i-- > 0;) {
      if (kept_[i].kind == CheckpointKind::kSystem) order.push_back(i);
    }
    return order;
  }

  // The index from which on turn ends are those of the latest turns, the live end aside.
  size_t BeginOfLatestTurns() const {
    size_t n = 0;
    for (size_t i = kept_.size(); i-- > 0;) {
      if (kept_[i].kind != CheckpointKind::kTurnEnd || kept_[i].position >= n_tokens_) continue;
      if (++n == kLatestTurns) return i;
    }
    return 0;
  }

  // A long document in front of many chats, say. Those behind it move with the talk.
  bool IsFirstMarkWorthMuch(size_t i) const {
    const auto first = std::ranges::find(kept_, CheckpointKind::kMark, &CheckpointMark::kind);
    if (static_cast<size_t>(first - kept_.begin()) != i) return false;
    return kept_[i].position - (i > 0 ? kept_[i - 1].position : 0) >= policy_.min_gap / 2;
  }

  size_t LastOf(CheckpointKind kind) const {
    for (size_t i = kept_.size(); i-- > 0;) {
      if (kept_[i].kind == kind) return i;
    }
    return kept_.size();
  }

  // The first of those before replies, where no end of a system block stands for what a new chat
  // with the same beginning shares.
  size_t Beginning() const {
    if (LastOf(CheckpointKind::kSystem) < kept_.size()) return kept_.size();
    const auto it = std::ranges::find(kept_, CheckpointKind::kBeforeReply, &CheckpointMark::kind);
    return static_cast<size_t>(it - kept_.begin());
  }

  void TryDrop(size_t i) {
    if (n_left_ <= policy_.MaxCheckpoints(n_tokens_)) return;
    if (kept_[i].position >= n_tokens_ || !BoundHoldsWithout(i)) return;
    const int64_t before = CoverSize();
    dropped_[i] = true;
    if (CoverSize() > std::max(before, cover_limit_)) {
      dropped_[i] = false;
    } else {
      --n_left_;
    }
  }

  // The fewest that keep the bound for themselves, beside the system's: what may never be given up.
  // Ends of turns may stand in for a rung, but two of them for one only while there is room for
  // that at every length to come. Where the bound has failed already, what is next counts.
  int64_t CoverSize() const {
    struct Step {
      int64_t position, cost;
    };
    std::vector<Step> steps = {{0, 0}};
    const auto cost_to = [&](int64_t position) {
      int64_t cost = steps.back().cost;
      for (const Step& step : steps) {
        if (position - step.position <= policy_.Bound(position)) cost = std::min(cost, step.cost);
      }
      return cost;
    };
    for (size_t i = 0; i < kept_.size(); ++i) {
      if (dropped_[i]) continue;
      const bool stays = kept_[i].kind == CheckpointKind::kSystem || i == beginning_;
      steps.push_back({kept_[i].position, cost_to(kept_[i].position) + (stays ? 0 : 1)});
    }
    return cost_to(policy_.NextRung(n_tokens_ - 1));
  }

  // Of the tokens between its neighbours. Behind the last one the next rung comes, if not the end.
  bool BoundHoldsWithout(size_t i) const {
    int64_t below = 0, above = policy_.NextRung(n_tokens_ - 1);
    for (size_t j = 0; j < i; ++j) {
      if (!dropped_[j]) below = kept_[j].position;
    }
    for (size_t j = kept_.size(); j-- > i + 1;) {
      if (!dropped_[j]) above = kept_[j].position;
    }
    return above - below <= policy_.Bound(above);
  }

  const CheckpointPolicy& policy_;
  const int64_t n_tokens_;
  const std::span<const CheckpointMark> kept_;
  const size_t last_reply_, beginning_;  // kept_.size(): there is none
  std::vector<bool> dropped_;
  int64_t n_left_ = 0;
  int64_t cover_limit_ = 0;
};

}  // namespace

std::vector<size_t> ThinCheckpoints(const CheckpointPolicy& policy, int64_t n_tokens,
                                    std::span<const CheckpointMark> kept) {
  return Thinning(policy, n_tokens, kept).Run();
}

std::optional<size_t> CheckpointToGiveUp(const CheckpointPolicy& policy, int64_t n_tokens,
                                         std::span<const CheckpointMark> kept) {
  return Thinning(policy, n_tokens, kept).First();
}

}  // namespace holdfast

#ifndef HOLDFAST_ENGINE_DRAFT_POLICY_H_
#define HOLDFAST_ENGINE_DRAFT_POLICY_H_

#include <array>
#include <cstdint>

namespace holdfast {

inline constexpr int kMaxDrafts = 7;  // in a window

// Guesses by their place in a window, from 0: tried, and right. Those behind the first wrong one
// are not counted.
struct DraftCounts {
  struct Depth {
    int64_t n_drafted = 0, n_accepted = 0;
  };
  std::array<Depth, kMaxDrafts> depths{};

  void AddWindow(int64_t n_drafted, int64_t n_accepted);
  void Add(const DraftCounts& other);
};

// How many tokens to guess ahead, from measured acceptance and measured cost: the depth that gives
// most tokens in a millisecond. Results never depend on it: a guess only counts where the model
// itself says the same.
class DraftPolicy {
 public:
  static constexpr int kMaxDepth = kMaxDrafts;

  // 0..max_depth guesses; `adaptive` false: always max_depth.
  DraftPolicy(int max_depth, bool adaptive);

  // Guesses that the next window should have.
  int Depth();
  // A chain of guesses is not worth a further row once the probability that all of it is right is
  // below this: what the row costs, in tokens. `fixed` when the depth is not chosen here.
  double MinProbability(double fixed) const;

  // A step of one conversation with `n_rows` rows took `ms`.
  void AddStep(int64_t n_rows, double ms);
  // Guessing `n_drafts` tokens took `ms`.
  void AddDrafts(int64_t n_drafts, double ms);
  // Of `n_wanted` guesses `n_drafted` were sure enough to be tried, and of these the first
  // `n_accepted` were right.
  void AddWindow(int64_t n_wanted, int64_t n_drafted, int64_t n_accepted);

  const DraftCounts& counts() const { return counts_; }

 private:
  static constexpr int kMaxRows = kMaxDepth + 1;
  // A mean that forgets: of the last measurements, the newest ones most.
  struct Mean {
    double value = 0.0;
    double weight = 0.0;  // measurements behind it, at most kMemory
    void Add(double now);
  };

  // Milliseconds of a step; 0 before the first one.
  double StepMs(int n_rows) const;
  double StepMsFromOthers(int n_rows) const;
  // Share of the guesses at `position` that were tried (or: tried and right), where the one before
  // was. Positions about which little is known are taken to be like the one before.
  static std::array<double, kMaxDepth> Shares(const std::array<Mean, kMaxDepth>& measured,
                                              double first);
  // Tokens per millisecond when guessing `depth` ahead.
  double Speed(int depth) const;
  int Best() const;
  // The depth of a window that is only there to be measured.
  int Probe(int best) const;

  const int max_depth_;
  const bool adaptive_;
  std::array<Mean, kMaxRows + 1> step_ms_{};  // by rows
  Mean draft_ms_;
  std::array<Mean, kMaxDepth> tried_{}, kept_{};  // given that the one before was
  DraftCounts counts_;
  int64_t n_asked_ = 0;
  int best_ = 0;  // the depth chosen last, probes aside
  // The last window was all right: where guesses did not pay, the text may have become another.
  bool probe_again_ = false;
};

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_DRAFT_POLICY_H_

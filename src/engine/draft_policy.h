#ifndef HOLDFAST_ENGINE_DRAFT_POLICY_H_
#define HOLDFAST_ENGINE_DRAFT_POLICY_H_

#include <array>
#include <cstdint>

namespace holdfast {

// How many tokens to guess ahead, from measured acceptance and measured cost. Results never depend
// on it: a guess only counts where the model itself says the same.
class DraftPolicy {
 public:
  static constexpr int kMaxDepth = 7;

  // 0..max_depth guesses; `adaptive` false: always max_depth.
  DraftPolicy(int max_depth, bool adaptive);

  int Depth();

  // A step of one conversation with `n_rows` rows took `ms`.
  void AddStep(int64_t n_rows, double ms);
  // Guessing `n_drafts` tokens took `ms`.
  void AddDrafts(int64_t n_drafts, double ms);
  // Of `n_drafted` guesses in a row the first `n_accepted` were right.
  void AddAcceptance(int64_t n_drafted, int64_t n_accepted);

  struct DepthCount {
    int64_t n_drafted = 0, n_accepted = 0;
  };
  // By position of the guess in its window, from 0.
  const std::array<DepthCount, kMaxDepth>& counts() const { return counts_; }

 private:
  double StepMs(int n_rows) const;
  // Tokens per millisecond when guessing `depth` ahead.
  double Speed(int depth) const;

  const int max_depth_;
  const bool adaptive_;
  std::array<double, kMaxDepth + 2> step_ms_{};  // by rows; 0: not known
  double draft_ms_ = 0.0;
  std::array<double, kMaxDepth> acceptance_;  // given that all before were right
  std::array<DepthCount, kMaxDepth> counts_{};
  int64_t n_asked_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_DRAFT_POLICY_H_

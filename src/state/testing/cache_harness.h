#ifndef HOLDFAST_STATE_TESTING_CACHE_HARNESS_H_
#define HOLDFAST_STATE_TESTING_CACHE_HARNESS_H_

// A cache with the toy model behind it, driven as the scheduler does.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "state/state_cache.h"
#include "state/testing/toy_model.h"

namespace holdfast::testing {

using Ids = std::vector<TokenId>;

// `n` tokens that depend on `seed` only.
inline Ids Text(int64_t n, int seed) {
  Ids ids;
  for (int64_t i = 0; i < n; ++i) {
    ids.push_back(static_cast<TokenId>(Mix(static_cast<uint64_t>(seed), i) % 30'000));
  }
  return ids;
}
inline Ids operator+(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct TurnOptions {
  std::vector<CheckpointMark> marks;
  int64_t n_reply = 5;
  int64_t chunk = 1000;          // rows of one step
  int64_t n_rejected = 0;        // draft rows thrown away in every step of the reply
  int64_t stop_reading_at = -1;  // a disconnect: park there
  std::string id;
  bool with_draft = false;
};

struct Turn {
  PrefixMatch match;
  std::string id;
  int64_t n_reused = 0, n_rows = 0;
  Ids tokens;  // prompt and reply; the last one is not computed
  bool kept = false;
};

class CacheHarness {
 public:
  static constexpr int kPageTokens = 8;

  explicit CacheHarness(CacheParams params = Roomy(), CheckpointPolicy policy = Policy(2)) {
    backend_ = *CpuBackend::Create({.n_threads = 1});
    const ModelConfig config = ToyConfig();
    trunk_ = *StateLayout::Create(config, KvFormat::kF32, StateSection::kTrunk, kPageTokens);
    draft_ = *StateLayout::Create(config, KvFormat::kF32, StateSection::kDraft, kPageTokens);
    StateCacheOptions options;
    options.backend = backend_.get();
    options.trunk = &trunk_;
    options.draft = &draft_;
    options.params = params;
    options.policy = policy;
    options.now_s = [this] { return now_s_; };
    options.random_id = [n = uint64_t{0}]() mutable { return ++n; };
    options.consent = [this](size_t bytes) { return consent ? consent(bytes) : OkStatus(); };
    cache_ = *StateCache::Create(std::move(options));
    model_ = std::make_unique<ToyModel>(backend_.get(), &trunk_);
  }

  static CacheParams Roomy() {
    return {.cache_ram_bytes = size_t{1} << 28, .work_bytes = size_t{1} << 28};
  }
  static CheckpointPolicy Policy(int ratio) {
    return {.ratio = ratio, .min_gap = 32, .page_tokens = kPageTokens};
  }

  StateCache& cache() { return *cache_; }
  ToyModel& model() { return *model_; }
  Backend& backend() { return *backend_; }
  const StateLayout& trunk() const { return trunk_; }
  size_t page_bytes() const { return trunk_.page_bytes(); }
  size_t running_bytes() const { return trunk_.running_bytes(); }
  void Sleep(double seconds) { now_s_ += seconds; }
  MemoryBudget::Consent consent;

  // Advances to `end`, checking the answer there; a Status from PrepareWrite ends it.
  Status ReadTo(Conversation* c, int64_t end, int64_t chunk = 1000, int64_t n_rejected = 0) {
    while (c->n_computed() < end) {
      const int64_t to = std::min({end, c->n_computed() + chunk, cache_->NextStop(*c)});
      HF_RETURN_IF_ERROR(cache_->PrepareWrite(c, to + n_rejected));
      model_->Step(c, to, n_rejected);
      HF_RETURN_IF_ERROR(cache_->Advance(c, to));
    }
    if (c->n_computed() == 0) return OkStatus();
    EXPECT_EQ(model_->Answer(*c), ExpectedAnswer(c->tokens(), c->n_computed())) << c->id();
    return OkStatus();
  }

  // What the toy model says after these tokens.
  static TokenId Reply(TokenView tokens) {
    return static_cast<TokenId>(40'000 + ExpectedAnswer(tokens, tokens.size()) % 1000);
  }

  Conversation* Begin(const Ids& prompt, const TurnOptions& options, Turn* turn) {
    turn->match = cache_->Find(prompt);
    auto begun =
        cache_->Begin(turn->match, prompt,
                      {.id = options.id, .marks = options.marks, .with_draft = options.with_draft});
    EXPECT_TRUE(begun.ok()) << begun.status().ToString();
    Conversation* const c = *begun;
    turn->id = c->id();
    turn->n_reused = c->n_computed();
    EXPECT_EQ(turn->n_reused, turn->match.position);
    if (c->n_computed() > 0) {
      EXPECT_EQ(model_->Answer(*c), ExpectedAnswer(c->tokens(), c->n_computed()))
          << "begun on another state";
    }
    return c;
  }

  // One request from begin to end.
  Turn Run(const Ids& prompt, const TurnOptions& options = {}) {
    Turn turn;
    const int64_t rows_before = model_->n_rows();
    Conversation* const c = Begin(prompt, options, &turn);
    const int64_t n = static_cast<int64_t>(prompt.size());
    const int64_t read_to = options.stop_reading_at >= 0 ? options.stop_reading_at : n;
    Status status = ReadTo(c, read_to, options.chunk);
    if (read_to == n) {
      for (int64_t i = 0; i < options.n_reply && status.ok(); ++i) {
        cache_->Append(c, {Reply(c->tokens())});
        if (i + 1 < options.n_reply) {
          status = ReadTo(c, c->n_tokens(), 1, options.n_rejected);
        }
      }
      if (status.ok()) cache_->TakeCheckpoint(c, CheckpointKind::kTurnEnd);
    }
    turn.tokens.assign(c->tokens().ids.begin(), c->tokens().ids.end());
    turn.n_rows = model_->n_rows() - rows_before;
    status_ = status;
    turn.kept = cache_->Park(c);
    return turn;
  }
  // Of the last Run.
  const Status& status() const { return status_; }

  // Every byte of a conversation's full pages, checkpoints and live end.
  std::vector<std::byte> Bytes(const Conversation& c) {
    std::vector<std::byte> all;
    const auto add = [&](Buffer* buffer) {
      std::vector<std::byte> bytes(buffer->bytes());
      EXPECT_TRUE(backend_->Download({buffer, 0}, bytes).ok());
      all.insert(all.end(), bytes.begin(), bytes.end());
    };
    for (const BlockPtr& page : c.pages()) add(page->trunk.get());
    add(c.running());
    for (const Checkpoint& checkpoint : c.checkpoints()) add(checkpoint.running->trunk.get());
    return all;
  }

 private:
  std::unique_ptr<CpuBackend> backend_;
  StateLayout trunk_, draft_;
  double now_s_ = 0;
  std::unique_ptr<StateCache> cache_;
  std::unique_ptr<ToyModel> model_;
  Status status_;
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_STATE_TESTING_CACHE_HARNESS_H_

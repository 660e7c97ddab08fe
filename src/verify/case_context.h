#ifndef HOLDFAST_VERIFY_CASE_CONTEXT_H_
#define HOLDFAST_VERIFY_CASE_CONTEXT_H_

// What the cases of `holdfast verify` work with.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "verify/ledger.h"
#include "verify/reference.h"
#include "verify/rig.h"
#include "verify/stage.h"
#include "verify/verify.h"

namespace holdfast {

// A conversation, and the reply it has when it is alone.
struct Talk {
  int number = 0;
  std::vector<TokenId> prompt;
  bool sampled = false;  // otherwise greedy
  uint64_t seed = 0;
  std::vector<TokenId> words;  // the reply is of these alone; empty: of all tokens
  std::vector<TokenId> reply;

  SamplingParams sampling() const;
  std::vector<TokenId> all() const;  // prompt and reply
};

class CaseContext {
 public:
  CaseContext(const VerifyOptions& options, const VerifySizes& sizes, Rig* rig, Ledger* ledger,
              std::string temp_dir, int n_slots, uint64_t work_bytes, uint64_t cache_bytes);

  // --- Running (verify.cc) ---
  Status PrepareTalks();
  // Runs one case and says what came of it.
  Result<CaseReport> Run(const std::string& name, const std::function<Status(CaseContext&)>& body);
  const std::optional<Difference>& difference() const { return difference_; }

  // --- For cases ---
  const VerifyOptions& options() const { return options_; }
  const VerifySizes& sizes() const { return sizes_; }
  Rig& rig() { return *rig_; }
  Ledger& ledger() { return *ledger_; }
  std::mt19937_64& random() { return random_; }
  const std::string& temp_dir() const { return temp_dir_; }
  int n_slots() const { return n_slots_; }
  double decode_ms() const { return decode_ms_; }  // of a reply's token, alone
  bool has_draft() const { return rig_->model().draft_layout() != nullptr; }

  const std::vector<Talk>& talks() const { return talks_; }
  const Talk& long_talk() const { return long_talk_; }
  std::vector<TokenId> RandomTokens(int64_t n);
  // A talk that is known to nobody yet: read and answered alone.
  Result<Talk> NewTalk(std::vector<TokenId> prompt, bool sampled, int64_t n_reply,
                       std::vector<TokenId> words = {});

  // `max_drafts` < 0: a window of some guesses where the model has a draft head.
  StageOptions DefaultStage(int n_slots, int max_drafts = -1) const;
  Result<std::unique_ptr<Stage>> NewStage(const StageOptions& options);
  // The whole reply of `talk` is expected.
  AskedPtr Ask(Stage* stage, const Talk& talk, std::vector<CheckpointMark> marks = {});
  // Runs to the end, then looks at the replies and at all conversations that are kept.
  Status Finish(Stage* stage);
  Status CheckStates(Stage* stage);
  void CheckReply(const Asked& asked);
  // Something the case is about has not happened.
  void Require(bool condition, const std::string& what);
  void Skip(std::string why) { skipped_ = std::move(why); }
  bool failed() const { return detail_.has_value() || ledger_->difference().has_value(); }

  // Runs `body` with another rig in place of the usual one; its facts meet in the same ledger.
  Status WithRig(const CpuBackendOptions& cpu, const std::function<Status(CaseContext&)>& body);

 private:
  // Computes running states that no reading has passed by, so that they are compared too.
  Status Settle(std::vector<StateCheck::Unknown> unknown);

  const VerifyOptions& options_;
  const VerifySizes sizes_;
  Rig* const reference_rig_;
  Rig* rig_;  // what cases compute with
  Ledger* const ledger_;
  const std::string temp_dir_;
  const int n_slots_;
  const uint64_t work_bytes_, cache_bytes_;
  std::mt19937_64 random_;
  std::vector<Talk> talks_;
  Talk long_talk_;
  int next_number_ = 0;
  double decode_ms_ = 0.0;
  int64_t n_requests_ = 0;

  // Of the running case:
  std::string case_name_;
  std::optional<std::string> skipped_;
  std::optional<Difference> detail_;  // a wrong token, or something that has not happened
  std::optional<Difference> difference_;
};

struct VerifyCase {
  std::string name;
  std::function<Status(CaseContext&)> body;
};
void AddComputeCases(const VerifyOptions& options, std::vector<VerifyCase>* cases);
void AddTogetherCases(const VerifyOptions& options, std::vector<VerifyCase>* cases);
void AddReuseCases(std::vector<VerifyCase>* cases);
void AddDiskCases(std::vector<VerifyCase>* cases);

}  // namespace holdfast

#endif  // HOLDFAST_VERIFY_CASE_CONTEXT_H_

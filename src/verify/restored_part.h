#ifndef HOLDFAST_VERIFY_RESTORED_PART_H_
#define HOLDFAST_VERIFY_RESTORED_PART_H_

// Conversations of one process go on in another: what the second one is told, and what it says.
// Two files of one folder, read by the same program on the same machine: "plan.json" and
// "outcome.json", beside it "facts" (Fact after Fact as they lie in memory).

#include <string>
#include <vector>

#include "base/status.h"
#include "verify/case_context.h"

namespace holdfast {

struct RestoredReply {
  std::vector<TokenId> tokens;
  int64_t n_reused = 0;
  int source = 0;  // ReuseSource
  std::string error, reason;
};
struct RestoredOutcome {
  std::vector<RestoredReply> replies;
  std::vector<Fact> facts;
};

// Answers `talks` from the store in `stage.store_dir`, in another process. `folder` is private.
Result<RestoredOutcome> AnswerInNewProcess(const VerifyOptions& options, const StageOptions& stage,
                                           const std::vector<Talk>& talks,
                                           const std::string& folder);

}  // namespace holdfast

#endif  // HOLDFAST_VERIFY_RESTORED_PART_H_

// What is kept on disk: a new process goes on, and a conversation that RAM had no room for returns.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "verify/case_context.h"
#include "verify/restored_part.h"

namespace holdfast {
namespace {

// An empty folder inside the temporary one, removed again.
class Folder {
 public:
  Folder(const CaseContext& ctx, const std::string& name) : path_(ctx.temp_dir() + "/" + name) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Second turns of the first conversations, and one that only begins like the second of them.
Result<std::vector<Talk>> FollowUps(CaseContext& ctx, int n) {
  std::vector<Talk> talks;
  for (int i = 0; i < n; ++i) {
    std::vector<TokenId> prompt = ctx.talks()[i].all();
    const std::vector<TokenId> more = ctx.RandomTokens(17 + i);
    prompt.insert(prompt.end(), more.begin(), more.end());
    HF_ASSIGN_OR_RETURN(Talk talk, ctx.NewTalk(std::move(prompt), i % 2 == 1, ctx.sizes().reply));
    talks.push_back(std::move(talk));
  }
  return talks;
}

Status NewProcess(CaseContext& ctx) {
  constexpr int kTalks = 3;
  const Folder folder(ctx, "restart");
  HF_ASSIGN_OR_RETURN(const std::vector<Talk> follow_ups, FollowUps(ctx, kTalks));
  StageOptions options = ctx.DefaultStage(std::min(2, ctx.n_slots()));
  options.store_dir = folder.path() + "/store";
  {
    HF_ASSIGN_OR_RETURN(const auto stage, ctx.NewStage(options));
    for (int i = 0; i < kTalks; ++i) ctx.Ask(stage.get(), ctx.talks()[i]);
    HF_RETURN_IF_ERROR(ctx.Finish(stage.get()));
    HF_RETURN_IF_ERROR(stage->Close());
  }
  if (ctx.failed()) return OkStatus();
  HF_ASSIGN_OR_RETURN(const RestoredOutcome outcome,
                      AnswerInNewProcess(ctx.options(), options, follow_ups, folder.path()));
  for (const Fact& fact : outcome.facts) ctx.ledger().Add(fact);
  for (size_t i = 0; i < follow_ups.size(); ++i) {
    const RestoredReply& reply = outcome.replies.at(i);
    ctx.Require(reply.error.empty(), reply.error);
    ctx.Require(reply.tokens == follow_ups[i].reply,
                fmt::format("conversation {} is answered otherwise by the new process",
                            follow_ups[i].number));
    const int64_t kept = static_cast<int64_t>(ctx.talks()[i].all().size()) - 1;
    ctx.Require(
        reply.n_reused >= kept && reply.source == static_cast<int>(ReuseSource::kDisk),
        fmt::format("{} of {} saved tokens were restored: {}", reply.n_reused, kept, reply.reason));
  }
  return OkStatus();
}

Status Eviction(CaseContext& ctx) {
  constexpr int kTalks = 3;
  const Folder folder(ctx, "eviction");
  HF_ASSIGN_OR_RETURN(const std::vector<Talk> follow_ups, FollowUps(ctx, kTalks));
  StageOptions options = ctx.DefaultStage(1);
  options.store_dir = folder.path() + "/store";
  options.cache_ram_bytes = 1;  // nothing stays that is not running
  HF_ASSIGN_OR_RETURN(const auto stage, ctx.NewStage(options));
  for (int i = 0; i < kTalks; ++i) {
    ctx.Ask(stage.get(), ctx.talks()[i]);
    HF_RETURN_IF_ERROR(ctx.Finish(stage.get()));
    // A conversation leaves RAM when it is on disk.
    (void)stage->persistence()->Flush(std::chrono::minutes(10));
    stage->cache().Trim();
  }
  ctx.Require(stage->cache().List().empty(),
              "a conversation stayed in RAM that has no room for it");
  std::vector<AskedPtr> asked;
  for (const Talk& talk : follow_ups) {
    asked.push_back(ctx.Ask(stage.get(), talk));
    HF_RETURN_IF_ERROR(ctx.Finish(stage.get()));
  }
  for (int i = 0; i < kTalks; ++i) {
    const ReuseInfo& reuse = asked[i]->result.reuse;
    const int64_t kept = static_cast<int64_t>(ctx.talks()[i].all().size()) - 1;
    ctx.Require(reuse.source == ReuseSource::kDisk && reuse.tokens_reused >= kept,
                fmt::format("{} of {} evicted tokens came back from disk: {}", reuse.tokens_reused,
                            kept, reuse.reason));
  }
  return OkStatus();
}

}  // namespace

void AddDiskCases(std::vector<VerifyCase>* cases) {
  cases->push_back({"evicted to disk, then another turn", Eviction});
  cases->push_back({"saved, then another turn in a new process", NewProcess});
}

}  // namespace holdfast

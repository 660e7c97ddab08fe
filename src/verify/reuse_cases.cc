// What is kept in RAM and used again: interrupted requests, parked conversations, common
// beginnings, edits.

#include <fmt/format.h>

#include <algorithm>

#include "verify/case_context.h"

namespace holdfast {
namespace {

// A talk of 120 to 300 tokens, not the first of a page.
constexpr size_t kMedium = 2;

std::vector<TokenId> Joined(std::vector<TokenId> a, std::span<const TokenId> b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void RequireReuse(CaseContext& ctx, const Asked& asked, int64_t at_least) {
  ctx.Require(asked.result.reuse.tokens_reused >= at_least,
              fmt::format("{} tokens were reused, wanted {} or more: {}",
                          asked.result.reuse.tokens_reused, at_least, asked.result.reuse.reason));
}

// The rest of `talk` behind its first `n` reply tokens.
Talk RestOf(const Talk& talk, int64_t n) {
  Talk rest = talk;
  rest.prompt = Joined(talk.prompt, std::span(talk.reply).first(n));
  rest.reply.erase(rest.reply.begin(), rest.reply.begin() + n);
  return rest;
}

Status StopAndContinue(CaseContext& ctx) {
  HF_ASSIGN_OR_RETURN(const auto stage, ctx.NewStage(ctx.DefaultStage(std::min(2, ctx.n_slots()))));
  std::vector<std::pair<AskedPtr, Talk>> rests;
  for (const size_t i : {kMedium, kMedium + 1}) {  // one greedy, one sampled
    const Talk& talk = ctx.talks()[i];
    const int64_t half = std::max<int64_t>(static_cast<int64_t>(talk.reply.size()) / 2, 1);
    const AskedPtr asked = ctx.Ask(stage.get(), talk);
    asked->stop_after = half;
    HF_RETURN_IF_ERROR(stage->RunUntil([&] { return asked->done; }));
    if (asked->wrong_at >= 0) break;
    const Talk rest = RestOf(talk, half);
    rests.emplace_back(ctx.Ask(stage.get(), rest), rest);
  }
  HF_RETURN_IF_ERROR(ctx.Finish(stage.get()));
  for (const auto& [asked, rest] : rests) {
    RequireReuse(ctx, *asked, static_cast<int64_t>(rest.prompt.size()) - 1);
  }
  return OkStatus();
}

Status CancelAndResume(CaseContext& ctx) {
  StageOptions options = ctx.DefaultStage(std::min(2, ctx.n_slots()));
  HF_ASSIGN_OR_RETURN(const auto stage, ctx.NewStage(options));
  const AskedPtr first = ctx.Ask(stage.get(), ctx.long_talk());
  HF_RETURN_IF_ERROR(stage->RunUntil([&] { return first->n_read > 0; }));
  const bool reading = first->tokens.empty();
  const int64_t n_read = first->n_read;
  stage->Cancel(*first);
  HF_RETURN_IF_ERROR(ctx.CheckStates(stage.get()));
  const AskedPtr again = ctx.Ask(stage.get(), ctx.long_talk());
  HF_RETURN_IF_ERROR(ctx.Finish(stage.get()));
  RequireReuse(ctx, *again, reading ? n_read : 1);
  return OkStatus();
}

// A second turn after others have had theirs, one at a time.
Status ParkAndComeBack(CaseContext& ctx) {
  std::vector<Talk> seconds;
  for (size_t i = 0; i < 3; ++i) {
    HF_ASSIGN_OR_RETURN(Talk second, ctx.NewTalk(Joined(ctx.talks()[i].all(), ctx.RandomTokens(21)),
                                                 i == 1, ctx.sizes().reply));
    seconds.push_back(std::move(second));
  }
  HF_ASSIGN_OR_RETURN(const auto stage, ctx.NewStage(ctx.DefaultStage(1)));
  for (size_t i = 0; i < 3; ++i) ctx.Ask(stage.get(), ctx.talks()[i]);
  HF_RETURN_IF_ERROR(ctx.Finish(stage.get()));
  std::vector<AskedPtr> asked;
  for (const Talk& second : seconds) asked.push_back(ctx.Ask(stage.get(), second));
  HF_RETURN_IF_ERROR(ctx.Finish(stage.get()));
  for (size_t i = 0; i < 3; ++i) {
    RequireReuse(ctx, *asked[i], static_cast<int64_t>(ctx.talks()[i].all().size()) - 1);
  }
  return OkStatus();
}

// Others begin on a conversation's beginning while it goes on itself.
Status Borrow(CaseContext& ctx) {
  const Talk& donor = ctx.talks()[1];
  const int64_t mark = static_cast<int64_t>(donor.prompt.size()) * 2 / 3;
  std::vector<Talk> borrowers;
  for (const bool sampled : {false, true}) {
    const auto beginning = std::span(donor.prompt).first(mark);
    HF_ASSIGN_OR_RETURN(
        Talk talk, ctx.NewTalk(Joined({beginning.begin(), beginning.end()}, ctx.RandomTokens(33)),
                               sampled, ctx.sizes().reply));
    borrowers.push_back(std::move(talk));
  }
  HF_ASSIGN_OR_RETURN(const auto stage, ctx.NewStage(ctx.DefaultStage(std::min(4, ctx.n_slots()))));
  const AskedPtr first =
      ctx.Ask(stage.get(), donor, {{.position = mark, .kind = CheckpointKind::kSystem}});
  HF_RETURN_IF_ERROR(stage->RunUntil([&] { return !first->tokens.empty(); }));
  std::vector<AskedPtr> asked;
  for (const Talk& talk : borrowers) asked.push_back(ctx.Ask(stage.get(), talk));
  HF_RETURN_IF_ERROR(ctx.Finish(stage.get()));
  for (const AskedPtr& a : asked) RequireReuse(ctx, *a, mark);
  // And the donor afterwards.
  const AskedPtr again = ctx.Ask(stage.get(), RestOf(donor, 1));
  HF_RETURN_IF_ERROR(ctx.Finish(stage.get()));
  RequireReuse(ctx, *again, mark);
  return OkStatus();
}

// The last turn is changed, changed back, answered anew; a copy goes its own way.
Status Edits(CaseContext& ctx) {
  const Talk& talk = ctx.talks()[kMedium];
  const int64_t mark = static_cast<int64_t>(talk.prompt.size()) - 10;
  if (mark < 1) {
    ctx.Skip("the context is too small");
    return OkStatus();
  }
  const auto kept = std::span(talk.prompt).first(mark);
  const std::vector<TokenId> beginning(kept.begin(), kept.end());
  const int64_t n = ctx.sizes().reply;
  HF_ASSIGN_OR_RETURN(const Talk edited,
                      ctx.NewTalk(Joined(beginning, ctx.RandomTokens(15)), false, n));
  HF_ASSIGN_OR_RETURN(const Talk undone,
                      ctx.NewTalk(Joined(talk.all(), ctx.RandomTokens(12)), true, n));
  HF_ASSIGN_OR_RETURN(const Talk again, ctx.NewTalk(talk.prompt, true, n));
  HF_ASSIGN_OR_RETURN(const Talk copied,
                      ctx.NewTalk(Joined(talk.all(), ctx.RandomTokens(7)), false, n));

  HF_ASSIGN_OR_RETURN(const auto stage, ctx.NewStage(ctx.DefaultStage(1)));
  const std::vector<CheckpointMark> marks = {
      {.position = mark, .kind = CheckpointKind::kBeforeReply}};
  const AskedPtr first = ctx.Ask(stage.get(), talk, marks);
  HF_RETURN_IF_ERROR(ctx.Finish(stage.get()));
  if (ctx.failed()) return OkStatus();
  HF_RETURN_IF_ERROR(stage->cache().Fork(first->result.conversation, "a.copy").status());
  const std::pair<const Talk*, int64_t> steps[] = {
      {&edited, mark},
      {&undone, static_cast<int64_t>(talk.all().size()) - 1},
      {&again, mark},
      {&copied, static_cast<int64_t>(talk.all().size()) - 1}};
  for (const auto& [next, reused] : steps) {
    const AskedPtr asked = ctx.Ask(stage.get(), *next, marks);
    HF_RETURN_IF_ERROR(ctx.Finish(stage.get()));
    RequireReuse(ctx, *asked, reused);
  }
  return OkStatus();
}

}  // namespace

void AddReuseCases(std::vector<VerifyCase>* cases) {
  cases->push_back({"stopped in a reply, continued", StopAndContinue});
  cases->push_back({"cancelled in a read, resumed", CancelAndResume});
  cases->push_back({"parked, then another turn", ParkAndComeBack});
  cases->push_back({"begun on another's beginning", Borrow});
  cases->push_back({"edited, undone, answered anew, copied", Edits});
}

}  // namespace holdfast

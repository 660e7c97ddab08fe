// Who else is in a step: batches, guesses, a long read beside replies.

#include <fmt/format.h>

#include <algorithm>

#include "verify/case_context.h"

namespace holdfast {
namespace {

int64_t Drafted(const Stage& stage) {
  int64_t n = 0;
  for (const AskedPtr& asked : stage.asked()) n += asked->result.timings.n_drafted;
  return n;
}

// The first `n` conversations in as many slots; each begins some steps after the one before.
Status Together(CaseContext& ctx, int n, int max_drafts) {
  if (n > ctx.n_slots()) {
    ctx.Skip(fmt::format("memory holds {} slots", ctx.n_slots()));
    return OkStatus();
  }
  HF_ASSIGN_OR_RETURN(const auto stage, ctx.NewStage(ctx.DefaultStage(n, max_drafts)));
  size_t most_at_once = 0;
  const auto step = [&]() -> Status {
    HF_RETURN_IF_ERROR(stage->Step());
    most_at_once = std::max(most_at_once, stage->scheduler().status().slots.size());
    return OkStatus();
  };
  for (int i = 0; i < n; ++i) {
    ctx.Ask(stage.get(), ctx.talks()[i]);
    for (uint64_t k = ctx.random()() % 3; k > 0; --k) HF_RETURN_IF_ERROR(step());
  }
  while (!stage->scheduler().idle()) HF_RETURN_IF_ERROR(step());
  HF_RETURN_IF_ERROR(ctx.Finish(stage.get()));
  ctx.Require(max_drafts == 0 || Drafted(*stage) > 0, "nothing was guessed");
  ctx.Require(n == 1 || most_at_once > static_cast<size_t>(n / 2),
              fmt::format("only {} of {} conversations ran at once", most_at_once, n));
  return OkStatus();
}

Status Drafts(CaseContext& ctx, int depth) {
  if (!ctx.has_draft()) {
    ctx.Skip("the model has no draft head");
    return OkStatus();
  }
  HF_RETURN_IF_ERROR(Together(ctx, 1, depth));
  HF_RETURN_IF_ERROR(Together(ctx, std::min(4, ctx.n_slots()), depth));
  return OkStatus();
}

// Replies of two words repeat themselves, so some of what followed earlier comes again.
Status LookedUpDrafts(CaseContext& ctx) {
  StageOptions options = ctx.DefaultStage(std::min(2, ctx.n_slots()), Model::kMaxWindow - 1);
  options.draft_source = DraftSource::kLookup;
  HF_ASSIGN_OR_RETURN(const auto stage, ctx.NewStage(options));
  for (const bool sampled : {false, true}) {
    const std::vector<TokenId> prompt = ctx.RandomTokens(24);
    HF_ASSIGN_OR_RETURN(const Talk talk, ctx.NewTalk(prompt, sampled, ctx.sizes().reply,
                                                     {prompt.front(), prompt.back()}));
    ctx.Ask(stage.get(), talk);
  }
  HF_RETURN_IF_ERROR(ctx.Finish(stage.get()));
  ctx.Require(Drafted(*stage) > 0, "nothing was guessed");
  return OkStatus();
}

Status LongReadBesideDecoders(CaseContext& ctx) {
  const int n_slots = std::min(4, ctx.n_slots());
  StageOptions options = ctx.DefaultStage(n_slots);
  // So that it takes many steps.
  options.step_target_ms = std::max(1.0, 4 * ctx.decode_ms());
  HF_ASSIGN_OR_RETURN(const auto stage, ctx.NewStage(options));
  std::vector<AskedPtr> decoders;
  for (int i = 0; i + 1 < n_slots; ++i) {
    constexpr int kShortOnes[] = {0, 6, 4};
    decoders.push_back(ctx.Ask(stage.get(), ctx.talks()[kShortOnes[i]]));
  }
  HF_RETURN_IF_ERROR(stage->RunUntil([&] {
    return std::ranges::all_of(decoders, [](const auto& d) { return !d->tokens.empty(); });
  }));
  const AskedPtr reader = ctx.Ask(stage.get(), ctx.long_talk());
  int64_t n_beside = 0;  // tokens that came while the long prompt was read
  const auto n_tokens = [&] {
    int64_t n = 0;
    for (const auto& d : decoders) n += static_cast<int64_t>(d->tokens.size());
    return n;
  };
  while (reader->tokens.empty() && !reader->done) {
    const int64_t before = n_tokens();
    HF_RETURN_IF_ERROR(stage->Step());
    if (reader->tokens.empty()) n_beside += n_tokens() - before;
  }
  HF_RETURN_IF_ERROR(ctx.Finish(stage.get()));
  ctx.Require(decoders.empty() || n_beside > 0, "no reply went on while the long prompt was read");
  return OkStatus();
}

Status YieldToAShortPrompt(CaseContext& ctx) {
  if (ctx.n_slots() < 2) {
    ctx.Skip("memory holds one slot");
    return OkStatus();
  }
  HF_ASSIGN_OR_RETURN(const auto stage, ctx.NewStage(ctx.DefaultStage(2)));
  const AskedPtr reader = ctx.Ask(stage.get(), ctx.long_talk());
  HF_RETURN_IF_ERROR(stage->Step());
  const AskedPtr quick = ctx.Ask(stage.get(), ctx.talks()[6]);
  bool first = false;
  HF_RETURN_IF_ERROR(stage->RunUntil([&] {
    first = first || (!quick->tokens.empty() && reader->tokens.empty());
    return !quick->tokens.empty() && !reader->tokens.empty();
  }));
  HF_RETURN_IF_ERROR(ctx.Finish(stage.get()));
  const bool long_enough =
      ctx.sizes().long_prompt > 2 * ctx.rig().model().max_rows() + ctx.sizes().prompts[6];
  ctx.Require(first || !long_enough, "the short prompt waited for the long one");
  return OkStatus();
}

}  // namespace

void AddTogetherCases(const VerifyOptions& options, std::vector<VerifyCase>* cases) {
  cases->push_back({"alone, by the scheduler", [](CaseContext& ctx) -> Status {
                      HF_ASSIGN_OR_RETURN(const auto stage, ctx.NewStage(ctx.DefaultStage(1, 0)));
                      for (const Talk& talk : ctx.talks()) ctx.Ask(stage.get(), talk);
                      return ctx.Finish(stage.get());
                    }});
  for (const int n : {2, 4, 8}) {
    cases->push_back(
        {fmt::format("batch of {}", n), [n](CaseContext& ctx) { return Together(ctx, n, 0); }});
  }
  for (const int depth :
       options.quick ? std::vector<int>{1, 3, 7} : std::vector<int>{1, 2, 3, 4, 5, 6, 7}) {
    cases->push_back({fmt::format("{} guess{} ahead", depth, depth == 1 ? "" : "es"),
                      [depth](CaseContext& ctx) { return Drafts(ctx, depth); }});
  }
  cases->push_back({"looked-up guesses", LookedUpDrafts});
  cases->push_back({"a long read beside replies", LongReadBesideDecoders});
  cases->push_back({"a long read yields to a short one", YieldToAShortPrompt});
}

}  // namespace holdfast

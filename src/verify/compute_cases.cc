// What a row is computed with: steps of every size, company in a step, threads, kernel sets.

#include <fmt/format.h>

#include <algorithm>

#include "ops/cpu/kernels.h"
#include "verify/case_context.h"

namespace holdfast {
namespace {

constexpr int64_t kAnyRows = 0;
constexpr int64_t kFewTokens = 130;  // are read row by row, or answered together

// Tokens of a talk that have a row.
std::vector<TokenId> RowsOf(const Talk& talk) {
  std::vector<TokenId> tokens = talk.all();
  tokens.pop_back();
  return tokens;
}

// Reads a conversation in steps of `chunk` rows, or of any number.
Status ReadInSteps(CaseContext& ctx, const Talk& talk, int64_t chunk) {
  const std::vector<TokenId> tokens = RowsOf(talk);
  HF_ASSIGN_OR_RETURN(PlainConversation c, PlainConversation::Create(&ctx.rig().model()));
  for (size_t at = 0; at < tokens.size();) {
    const size_t n = chunk != kAnyRows ? chunk : 1 + ctx.random()() % 90;
    const auto rows = std::span(tokens).subspan(at, std::min(n, tokens.size() - at));
    HF_RETURN_IF_ERROR(c.Step(rows, {}));
    at += rows.size();
  }
  HF_RETURN_IF_ERROR(ctx.rig().check().AddRunning(c.state()));
  return ctx.rig().check().AddCells(c.state(), 0);
}

Status ReadAllInSteps(CaseContext& ctx, int64_t chunk, int64_t most_tokens) {
  for (const Talk& talk : ctx.talks()) {
    if (static_cast<int64_t>(talk.prompt.size()) > most_tokens) continue;
    HF_RETURN_IF_ERROR(ReadInSteps(ctx, talk, chunk));
  }
  return OkStatus();
}

// Steps of some conversations with some rows each, in any order.
Status ReadInCompany(CaseContext& ctx, size_t n_conversations) {
  std::vector<std::vector<TokenId>> tokens;
  std::vector<PlainConversation> conversations;
  for (size_t i = 0; i < n_conversations; ++i) {
    tokens.push_back(RowsOf(ctx.talks()[i]));
    HF_ASSIGN_OR_RETURN(PlainConversation c, PlainConversation::Create(&ctx.rig().model()));
    conversations.push_back(std::move(c));
  }
  while (true) {
    std::vector<size_t> order;
    for (size_t i = 0; i < n_conversations; ++i) {
      if (conversations[i].tokens().size() < tokens[i].size()) order.push_back(i);
    }
    if (order.empty()) break;
    std::shuffle(order.begin(), order.end(), ctx.random());
    order.resize(1 + ctx.random()() % order.size());
    std::vector<PlainConversation*> some;
    std::vector<std::span<const int32_t>> rows;
    for (const size_t i : order) {
      const size_t at = conversations[i].tokens().size();
      const size_t n = ctx.random()() % 3 == 0 ? 1 : 1 + ctx.random()() % 60;
      some.push_back(&conversations[i]);
      rows.push_back(std::span(tokens[i]).subspan(at, std::min(n, tokens[i].size() - at)));
    }
    HF_RETURN_IF_ERROR(PlainConversation::StepTogether(some, rows));
  }
  for (const PlainConversation& c : conversations) {
    HF_RETURN_IF_ERROR(ctx.rig().check().AddRunning(c.state()));
    HF_RETURN_IF_ERROR(ctx.rig().check().AddCells(c.state(), 0));
  }
  return OkStatus();
}

// Long and short steps, and answering together, on another rig.
Status OnAnotherRig(CaseContext& ctx, const CpuBackendOptions& cpu, int64_t most_read,
                    int64_t most_answered) {
  return ctx.WithRig(cpu, [=](CaseContext& c) -> Status {
    HF_RETURN_IF_ERROR(ReadAllInSteps(c, c.rig().model().max_rows(), most_read));
    HF_ASSIGN_OR_RETURN(const auto stage, c.NewStage(c.DefaultStage(std::min(4, c.n_slots()))));
    for (const Talk& talk : c.talks()) {
      if (static_cast<int64_t>(talk.prompt.size()) <= most_answered) c.Ask(stage.get(), talk);
    }
    return c.Finish(stage.get());
  });
}

}  // namespace

void AddComputeCases(const VerifyOptions& options, std::vector<VerifyCase>* cases) {
  const bool quick = options.quick;
  cases->push_back(
      {"steps of 1 row", [](CaseContext& ctx) { return ReadAllInSteps(ctx, 1, kFewTokens); }});
  cases->push_back({"steps of 7 rows",
                    [](CaseContext& ctx) { return ReadAllInSteps(ctx, 7, ctx.sizes().ctx()); }});
  cases->push_back({"steps of any number of rows", [](CaseContext& ctx) {
                      return ReadAllInSteps(ctx, kAnyRows, ctx.sizes().ctx());
                    }});
  cases->push_back({"steps as large as they get", [](CaseContext& ctx) {
                      return ReadAllInSteps(ctx, ctx.rig().model().max_rows(), ctx.sizes().ctx());
                    }});
  cases->push_back({"steps with rows of others",
                    [](CaseContext& ctx) { return ReadInCompany(ctx, ctx.talks().size()); }});

  for (const int n : quick ? std::vector<int>{1, 3} : std::vector<int>{1, 2, 3, 5, 8}) {
    cases->push_back({fmt::format("{} thread{}", n, n == 1 ? "" : "s"), [n](CaseContext& ctx) {
                        CpuBackendOptions cpu = ctx.options().cpu;
                        cpu.n_threads = n;
                        return OnAnotherRig(ctx, cpu, ctx.sizes().ctx(), kFewTokens);
                      }});
  }
  int n_kernels = 0;
  const std::string_view* names = AvailableKernels(&n_kernels);
  for (int i = 0; i < n_kernels; ++i) {
    const std::string name(names[i]);
    // The plain reading of the contract is slow.
    cases->push_back({"kernels " + name, [name](CaseContext& ctx) {
                        CpuBackendOptions cpu = ctx.options().cpu;
                        cpu.kernels = name;
                        if (name != "scalar") {
                          return OnAnotherRig(ctx, cpu, ctx.sizes().ctx(), kFewTokens);
                        }
                        // The plain reading of the contract is slow.
                        const int64_t most = ctx.sizes().scalar_tokens;
                        return OnAnotherRig(ctx, cpu, most, most / 4);
                      }});
  }
}

}  // namespace holdfast

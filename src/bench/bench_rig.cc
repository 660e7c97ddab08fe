#include "bench/bench_rig.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "bench/seeded_state.h"
#include "engine/engine.h"
#include "ops/profile/profiling_backend.h"
#include "verify/rig.h"

namespace holdfast {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

Result<std::unique_ptr<BenchModel>> BenchModel::Load(const BenchModelOptions& options) {
  std::unique_ptr<BenchModel> loaded(new BenchModel);
  HF_ASSIGN_OR_RETURN(loaded->cpu_, CpuBackend::Create(options.cpu));
  Backend* backend = loaded->cpu_.get();
  if (options.profile) {
    loaded->profiling_ = std::make_unique<ProfilingBackend>(backend, options.profile);
    backend = loaded->profiling_.get();
  }
  // Steps as large as those of a server.
  HF_ASSIGN_OR_RETURN(loaded->model_, Model::Load(options.model_path,
                                                  {.mtp_path = options.mtp_path,
                                                   .kv_format = options.kv_format,
                                                   .max_rows = EngineOptions().max_rows},
                                                  backend));
  HF_RETURN_IF_ERROR(PlaceWeights(options.expert_memory, options.ngram_memory, options.repack,
                                  options.memory_limit_bytes, loaded->model_.get()));
  HF_ASSIGN_OR_RETURN(loaded->tokenizer_, TokenizerOf(*loaded->model_));
  return loaded;
}

std::vector<TokenId> RandomTokens(uint64_t seed, int64_t n, int64_t vocab_size) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> tokens(n);
  for (TokenId& token : tokens) {
    token = static_cast<TokenId>(random() % static_cast<uint64_t>(vocab_size));
  }
  return tokens;
}

Result<std::unique_ptr<BenchRig>> BenchRig::Create(BenchModel* model, const Options& options) {
  std::unique_ptr<BenchRig> rig(new BenchRig(model));
  const SchedulerOptions as_served;
  HF_ASSIGN_OR_RETURN(rig->stage_,
                      Stage::Create(model->model(), model->tokenizer(),
                                    {.ctx = options.ctx,
                                     .n_slots = options.n_slots,
                                     .max_drafts = options.max_drafts,
                                     .min_draft_probability = as_served.min_draft_probability,
                                     .step_target_ms = as_served.step_target_ms,
                                     .work_bytes = options.state_bytes,
                                     .cache_ram_bytes = options.state_bytes}));
  return rig;
}

Result<Base> BenchRig::ReadBase(int64_t depth, uint64_t seed,
                                const std::function<void(int64_t)>& progress) {
  Base base{.tokens = RandomTokens(seed, depth + 1, model()->config().vocab_size)};
  if (depth == 0) return base;
  GenerateRequest request;
  request.prompt.assign(base.tokens.begin(), base.tokens.end() - 1);
  request.max_tokens = 0;
  const AskedPtr asked = stage_->Ask(std::move(request));
  HF_RETURN_IF_ERROR(stage_->RunUntil([&] {
    if (progress) progress(asked->n_read);
    return asked->done;
  }));
  if (asked->result.reason == FinishReason::kError) return asked->result.status;
  const PrefixMatch match = cache().Find(TokenView(base.tokens));
  if (match.position != depth) {
    return InternalError(
        fmt::format("{} tokens were read, but only {} of them were kept", depth, match.position));
  }
  HF_ASSIGN_OR_RETURN(base.conversation, cache().Begin(match, TokenView(base.tokens)));
  return base;
}

Result<Base> BenchRig::FillBase(int64_t depth, uint64_t seed) {
  Base base{.tokens = RandomTokens(seed, depth + 1, model()->config().vocab_size)};
  if (depth == 0) return base;
  const StateLayout& layout = model()->layout();
  SeededState filler(model()->backend(), &layout, seed);
  HF_ASSIGN_OR_RETURN(Conversation* const c,
                      cache().Begin(cache().Find(TokenView(base.tokens)), TokenView(base.tokens)));
  base.conversation = c;
  while (c->n_computed() < depth) {
    const bool is_new = c->running() == nullptr;
    const int64_t begin = c->n_computed();
    const int64_t end = std::min(depth, cache().NextStop(*c));
    HF_RETURN_IF_ERROR(cache().PrepareWrite(c, end));
    if (is_new) HF_RETURN_IF_ERROR(filler.FillRunning(c->running()));
    for (int64_t i = layout.PagesFor(begin); i < layout.PagesFor(end); ++i) {
      HF_RETURN_IF_ERROR(filler.FillPage(c->page_buffers()[i]));
    }
    HF_RETURN_IF_ERROR(cache().Advance(c, end));
  }
  return base;
}

void BenchRig::Drop(Base* base) {
  if (base->conversation != nullptr) cache().Discard(base->conversation);
  base->conversation = nullptr;
}

Status BenchRig::EndOf(const Asked& asked) {
  if (Conversation* c = cache().FindById(asked.result.conversation); c != nullptr && !c->bound()) {
    cache().Discard(c);
  }
  return asked.result.reason == FinishReason::kError ? asked.result.status : OkStatus();
}

Result<TimedRun> BenchRig::Prefill(const Base& base, int64_t n, uint64_t seed) {
  GenerateRequest request;
  request.prompt.assign(base.tokens.begin(), base.tokens.end() - 1);
  const std::vector<TokenId> more = RandomTokens(seed, n, model()->config().vocab_size);
  request.prompt.insert(request.prompt.end(), more.begin(), more.end());
  request.max_tokens = 0;
  const auto begin = Clock::now();
  const AskedPtr asked = stage_->Ask(std::move(request));
  HF_RETURN_IF_ERROR(stage_->RunAll());
  const TimedRun run{.seconds = SecondsSince(begin), .n_tokens = n};
  HF_RETURN_IF_ERROR(EndOf(*asked));
  if (asked->result.reuse.tokens_reused != base.depth()) {
    return InternalError(fmt::format("a prompt of {} tokens on {} reused {}: {}", n, base.depth(),
                                     asked->result.reuse.tokens_reused,
                                     asked->result.reuse.reason));
  }
  return run;
}

Result<TimedRun> BenchRig::Decode(std::span<const std::vector<TokenId>> prompts, int64_t n,
                                  const SamplingParams& sampling) {
  std::vector<AskedPtr> all;
  for (const std::vector<TokenId>& prompt : prompts) {
    GenerateRequest request;
    request.prompt = prompt;
    request.sampling = sampling;
    request.sampling.seed = 1 + all.size();
    request.max_tokens = n + 1;
    request.ignore_eos = true;
    all.push_back(stage_->Ask(std::move(request)));
  }
  const auto n_tokens = [&] {
    int64_t sum = 0;
    for (const AskedPtr& asked : all) sum += static_cast<int64_t>(asked->tokens.size());
    return sum;
  };
  const auto any_done = [&] { return std::ranges::any_of(all, &Asked::done); };
  HF_RETURN_IF_ERROR(stage_->RunUntil([&] {
    return any_done() ||
           std::ranges::all_of(all, [](const AskedPtr& asked) { return !asked->tokens.empty(); });
  }));
  TimedRun run{.n_tokens = -n_tokens()};
  const auto begin = Clock::now();
  HF_RETURN_IF_ERROR(stage_->RunUntil(any_done));
  run.seconds = SecondsSince(begin);
  run.n_tokens += n_tokens();
  for (const AskedPtr& asked : all) {
    if (!asked->done) stage_->Cancel(*asked);
    run.n_drafted += asked->result.timings.n_drafted;
    run.n_accepted += asked->result.timings.n_accepted;
    HF_RETURN_IF_ERROR(EndOf(*asked));
  }
  return run;
}

}  // namespace holdfast

#include "verify/stage.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

namespace holdfast {
namespace {

constexpr auto kStallPause = std::chrono::milliseconds(1);
constexpr int64_t kMaxStalls = 60'000;
constexpr auto kFlushTimeout = std::chrono::minutes(10);

}  // namespace

void Asked::OnPromptProgress(int64_t processed, int64_t total, int64_t reused) {
  (void)total, (void)reused;
  n_read = processed;
}

SinkAnswer Asked::OnToken(const TokenEvent& event) {
  const size_t i = tokens.size();
  tokens.push_back(event.id);
  if (wrong_at < 0 && !expected.empty() && (i >= expected.size() || expected[i] != event.id)) {
    wrong_at = static_cast<int64_t>(i);
  }
  const bool leave = stop_after >= 0 && static_cast<int64_t>(tokens.size()) >= stop_after;
  return wrong_at >= 0 || leave ? SinkAnswer::kStop : SinkAnswer::kContinue;
}

void Asked::OnFinish(const GenerateResult& r) {
  result = r;
  done = true;
}

Result<std::unique_ptr<Stage>> Stage::Create(Model* model, const Tokenizer* tokenizer,
                                             const StageOptions& options) {
  std::unique_ptr<Stage> stage(new Stage(model));
  const bool no_head = options.max_drafts == 0 || options.draft_source == DraftSource::kLookup;
  const StateLayout* draft = no_head ? nullptr : model->draft_layout();
  HF_ASSIGN_OR_RETURN(
      stage->cache_,
      StateCache::Create(
          {.backend = model->backend(),
           .trunk = &model->layout(),
           .draft = draft,
           .params = {.cache_ram_bytes = options.cache_ram_bytes, .work_bytes = options.work_bytes},
           .policy =
               ChooseCheckpointPolicy(model->layout(), options.ctx, options.min_checkpoint_gap)
                   .policy}));
  if (!options.store_dir.empty()) {
    HF_ASSIGN_OR_RETURN(stage->persistence_,
                        Persistence::Create({.dir = options.store_dir,
                                             .autosave = options.autosave,
                                             .write_limit_bytes_per_hour = 0,
                                             .numerics_key = options.numerics_key,
                                             .ctx = options.ctx},
                                            model, stage->cache_.get()));
    stage->cache_->set_evict_hook(
        [raw = stage.get()](const Conversation& c) { return raw->persistence_->Evict(c); });
  }
  stage->scheduler_ = std::make_unique<Scheduler>(
      model, stage->cache_.get(), tokenizer, stage->persistence_.get(),
      SchedulerOptions{.ctx = options.ctx,
                       .n_slots = options.n_slots,
                       .step_target_ms = options.step_target_ms,
                       .max_drafts = options.max_drafts,
                       .draft_source = options.draft_source,
                       .min_draft_probability = options.min_draft_probability});
  return stage;
}

AskedPtr Stage::Ask(GenerateRequest request, std::vector<TokenId> expected) {
  auto asked = std::make_shared<Asked>(request, std::move(expected));
  const RequestId id = next_id_++;
  ids_[asked.get()] = id;
  asked_.push_back(asked);
  scheduler_->Add(id, std::move(request), asked);
  return asked;
}

void Stage::Cancel(const Asked& asked) {
  const auto it = ids_.find(&asked);
  if (it == ids_.end()) return;
  scheduler_->Cancel(it->second, CancelledError("the request was cancelled"));
}

Status Stage::Step() {
  if (persistence_) persistence_->Tick();
  if (scheduler_->Step() != StepResult::kStalled) {
    n_stalls_ = 0;
    return OkStatus();
  }
  if (++n_stalls_ > kMaxStalls) {
    return DeadlineExceededError("requests are waiting, but no step could run for a minute");
  }
  std::this_thread::sleep_for(kStallPause);
  return OkStatus();
}

Status Stage::RunUntil(const std::function<bool()>& done) {
  while (!done()) {
    if (scheduler_->idle()) {
      return InternalError("all requests have ended before what was waited for happened");
    }
    HF_RETURN_IF_ERROR(Step());
  }
  return OkStatus();
}

Status Stage::RunAll() {
  while (!scheduler_->idle()) HF_RETURN_IF_ERROR(Step());
  return OkStatus();
}

Status Stage::Close() {
  scheduler_->CancelAll(CancelledError("the end of the process"));
  if (!persistence_) return OkStatus();
  const int64_t n_left = persistence_->Flush(kFlushTimeout);
  if (n_left == 0) return OkStatus();
  return DeadlineExceededError(fmt::format("{} conversations were not saved in time", n_left));
}

}  // namespace holdfast

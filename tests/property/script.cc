#include "tests/property/script.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "model/numerics.h"
#include "verify/rig.h"

namespace holdfast {
namespace {

constexpr int kPageTokens = 32;
constexpr int64_t kMaxRows = 64;
constexpr int64_t kCheckpointGap = 48;
constexpr int64_t kCtx = 400;
constexpr int64_t kMostReply = 8;
// Both ends, so that a script does not depend on the clock: a step reads as much as fits, or a row.
constexpr double kReadsMuch = 1e9, kReadsLittle = 1e-6;

}  // namespace

Result<ScriptModel> ScriptModel::Load(const std::string& path, const CpuBackendOptions& cpu,
                                      KvFormat kv_format) {
  ScriptModel m;
  HF_ASSIGN_OR_RETURN(m.backend, CpuBackend::Create(cpu));
  HF_ASSIGN_OR_RETURN(
      m.model,
      Model::Load(path, {.kv_format = kv_format, .page_tokens = kPageTokens, .max_rows = kMaxRows},
                  m.backend.get()));
  HF_ASSIGN_OR_RETURN(m.tokenizer, TokenizerOf(*m.model));
  return m;
}

Script::Script(ScriptModel* model, uint64_t seed, std::string folder)
    : model_(model),
      random_(seed),
      folder_(std::move(folder)),
      ledger_(&model->model->layout(), model->model->draft_layout()),
      check_(model->backend.get(), &model->model->layout(), model->model->draft_layout(),
             &ledger_) {
  check_.set_collect_unknown(false);
}

void Script::Say(const std::string& line) { log_ += "  " + line + "\n"; }

std::vector<TokenId> Script::Words(int64_t n) {
  std::vector<TokenId> tokens(n);
  // Few different ones: conversations are to have more in common than they know.
  const int64_t n_words = Chance(0.2) ? 3 : model_->model->config().vocab_size;
  for (TokenId& token : tokens) token = static_cast<TokenId>(Number(0, n_words - 1));
  return tokens;
}

Status Script::Begin() {
  const StateLayout& layout = model_->model->layout();
  const StateLayout* draft = model_->model->draft_layout();
  const uint64_t page = layout.page_bytes() + (draft ? draft->page_bytes() : 0);
  const uint64_t running = layout.running_bytes() + (draft ? draft->running_bytes() : 0);
  options_.n_slots = static_cast<int>(Number(1, 4));
  options_.max_drafts = draft == nullptr || Chance(0.2) ? 0 : static_cast<int>(Number(1, 7));
  options_.step_target_ms = Chance(0.7) ? kReadsMuch : kReadsLittle;
  // What bound conversations may need (a context this small has more checkpoints than its pages
  // weigh), and room for parked ones.
  options_.work_bytes = options_.n_slots * (layout.PagesFor(kCtx) * page + 8 * running);
  options_.cache_ram_bytes = Chance(0.3) ? Number(0, 20) * page : uint64_t{1} << 30;
  const Autosave autosaves[] = {Autosave::kTurn, Autosave::kIdle, Autosave::kOff};
  options_.autosave = autosaves[Number(0, 2)];
  Say(fmt::format("{} slots, {} guesses, {} steps, {} for parked conversations, autosave {}",
                  options_.n_slots, options_.max_drafts,
                  options_.step_target_ms == kReadsMuch ? "long" : "short",
                  options_.cache_ram_bytes, static_cast<int>(options_.autosave)));
  HF_ASSIGN_OR_RETURN(stage_,
                      Stage::Create(model_->model.get(), model_->tokenizer.get(), options_));
  return OkStatus();
}

Status Script::Restart() {
  HF_RETURN_IF_ERROR(CheckStates());
  const bool orderly = Chance(0.6);
  Say(orderly ? "the process ends" : "the process is gone");
  if (orderly) {
    HF_RETURN_IF_ERROR(stage_->Close());
    HF_RETURN_IF_ERROR(CheckSaves());
  }
  stage_.reset();
  return Begin();
}

// What the client has got of the last reply is part of what it knows.
void Script::TakeReply(Dialogue* dialogue) {
  const Asked& last = *dialogue->last;
  dialogue->tokens = last.request.prompt;
  dialogue->tokens.insert(dialogue->tokens.end(), last.tokens.begin(), last.tokens.end());
  if (last.done) dialogue->conversation = last.result.conversation;
}

void Script::Submit(Dialogue* dialogue) {
  const int64_t room = kCtx - kMostReply - 1;
  if (static_cast<int64_t>(dialogue->tokens.size()) > room) dialogue->tokens.resize(room);
  GenerateRequest request{
      .prompt = dialogue->tokens, .max_tokens = Number(1, kMostReply), .ignore_eos = true};
  request.sampling.seed = random_();
  if (Chance(0.5)) {
    request.sampling.temperature = 0.9f;
    request.sampling.top_k = Chance(0.5) ? 40 : 0;
    request.sampling.repeat_penalty = Chance(0.3) ? 1.2f : 1.0f;
  }
  const int64_t n = static_cast<int64_t>(request.prompt.size());
  if (n > 4 && Chance(0.5)) {
    request.checkpoints.push_back({Number(1, n - 2), CheckpointKind::kSystem});
    request.checkpoints.push_back({n - 1, CheckpointKind::kBeforeReply});
  }
  if (Chance(0.2)) request.priority = Priority::kSide;
  if (Chance(0.3)) request.conversation = dialogue->conversation;
  dialogue->last = stage_->Ask(std::move(request));
  if (Chance(0.2)) dialogue->last->stop_after = Number(1, kMostReply);
  asked_.push_back(dialogue->last);
  ++n_requests_;
  Say(fmt::format("request {}: {} tokens, {} wanted{}", asked_.size() - 1, n,
                  dialogue->last->request.max_tokens,
                  dialogue->last->stop_after >= 0
                      ? fmt::format(", its client leaves after {}", dialogue->last->stop_after)
                      : ""));
}

Status Script::Fork() {
  const auto kept = stage_->cache().List();
  std::vector<const Conversation*> parked;
  for (const Conversation* c : kept) {
    if (!c->bound() && c->n_computed() > 0) parked.push_back(c);
  }
  if (parked.empty()) return OkStatus();
  const Conversation& c = *parked[Number(0, static_cast<int64_t>(parked.size()) - 1)];
  const auto ids = c.tokens().ids.first(c.n_computed());
  Dialogue dialogue{.tokens = {ids.begin(), ids.end()},
                    .conversation = fmt::format("copy.{}", n_forks_++)};
  const auto copy = stage_->cache().Fork(c.id(), dialogue.conversation);
  // After a restart the name may still be there, on disk.
  if (copy.status().code() == StatusCode::kAlreadyExists) return OkStatus();
  HF_RETURN_IF_ERROR(copy.status());
  Say(fmt::format("a copy of a conversation of {} tokens", ids.size()));
  const std::vector<TokenId> more = Words(Number(1, 20));
  dialogue.tokens.insert(dialogue.tokens.end(), more.begin(), more.end());
  Submit(&dialogue);
  dialogues_.push_back(std::move(dialogue));
  return OkStatus();
}

Status Script::Steps(int64_t n) {
  for (int64_t i = 0; i < n && !stage_->scheduler().idle(); ++i) {
    HF_RETURN_IF_ERROR(stage_->Step());
  }
  return OkStatus();
}

Status Script::Event() {
  const int64_t n_dialogues = static_cast<int64_t>(dialogues_.size());
  const int64_t what = Number(0, 99);
  if (n_dialogues == 0 || what < 25) {  // somebody new, perhaps with a known beginning
    Dialogue dialogue;
    if (Chance(0.5)) dialogue.tokens = systems_[Number(0, 1)];
    const std::vector<TokenId> more = Words(Number(1, Chance(0.2) ? 150 : 40));
    dialogue.tokens.insert(dialogue.tokens.end(), more.begin(), more.end());
    Submit(&dialogue);
    dialogues_.push_back(std::move(dialogue));
    return Steps(Number(0, 6));
  }
  Dialogue& dialogue = dialogues_[Number(0, n_dialogues - 1)];
  if (what < 55) {  // the next turn, perhaps while the last one still runs
    TakeReply(&dialogue);
    const std::vector<TokenId> more = Words(Number(1, 30));
    dialogue.tokens.insert(dialogue.tokens.end(), more.begin(), more.end());
    Submit(&dialogue);
  } else if (what < 70) {  // an edit
    TakeReply(&dialogue);
    dialogue.tokens.resize(Number(0, static_cast<int64_t>(dialogue.tokens.size())));
    const std::vector<TokenId> more = Words(Number(1, 20));
    dialogue.tokens.insert(dialogue.tokens.end(), more.begin(), more.end());
    Say("an edit:");
    Submit(&dialogue);
  } else if (what < 78) {  // the same again
    dialogue.tokens = dialogue.last->request.prompt;
    Say("the same again:");
    Submit(&dialogue);
  } else if (what < 86) {
    if (!dialogue.last->done) Say("a cancel");
    stage_->Cancel(*dialogue.last);
  } else if (what < 91) {
    HF_RETURN_IF_ERROR(Fork());
  } else if (what < 94) {
    Say("memory is given back");
    stage_->cache().Release(Chance(0.5) ? GiveBack::kParked : GiveBack::kOnDisk,
                            Number(1, 1 << 20));
  } else if (what < 96) {
    HF_RETURN_IF_ERROR(stage_->RunAll());
  } else {
    HF_RETURN_IF_ERROR(Restart());
  }
  return Steps(Number(0, 6));
}

// Whatever its clients do, a conversation can be saved: nothing makes the disk fail here.
Status Script::CheckSaves() {
  if (stage_->persistence() == nullptr) return OkStatus();
  const PersistenceStats stats = stage_->persistence()->stats();
  return stats.n_failed_saves == 0 ? OkStatus()
                                   : InternalError("a save was refused: " + stats.last_error);
}

Status Script::CheckStates() {
  HF_RETURN_IF_ERROR(CheckSaves());
  for (const Conversation* c : stage_->cache().List()) {
    HF_RETURN_IF_ERROR(check_.AddConversation(*c));
  }
  return OkStatus();
}

// The oracle: each request alone. Its states are compared with what was kept on the way.
Status Script::CheckReplies() {
  Reference reference(model_->model.get(), model_->tokenizer.get(), &check_);
  for (size_t i = 0; i < asked_.size(); ++i) {
    const Asked& asked = *asked_[i];
    n_reused_ += asked.result.reuse.tokens_reused;
    if (!asked.done) return InternalError(fmt::format("request {} never ended", i));
    if (asked.result.reason == FinishReason::kError) {
      return Status(asked.result.status.code(),
                    fmt::format("request {}: {}", i, asked.result.status.message()));
    }
    if (asked.tokens.empty()) {  // cancelled in its read
      if (asked.result.reason == FinishReason::kCancelled) continue;
      return InternalError(fmt::format("request {} has no reply", i));
    }
    const int64_t n = static_cast<int64_t>(asked.tokens.size());
    if (asked.result.reason == FinishReason::kMaxTokens && n != asked.request.max_tokens) {
      return InternalError(
          fmt::format("request {}: {} tokens, wanted {}", i, n, asked.request.max_tokens));
    }
    ledger_.SetConversation(static_cast<int>(i));
    HF_ASSIGN_OR_RETURN(const std::vector<TokenId> want,
                        reference.Reply(asked.request.prompt, asked.request.sampling, n));
    for (int64_t k = 0; k < n; ++k) {
      if (asked.tokens[k] == want[k]) continue;
      return InternalError(fmt::format("request {}: token {} of the reply is {}, alone it is {}", i,
                                       k, asked.tokens[k], want[k]));
    }
  }
  return OkStatus();
}

std::string Script::Run() {
  const auto run = [&]() -> Status {
    options_ = {.ctx = kCtx,
                .numerics_key = NumericsKey(ActivationFormat::kAuto, {}),
                .min_checkpoint_gap = kCheckpointGap};
    if (Chance(0.4)) options_.store_dir = folder_ + "/store";
    for (int i = 0; i < 2; ++i) systems_.push_back(Words(Number(30, 90)));
    ledger_.BeginCase("script");
    HF_RETURN_IF_ERROR(Begin());
    for (int64_t n = Number(4, 14); n > 0; --n) HF_RETURN_IF_ERROR(Event());
    HF_RETURN_IF_ERROR(stage_->RunAll());
    HF_RETURN_IF_ERROR(CheckStates());
    stage_.reset();
    HF_RETURN_IF_ERROR(CheckReplies());
    const auto difference = ledger_.difference();
    return difference ? InternalError(difference->Describe()) : OkStatus();
  };
  const Status status = run();
  return status.ok() ? "" : status.ToString();
}

}  // namespace holdfast

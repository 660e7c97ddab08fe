#include "verify/case_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "model/numerics.h"

namespace holdfast {
namespace {

using Clock = std::chrono::steady_clock;
double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A window that rejects now and then, and fits into a step beside others.
constexpr int kUsualDrafts = 3;

}  // namespace

SamplingParams Talk::sampling() const {
  SamplingParams params{.seed = seed};
  for (const TokenId word : words) params.logit_bias.push_back({word, 1e4f});
  if (!sampled) return params;
  params.repeat_penalty = 1.1f;
  params.top_k = 40;
  params.top_p = 0.95f;
  params.temperature = 0.9f;
  return params;
}

std::vector<TokenId> Talk::all() const {
  std::vector<TokenId> tokens = prompt;
  tokens.insert(tokens.end(), reply.begin(), reply.end());
  return tokens;
}

VerifySizes VerifySizes::For(bool quick, int64_t trained_ctx) {
  VerifySizes sizes;
  if (quick) {
    sizes = {.prompts = {37, 270, 120, 330, 64, 257, 9, 100},
             .reply = 16,
             .long_prompt = 1100,
             .scalar_tokens = 40};
  } else {
    sizes = {.prompts = {37, 1100, 300, 2300, 64, 257, 9, 600},
             .reply = 48,
             .long_prompt = 4000,
             .scalar_tokens = 300};
  }
  // Follow-ups add a turn to a conversation.
  const int64_t most = trained_ctx - 3 * sizes.reply - 64;
  sizes.long_prompt = std::max<int64_t>(std::min(sizes.long_prompt, most), 2);
  for (int64_t& n : sizes.prompts) n = std::max<int64_t>(std::min(n, most), 2);
  return sizes;
}

int64_t VerifySizes::ctx() const { return long_prompt + 3 * reply + 64; }

CaseContext::CaseContext(const VerifyOptions& options, const VerifySizes& sizes, Rig* rig,
                         Ledger* ledger, std::string temp_dir, int n_slots, uint64_t work_bytes,
                         uint64_t cache_bytes)
    : options_(options),
      sizes_(sizes),
      reference_rig_(rig),
      rig_(rig),
      ledger_(ledger),
      temp_dir_(std::move(temp_dir)),
      n_slots_(n_slots),
      work_bytes_(work_bytes),
      cache_bytes_(cache_bytes),
      random_(options.seed) {}

std::vector<TokenId> CaseContext::RandomTokens(int64_t n) {
  std::vector<TokenId> tokens(n);
  for (TokenId& token : tokens) {
    token = static_cast<TokenId>(random_() % reference_rig_->model().config().vocab_size);
  }
  return tokens;
}

Result<Talk> CaseContext::NewTalk(std::vector<TokenId> prompt, bool sampled, int64_t n_reply,
                                  std::vector<TokenId> words) {
  Talk talk{.number = next_number_++,
            .prompt = std::move(prompt),
            .sampled = sampled,
            .seed = random_(),
            .words = std::move(words)};
  const Ledger::Counts counts = ledger_->counts();
  ledger_->SetConversation(talk.number);
  reference_rig_->check().set_collect_unknown(false);
  Reference reference(&reference_rig_->model(), &reference_rig_->tokenizer(),
                      &reference_rig_->check());
  auto reply = reference.Reply(talk.prompt, talk.sampling(), n_reply);
  reference_rig_->check().set_collect_unknown(true);
  ledger_->SetConversation(-1);
  ledger_->set_counts(counts);
  if (!reply.ok()) return reply.status();
  talk.reply = *std::move(reply);
  return talk;
}

Status CaseContext::PrepareTalks() {
  for (size_t i = 0; i < sizes_.prompts.size(); ++i) {
    const auto start = Clock::now();
    HF_ASSIGN_OR_RETURN(Talk talk,
                        NewTalk(RandomTokens(sizes_.prompts[i]), i % 2 == 1, sizes_.reply));
    // The shortest read is nearly all decoding.
    const double ms = 1000 * SecondsSince(start) / static_cast<double>(sizes_.reply);
    if (sizes_.prompts[i] == *std::ranges::min_element(sizes_.prompts)) decode_ms_ = ms;
    talks_.push_back(std::move(talk));
  }
  HF_ASSIGN_OR_RETURN(long_talk_, NewTalk(RandomTokens(sizes_.long_prompt), true, sizes_.reply));
  return OkStatus();
}

StageOptions CaseContext::DefaultStage(int n_slots, int max_drafts) const {
  return {.ctx = sizes_.ctx(),
          .n_slots = n_slots,
          .max_drafts = max_drafts >= 0                           ? max_drafts
                        : rig_->model().draft_layout() != nullptr ? kUsualDrafts
                                                                  : 0,
          .work_bytes = work_bytes_,
          .cache_ram_bytes = cache_bytes_,
          .numerics_key = NumericsKey(options_.cpu.activations, {})};
}

Result<std::unique_ptr<Stage>> CaseContext::NewStage(const StageOptions& options) {
  return Stage::Create(&rig_->model(), &rig_->tokenizer(), options);
}

AskedPtr CaseContext::Ask(Stage* stage, const Talk& talk, std::vector<CheckpointMark> marks) {
  ++n_requests_;
  AskedPtr asked = stage->Ask({.prompt = talk.prompt,
                               .sampling = talk.sampling(),
                               .max_tokens = static_cast<int64_t>(talk.reply.size()),
                               .ignore_eos = true,
                               .checkpoints = std::move(marks)},
                              talk.reply);
  asked->number = talk.number;
  return asked;
}

void CaseContext::CheckReply(const Asked& asked) {
  if (detail_) return;
  Difference difference{.case_name = case_name_, .conversation = asked.number};
  const int64_t n_prompt = static_cast<int64_t>(asked.request.prompt.size());
  if (asked.result.reason == FinishReason::kError) {
    difference.detail = asked.result.status.ToString();
  } else if (asked.wrong_at >= 0) {
    difference.position = n_prompt + asked.wrong_at - 1;
    difference.part = "token";
    difference.detail =
        fmt::format("token {} was drawn, alone it is {}", asked.tokens[asked.wrong_at],
                    static_cast<size_t>(asked.wrong_at) < asked.expected.size()
                        ? fmt::to_string(asked.expected[asked.wrong_at])
                        : "the end");
  } else if (asked.stop_after < 0 && asked.result.reason != FinishReason::kCancelled &&
             asked.tokens.size() != asked.expected.size()) {
    difference.detail = fmt::format("the reply has {} tokens, alone it has {}", asked.tokens.size(),
                                    asked.expected.size());
  } else {
    return;
  }
  detail_ = std::move(difference);
}

void CaseContext::Require(bool condition, const std::string& what) {
  // What follows from a difference is no news.
  if (condition || failed()) return;
  detail_ = Difference{.case_name = case_name_, .detail = what};
}

Status CaseContext::CheckStates(Stage* stage) {
  for (const Conversation* c : stage->cache().List()) {
    HF_RETURN_IF_ERROR(rig_->check().AddConversation(*c));
  }
  return OkStatus();
}

Status CaseContext::Finish(Stage* stage) {
  HF_RETURN_IF_ERROR(stage->RunAll());
  for (const AskedPtr& asked : stage->asked()) CheckReply(*asked);
  return CheckStates(stage);
}

Status CaseContext::WithRig(const CpuBackendOptions& cpu,
                            const std::function<Status(CaseContext&)>& body) {
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<Rig> other, Rig::Create(options_, cpu));
  other->Attach(ledger_);
  rig_ = other.get();
  Status status = body(*this);
  rig_ = reference_rig_;
  if (!status.ok()) return status;
  return Settle(other->check().TakeUnknown());
}

Status CaseContext::Settle(std::vector<StateCheck::Unknown> unknown) {
  if (unknown.empty() || failed()) return OkStatus();
  const Ledger::Counts before = ledger_->counts();
  Reference reference(&reference_rig_->model(), &reference_rig_->tokenizer(),
                      &reference_rig_->check());
  reference_rig_->check().set_collect_unknown(false);
  Status status;
  // The longest first: what begins another of them is a stop on its way.
  std::ranges::sort(unknown, std::greater(), [](const auto& u) { return u.tokens.size(); });
  std::vector<bool> done(unknown.size(), false);
  for (size_t i = 0; i < unknown.size() && status.ok(); ++i) {
    if (done[i]) continue;
    std::vector<int64_t> stops;
    for (size_t j = i; j < unknown.size(); ++j) {
      const std::span<const int32_t> shorter = unknown[j].tokens;
      if (!std::ranges::equal(shorter, std::span(unknown[i].tokens).first(shorter.size()))) {
        continue;
      }
      done[j] = true;
      stops.push_back(static_cast<int64_t>(shorter.size()));
    }
    std::ranges::sort(stops);
    status = reference.Read(unknown[i].tokens, stops);
  }
  reference_rig_->check().set_collect_unknown(true);
  ledger_->set_counts(before);
  HF_RETURN_IF_ERROR(status);
  for (const auto& u : unknown) {
    for (const Fact& fact : u.facts) ledger_->Add(fact);
  }
  return OkStatus();
}

Result<CaseReport> CaseContext::Run(const std::string& name,
                                    const std::function<Status(CaseContext&)>& body) {
  const auto start = Clock::now();
  case_name_ = name;
  skipped_.reset();
  detail_.reset();
  n_requests_ = 0;
  ledger_->BeginCase(name);
  Status status = body(*this);
  if (status.ok()) status = Settle(rig_->check().TakeUnknown());
  if (!status.ok() && !failed()) {
    return Status(status.code(), fmt::format("case \"{}\": {}", name, status.message()));
  }
  CaseReport report{.name = name,
                    .n_requests = n_requests_,
                    .n_rows = ledger_->counts().n_rows,
                    .n_parts = ledger_->counts().n_parts,
                    .seconds = SecondsSince(start)};
  if (failed()) {
    difference_ = ledger_->difference();
    if (!difference_) difference_ = detail_;
    report.verdict = Verdict::kDifferent;
    report.note = difference_->Describe();
    if (detail_ && difference_->detail != detail_->detail) {
      difference_->detail += "; " + detail_->detail;
    }
  } else if (skipped_) {
    report.verdict = Verdict::kSkipped;
    report.note = *skipped_;
  }
  return report;
}

}  // namespace holdfast

// One step of the scheduler: who gets rows, guesses, the forward pass, and what becomes of it.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>

#include "engine/logits_row.h"
#include "engine/prompt_lookup.h"
#include "engine/scheduler.h"

namespace holdfast {
namespace {

double MsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace

int64_t Scheduler::GuessesFor(const Active& active, int64_t n_decode) {
  const Conversation& c = *active.conversation;
  if (!drafting() || (drafts_by_head() && !c.has_draft())) return 0;
  // Windows of several streams share the step.
  int64_t n = std::min<int64_t>(draft_policy_.Depth(), (Model::kMaxWindow - 1) / n_decode);
  n = std::min(n, cache_->NextStop(c) - c.n_computed() - 1);
  n = std::min(n, options_.ctx - c.n_tokens() - 1);
  if (active.request.max_tokens >= 0) {
    n = std::min(n, active.request.max_tokens - active.n_generated - 1);
  }
  return std::max<int64_t>(n, 0);
}

// One row and its guesses for each stream, a share of the budget for each prompt.
std::vector<Scheduler::Turn> Scheduler::PlanStep() {
  int64_t n_decode = 0;
  std::vector<PendingRead> reads;
  for (const ActivePtr& a : active_) {
    if (a->decoding()) {
      ++n_decode;
    } else {
      reads.push_back(
          {.remaining = a->remaining(),
           .until_stop = cache_->NextStop(*a->conversation) - a->conversation->n_computed(),
           .waited_steps = a->waited_steps,
           .row_cost = a->scoring() ? timer_.ScoredRowCost() : 1.0});
    }
  }
  const int64_t max_rows = model_->max_rows() - n_decode * (Model::kMaxWindow - 1);
  const std::vector<int64_t> read_rows = PlanReads(
      reads, timer_.ReadBudget(n_decode, options_.step_target_ms, std::max<int64_t>(max_rows, 1)));
  std::vector<Turn> turns;
  size_t next_read = 0;
  bool waits = false;         // for a save, which will end
  Active* starved = nullptr;  // the youngest that finds no memory
  Status no_room;
  for (const ActivePtr& a : active_) {
    Turn turn{.active = a.get()};
    if (a->decoding()) {
      turn.n_guesses = GuessesFor(*a, n_decode);
      turn.n_rows = 1;
    } else {
      turn.n_rows = read_rows[next_read++];
    }
    const int64_t end = a->conversation->n_computed() + turn.n_rows;
    Status status = OkStatus();
    if (turn.n_rows > 0) status = cache_->PrepareWrite(a->conversation, end + turn.n_guesses);
    if (!status.ok() && turn.n_guesses > 0) {
      turn.n_guesses = 0;
      status = cache_->PrepareWrite(a->conversation, end);
    }
    if (status.code() == StatusCode::kResourceExhausted) {
      starved = a.get();
      no_room = status;
    } else if (!status.ok() && status.code() != StatusCode::kUnavailable) {
      Finish(a.get(), FinishReason::kError, status, /*keep=*/true);
      continue;
    }
    waits |= status.code() == StatusCode::kUnavailable;
    if (!status.ok()) turn.n_rows = 0;
    a->waited_steps = turn.n_rows > 0 ? 0 : a->waited_steps + 1;
    if (turn.n_rows > 0) turns.push_back(std::move(turn));
  }
  // Others give memory back when they end. Where nobody can go on, one makes room.
  if (turns.empty() && !waits && starved != nullptr) {
    Finish(starved, FinishReason::kError, no_room, /*keep=*/true);
  }
  return turns;
}

Buffer* Scheduler::LogOf(Active* active) {
  if (active->log == nullptr && !free_logs_.empty()) {
    active->log = std::move(free_logs_.back());
    free_logs_.pop_back();
  }
  if (active->log == nullptr) {
    auto log = model_->backend()->Allocate(model_->log_bytes());
    if (log.ok()) active->log = *std::move(log);
  }
  return active->log.get();
}

Result<std::vector<std::vector<TokenId>>> Scheduler::Guess(std::span<Turn* const> turns) {
  std::vector<DraftSequence> sequences;
  std::vector<std::vector<TokenId>> found;
  for (const Turn* turn : turns) {
    const Conversation& c = *turn->active->conversation;
    if (drafts_by_head()) {
      sequences.push_back({.tokens = c.tokens().ids,
                           .draft_running = c.draft_running(),
                           .draft_pages = c.draft_page_buffers(),
                           .max_drafts = turn->n_guesses});
    } else {
      found.push_back(LookUpDrafts(c.tokens().ids, turn->n_guesses));
    }
  }
  if (!drafts_by_head()) return found;
  const auto least =
      static_cast<float>(draft_policy_.MinProbability(options_.min_draft_probability));
  return gate_.Run([&] { return model_->Draft(sequences, least); });
}

// Guesses are only worth time: without them the step is the ordinary one.
void Scheduler::MakeDrafts(std::vector<Turn>* turns) {
  std::vector<Turn*> guessing;
  for (Turn& turn : *turns) {
    if (turn.n_guesses > 0 && LogOf(turn.active) == nullptr) turn.n_guesses = 0;
    if (turn.n_guesses > 0) guessing.push_back(&turn);
  }
  if (guessing.empty()) return;
  const auto start = Clock::now();
  const auto drafts = Guess(guessing);
  if (!drafts.ok()) {
    spdlog::warn("no guesses for this step: {}", drafts.status().ToString());
    return;
  }
  int64_t n_drafts = 0;
  for (size_t i = 0; i < guessing.size(); ++i) {
    Turn& turn = *guessing[i];
    turn.drafts = (*drafts)[i];
    // A guess that the reply's format forbids cannot be right: its row would be for nothing.
    if (auto& constraint = turn.active->constraint) {
      turn.drafts.resize(static_cast<size_t>(constraint->CountAllowed(turn.drafts)));
    }
    turn.n_rows += static_cast<int64_t>(turn.drafts.size());
    // A guess that was given up cost as much as one that was made.
    n_drafts += std::min<int64_t>(turn.drafts.size() + 1, turn.n_guesses);
  }
  draft_policy_.AddDrafts(n_drafts, MsSince(start));
}

// A step that begins at a checkpoint computes the row that will prove its restore.
std::vector<const Conversation*> Scheduler::AddProofRows(std::span<const Turn> turns,
                                                         Batch* batch) const {
  std::vector<const Conversation*> proved;
  if (persistence_ == nullptr) return proved;
  int32_t row = 0;
  for (const Turn& turn : turns) {
    const Conversation& c = *turn.active->conversation;
    const auto at_start = [&](const Checkpoint& k) { return k.position == c.n_computed(); };
    if (std::ranges::any_of(c.checkpoints(), at_start)) {
      proved.push_back(&c);
      batch->output_rows.push_back(row);
    }
    row += static_cast<int32_t>(turn.n_rows);
  }
  return proved;
}

Status Scheduler::Compute(const Batch& batch) {
  return gate_.Run([&] {
    if (options_.in_step) options_.in_step();
    return model_->Forward(batch, logits_, mixed_);
  });
}

// The row of a token says how likely the next one is.
void Scheduler::AddScoredRows(Turn* turn, int64_t first_row, std::vector<ScoredRow>* scored,
                              Batch* batch) {
  const std::vector<TokenId>& prompt = turn->active->request.prompt;
  const int64_t begin = turn->active->conversation->n_computed();
  const int64_t end = std::min<int64_t>(begin + turn->n_rows + 1, prompt.size());
  if (begin == 0) turn->prompt_tokens.push_back({.id = prompt.front()});
  for (int64_t p = begin + 1; p < end; ++p) {
    scored->push_back({turn, turn->prompt_tokens.size()});
    turn->prompt_tokens.push_back({.id = prompt[p], .position = p});
    batch->reduced_rows.push_back(static_cast<int32_t>(first_row + p - begin - 1));
  }
}

Status Scheduler::Score(const ScoredRow& row, std::span<float> logits) const {
  TokenEvent& token = row.turn->prompt_tokens[row.token];
  for (TokenId id : banned_) logits[id] = -std::numeric_limits<float>::infinity();
  const int n_top = std::max(row.turn->active->request.n_top_logprobs, 0);
  HF_ASSIGN_OR_RETURN(RowLogprobs logprobs, ComputeLogprobs(logits, token.id, n_top));
  token.logprob = logprobs.logprob;
  token.top = std::move(logprobs.top);
  return OkStatus();
}

void Scheduler::RunStep(std::vector<Turn>* turns) {
  const auto start = Clock::now();
  Batch batch;
  std::vector<ScoredRow> scored;
  int64_t n_rows = 0, n_decode_rows = 0;
  for (Turn& turn : *turns) {
    Active* a = turn.active;
    const Conversation& c = *a->conversation;
    const int64_t n_plain = turn.n_rows - static_cast<int64_t>(turn.drafts.size());
    SequenceRows rows{.tokens = c.tokens().ids.first(c.n_computed() + n_plain),
                      .drafts = turn.drafts,
                      .first_position = c.n_computed(),
                      .running = c.running(),
                      .pages = c.page_buffers()};
    if (c.has_draft()) {
      rows.draft_running = c.draft_running();
      rows.draft_pages = c.draft_page_buffers();
    }
    if (!turn.drafts.empty()) rows.log = a->log.get();
    batch.sequences.push_back(rows);
    if (a->decoding()) n_decode_rows += turn.n_rows;
    if (a->scoring()) AddScoredRows(&turn, n_rows, &scored, &batch);
    if (n_plain == a->remaining()) {
      for (int64_t i = n_plain - 1; i < turn.n_rows; ++i) {
        turn.output_rows.push_back(static_cast<int32_t>(n_rows + i));
      }
    }
    batch.output_rows.insert(batch.output_rows.end(), turn.output_rows.begin(),
                             turn.output_rows.end());
    n_rows += turn.n_rows;
  }
  batch.reduce = [&](size_t i, std::span<float> logits) {
    Status score = Score(scored[i], logits);
    if (score.ok()) return;
    scored[i].turn->finish = FinishReason::kError;
    scored[i].turn->status = std::move(score);
  };
  const size_t n_outputs = batch.output_rows.size();
  const std::vector<const Conversation*> proved = AddProofRows(*turns, &batch);
  const int64_t vocab = model_->config().vocab_size, hidden = model_->config().hidden_size;
  logits_.resize(batch.output_rows.size() * vocab);
  mixed_.resize(proved.empty() ? 0 : batch.output_rows.size() * hidden);
  Status status = Compute(batch);
  ++n_steps_;
  if (status.ok()) {
    for (size_t i = 0; i < proved.size(); ++i) {
      const Conversation& c = *proved[i];
      persistence_->RecordProof(c, c.n_computed(), c.tokens().ids[c.n_computed()],
                                std::span(mixed_).subspan((n_outputs + i) * hidden, hidden));
    }
    size_t next = 0;
    for (Turn& turn : *turns) {
      const size_t n = turn.output_rows.size();
      turn.n_counting = turn.n_rows;
      if (!turn.prompt_tokens.empty() && !turn.finish) {
        turn.active->sink->OnPromptTokens(turn.prompt_tokens);
      }
      TakeTokens(&turn, std::span(logits_).subspan(next * vocab, n * vocab));
      next += n;
    }
    status = CommitWindows(*turns, batch);
  }
  last_step_ms_ = MsSince(start);
  if (!status.ok()) {
    // The states of this step are no longer those of any position.
    for (Turn& turn : *turns) {
      Finish(turn.active, FinishReason::kError, status, /*keep=*/false);
    }
    return;
  }
  timer_.Add(n_decode_rows, n_rows - n_decode_rows, last_step_ms_,
             static_cast<int64_t>(scored.size()));
  if (n_rows == n_decode_rows && turns->size() == 1) draft_policy_.AddStep(n_rows, last_step_ms_);
  if (timer_.ms_per_read_row() > 0) cache_->SetReadSpeed(timer_.ms_per_read_row() / 1000);
  for (Turn& turn : *turns) EndTurn(&turn);
}

void Scheduler::TakeTokens(Turn* turn, std::span<float> logits) {
  const int64_t vocab = model_->config().vocab_size;
  Active* a = turn->active;
  if (turn->output_rows.empty() || turn->finish) return;
  if (a->request.max_tokens == 0) {
    turn->finish = FinishReason::kMaxTokens;
    return;
  }
  const int64_t n_drafts = static_cast<int64_t>(turn->drafts.size());
  const int64_t n_plain = turn->n_rows - n_drafts;
  int64_t n_right = 0;
  for (int64_t i = 0; i <= n_drafts; ++i) {
    const auto token = TakeToken(turn, logits.subspan(i * vocab, vocab));
    // A guess counts exactly when it is what the model says itself.
    if (!token || turn->finish || i == n_drafts || *token != turn->drafts[i]) break;
    ++n_right;
  }
  turn->n_counting = n_plain + n_right;
  a->n_drafted += n_drafts;
  a->n_accepted += n_right;
  // A reply that ends within the window says nothing about the guesses behind its end.
  const int64_t n_tried = turn->finish ? n_right : n_drafts;
  a->drafts.AddWindow(n_tried, n_right);
  draft_policy_.AddWindow(turn->finish ? n_right : turn->n_guesses, n_tried, n_right);
}

// Rows of a window are drawn from in order, so the grammar always stands behind accepted tokens.
Result<TokenId> Scheduler::DrawToken(Active* active, std::span<const float> logits) {
  const Conversation& c = *active->conversation;
  const TokenMask* allowed = nullptr;
  if (active->constraint) {
    HF_ASSIGN_OR_RETURN(allowed, active->constraint->Mask());
  }
  HF_ASSIGN_OR_RETURN(const TokenId token,
                      active->sampler->Sample(logits, c.tokens().ids, c.n_tokens() - 1, allowed));
  if (active->constraint && !active->constraint->Advance(token)) {
    return InternalError("a token was drawn that the format of the reply does not allow");
  }
  return token;
}

std::optional<TokenId> Scheduler::TakeToken(Turn* turn, std::span<float> logits) {
  Active* a = turn->active;
  Conversation* c = a->conversation;
  const int64_t position = c->n_tokens() - 1;
  for (TokenId id : banned_) logits[id] = -std::numeric_limits<float>::infinity();
  const Result<TokenId> token = DrawToken(a, logits);
  if (!token.ok()) {
    turn->finish = FinishReason::kError;
    turn->status = token.status();
    return std::nullopt;
  }
  if (a->n_generated == 0) a->first_token = Clock::now();
  ++a->n_generated;
  cache_->Append(c, {.id = *token});
  TokenEvent event{.id = *token, .position = position + 1};
  if (a->request.n_top_logprobs >= 0) {
    Result<RowLogprobs> logprobs = ComputeLogprobs(logits, *token, a->request.n_top_logprobs);
    if (logprobs.ok()) {
      event.logprob = logprobs->logprob;
      event.top = std::move(logprobs->top);
    }
  }
  const SinkAnswer answer = a->sink->OnToken(event);
  if (!a->request.ignore_eos && tokenizer_->IsEndOfGeneration(*token)) {
    turn->finish = FinishReason::kEndOfTurn;
  } else if (answer == SinkAnswer::kStop) {
    turn->finish = FinishReason::kStopped;
  } else if (a->n_generated == a->request.max_tokens) {
    turn->finish = FinishReason::kMaxTokens;
  } else if (c->n_tokens() >= options_.ctx) {
    turn->finish = FinishReason::kContextFull;
  }
  return *token;
}

Status Scheduler::CommitWindows(std::span<const Turn> turns, const Batch& batch) {
  std::vector<SequenceRows> windows;
  std::vector<int64_t> n_rows;
  for (size_t i = 0; i < turns.size(); ++i) {
    if (batch.sequences[i].log == nullptr) continue;
    windows.push_back(batch.sequences[i]);
    // Tokens have been appended since: they may lie elsewhere now.
    windows.back().tokens =
        turns[i].active->conversation->tokens().ids.first(windows.back().tokens.size());
    n_rows.push_back(turns[i].n_counting);
  }
  if (windows.empty()) return OkStatus();
  return gate_.Run([&] { return model_->Commit(windows, n_rows); });
}

void Scheduler::EndTurn(Turn* turn) {
  Active* a = turn->active;
  Conversation* c = a->conversation;
  const bool was_reading = turn->output_rows.empty() || a->n_generated <= 1;
  if (turn->finish == FinishReason::kError) {
    Finish(a, FinishReason::kError, turn->status, /*keep=*/false);
    return;
  }
  if (Status status = cache_->Advance(c, c->n_computed() + turn->n_counting); !status.ok()) {
    Finish(a, FinishReason::kError, std::move(status), /*keep=*/false);
    return;
  }
  if (was_reading) {
    a->sink->OnPromptProgress(c->n_computed(), static_cast<int64_t>(a->request.prompt.size()),
                              a->reuse.tokens_reused);
  }
  if (turn->finish) Finish(a, *turn->finish, OkStatus(), /*keep=*/true);
}

}  // namespace holdfast

// Replies with and without guesses of the draft head.

#include <fmt/format.h>

#include <algorithm>

#include "bench/bench_run.h"
#include "token/chat_template.h"
#include "token/vocabulary.h"

namespace holdfast {
namespace {

// Long replies of text that a model finds neither trivial nor random.
constexpr char kQuestion[] =
    "Write a list of twelve cities and their countries, then a short story about a trip to three "
    "of them.";
constexpr int64_t kRandomPrompt = 64;

}  // namespace

Result<std::vector<TokenId>> BenchRun::TextPrompt(std::string* kind) const {
  const Model& model = *model_->model();
  Result<VocabularyData> vocabulary = ReadVocabulary(model.file());
  *kind = "random";
  if (!vocabulary.ok()) return RandomTokens(1, kRandomPrompt, model.config().vocab_size);
  HF_ASSIGN_OR_RETURN(const ChatTemplate chat_template,
                      ChatTemplate::Create(std::move(vocabulary->chat_template)));
  ChatTemplate::Input input;
  input.messages.push_back({{"role", "user"}, {"content", kQuestion}});
  HF_ASSIGN_OR_RETURN(const MarkedText text, chat_template.Render(input));
  *kind = "text";
  return model_->tokenizer()->Encode(text);
}

Status BenchRun::Drafts() {
  const BenchRequest& request = options_.request;
  if (!header_.has_draft) {
    if (request.draft == DraftRuns::kOn) Note("no draft head: nothing is drafted (--mtp)");
    return OkStatus();
  }
  if (request.draft == DraftRuns::kOff || request.n_decode == 0) return OkStatus();
  Figure figure{.test = "decode", .n = request.n_decode};
  HF_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, TextPrompt(&figure.prompt));
  figure.depth = static_cast<int64_t>(tokens.size());
  const std::vector<std::vector<TokenId>> prompts = {std::move(tokens)};
  const int64_t ctx = figure.depth + request.n_decode + 16;
  for (const bool on : {false, true}) {
    if (!on && request.draft == DraftRuns::kOn) continue;
    HF_ASSIGN_OR_RETURN(const std::unique_ptr<BenchRig> rig,
                        BenchRig::Create(model_, {.ctx = ctx,
                                                  .max_drafts = on ? request.n_guesses : 0,
                                                  .state_bytes = 4 * room_.Need(ctx, 1)}));
    Figure one = figure;
    one.draft = on ? "on" : "off";
    const auto run = [&] { return rig->Decode(prompts, request.n_decode, SamplingParams()); };
    HF_RETURN_IF_ERROR(run().status());  // also shows the policy what guesses are worth
    HF_RETURN_IF_ERROR(Repeat(run, &one));
    Report(one);
  }
  return OkStatus();
}

}  // namespace holdfast

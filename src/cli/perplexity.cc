#include "cli/perplexity.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/double_math.h"
#include "cli/direct_model.h"
#include "cli/token_file.h"
#include "engine/logits_row.h"
#include "model/sequence.h"
#include "server/json.h"
#include "token/tokenizer.h"

namespace holdfast::cli {
namespace {

constexpr int64_t kDefaultWindow = 512;

// Sum, square sum and number of negative log-likelihoods.
struct Score {
  double sum = 0.0, sum_of_squares = 0.0;
  int64_t n = 0;

  double mean() const { return sum / static_cast<double>(n); }
  double perplexity() const { return std::exp(mean()); }
  // Of the perplexity, from the spread of the tokens, as llama.cpp prints it.
  double uncertainty() const {
    const double variance = sum_of_squares / static_cast<double>(n) - mean() * mean();
    return n > 1 && variance > 0 ? std::sqrt(variance / static_cast<double>(n - 1)) * perplexity()
                                 : 0.0;
  }
};

Result<double> NegativeLogLikelihood(std::span<const float> logits, TokenId token) {
  HF_ASSIGN_OR_RETURN(const RowMax max, FindMax(logits));
  return DeterministicLog(SumExp(logits, max.logit, 1.0)) -
         (static_cast<double>(logits[static_cast<size_t>(token)]) - max.logit);
}

Status ScoreWindow(Model* model, std::span<const TokenId> window, Score* score) {
  HF_ASSIGN_OR_RETURN(Sequence sequence, Sequence::Create(model));
  const int64_t first = static_cast<int64_t>(window.size()) / 2;
  Status status;
  HF_RETURN_IF_ERROR(
      sequence.Read(window, 0, first, [&](int64_t position, std::span<const float> logits) {
        if (!status.ok() || position + 1 == static_cast<int64_t>(window.size())) return;
        const Result<double> nll =
            NegativeLogLikelihood(logits, window[static_cast<size_t>(position) + 1]);
        if (!nll.ok()) {
          status = nll.status();
          return;
        }
        score->sum += *nll;
        score->sum_of_squares += *nll * *nll;
        ++score->n;
      }));
  return status;
}

}  // namespace

Status RunPerplexity(const PerplexityOptions& options, std::ostream& out) {
  const int64_t window = options.model.ctx == 0 ? kDefaultWindow : options.model.ctx;
  if (window < 4) {
    return InvalidArgumentError(fmt::format("--ctx is {}, a window needs at least 4", window));
  }
  HF_ASSIGN_OR_RETURN(const std::string text, ReadFile(options.text_path));
  HF_ASSIGN_OR_RETURN(const DirectModel direct, LoadDirect(options.model));
  HF_ASSIGN_OR_RETURN(VocabularyData vocabulary, ReadVocabulary(direct.model->file()));
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                      Tokenizer::Create(std::move(vocabulary)));
  std::vector<TokenId> tokens = tokenizer->Encode(text, AddedTokens::kAll);
  const std::optional<TokenId> bos = tokenizer->leading_bos();
  if (bos) tokens.insert(tokens.begin(), *bos);
  const int64_t n_windows = static_cast<int64_t>(tokens.size()) / window;
  if (n_windows == 0) {
    return InvalidArgumentError(fmt::format("{} has {} tokens, one window needs {}",
                                            options.text_path, tokens.size(), window));
  }

  Score score;
  for (int64_t i = 0; i < n_windows; ++i) {
    const auto part =
        std::span(tokens).subspan(static_cast<size_t>(i * window), static_cast<size_t>(window));
    if (bos) part.front() = *bos;
    HF_RETURN_IF_ERROR(ScoreWindow(direct.model.get(), part, &score));
    if (!options.json) {
      out << fmt::format("[{}/{}] {:.4f}\n", i + 1, n_windows, score.perplexity()) << std::flush;
    }
  }
  if (options.json) {
    Json json;
    json["perplexity"] = score.perplexity();
    json["uncertainty"] = score.uncertainty();
    json["nll"] = score.mean();
    json["ctx"] = window;
    json["windows"] = n_windows;
    json["scored_tokens"] = score.n;
    json["tokens"] = tokens.size();
    out << ToText(json) << "\n";
  } else {
    out << fmt::format("Final estimate: PPL = {:.4f} +/- {:.5f} ({} of {} tokens scored)\n",
                       score.perplexity(), score.uncertainty(), score.n, tokens.size());
  }
  return OkStatus();
}

}  // namespace holdfast::cli

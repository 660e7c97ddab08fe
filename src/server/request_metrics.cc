#include "server/request_metrics.h"

#include <string>

#include "engine/reuse.h"

namespace holdfast {
namespace {

const char* ReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEndOfTurn:
    case FinishReason::kStopped:
      return "stop";
    case FinishReason::kMaxTokens:
    case FinishReason::kContextFull:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "error";
}

// From a short follow-up on a small model to a long prompt on a big one.
prometheus::Histogram::BucketBoundaries FirstTokenBuckets() {
  return {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600};
}

prometheus::Histogram::BucketBoundaries GapBuckets() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 2.5, 10};
}

}  // namespace

RequestMetrics::RequestMetrics()
    : ended_(prometheus::BuildCounter()
                 .Name("holdfast_requests_total")
                 .Help("Requests that have ended")
                 .Register(registry_)),
      read_(prometheus::BuildCounter()
                .Name("holdfast_prompt_tokens_read_total")
                .Help("Prompt tokens read, by where the rest of their state came from and why no "
                      "more of it was reused")
                .Register(registry_)),
      reused_(prometheus::BuildCounter()
                  .Name("holdfast_prompt_tokens_reused_total")
                  .Help("Prompt tokens not read again, by where their state came from and why it "
                        "was not more")
                  .Register(registry_)),
      predicted_(prometheus::BuildCounter()
                     .Name("holdfast_predicted_tokens_total")
                     .Help("Tokens of replies")
                     .Register(registry_)
                     .Add({})),
      first_tokens_(prometheus::BuildHistogram()
                        .Name("holdfast_first_token_seconds")
                        .Help("From the arrival of a request to its first token")
                        .Register(registry_)
                        .Add({}, FirstTokenBuckets())),
      gaps_(prometheus::BuildHistogram()
                .Name("holdfast_token_gap_seconds")
                .Help("Between two tokens of one reply")
                .Register(registry_)
                .Add({}, GapBuckets())) {}

void RequestMetrics::Add(const GenerateResult& result) {
  ended_.Add({{"reason", ReasonName(result.reason)}}).Increment();
  const ReuseInfo& reuse = result.reuse;
  const prometheus::Labels labels = {{"source", std::string(ReuseSourceName(reuse.source))},
                                     {"reason", std::string(reuse.limit)}};
  read_.Add(labels).Increment(static_cast<double>(reuse.tokens_read));
  reused_.Add(labels).Increment(static_cast<double>(reuse.tokens_reused));
  const GenerateTimings& timings = result.timings;
  predicted_.Increment(static_cast<double>(timings.n_predicted));
  if (timings.n_predicted > 0) {
    first_tokens_.Observe((timings.queue_ms + timings.prompt_ms) / 1000);
  }
}

}  // namespace holdfast

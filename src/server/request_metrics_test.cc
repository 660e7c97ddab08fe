#include "server/request_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

namespace holdfast {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(RequestMetricsTest, CountsTokensBySourceAndReasonAndTimesWaits) {
  RequestMetrics metrics;
  GenerateResult result;
  result.reason = FinishReason::kEndOfTurn;
  result.reuse.source = ReuseSource::kDisk;
  result.reuse.limit = "differs";
  result.reuse.tokens_read = 7;
  result.reuse.tokens_reused = 93;
  result.timings = {.queue_ms = 20, .prompt_ms = 60, .n_prompt = 100, .n_predicted = 3};
  metrics.Add(result);
  metrics.AddGap(0.004);
  metrics.AddGap(0.3);
  // Cancelled before its first token: nobody waited for one.
  metrics.Add({.reason = FinishReason::kCancelled});

  const std::string text = prometheus::TextSerializer().Serialize(metrics.Collect());
  EXPECT_THAT(text, HasSubstr("holdfast_requests_total{reason=\"stop\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("holdfast_requests_total{reason=\"cancelled\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("reason=\"error\"")));
  EXPECT_THAT(text, HasSubstr("holdfast_prompt_tokens_read_total{"));
  EXPECT_THAT(text, HasSubstr("reason=\"differs\",source=\"disk\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("reason=\"differs\",source=\"disk\"} 93\n"));
  EXPECT_THAT(text, HasSubstr("holdfast_predicted_tokens_total 3\n"));
  EXPECT_THAT(text, HasSubstr("holdfast_first_token_seconds_bucket{le=\"0.05\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("holdfast_first_token_seconds_bucket{le=\"0.1\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("holdfast_first_token_seconds_count 1\n"));
  EXPECT_THAT(text, HasSubstr("holdfast_token_gap_seconds_bucket{le=\"0.005\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("holdfast_token_gap_seconds_count 2\n"));
}

}  // namespace
}  // namespace holdfast

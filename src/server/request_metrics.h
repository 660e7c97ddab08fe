#ifndef HOLDFAST_SERVER_REQUEST_METRICS_H_
#define HOLDFAST_SERVER_REQUEST_METRICS_H_

// What /metrics says of requests since the start: how they ended, what they read, how long their
// clients waited. Threads: any.

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <vector>

#include "engine/generator.h"

namespace holdfast {

class RequestMetrics {
 public:
  RequestMetrics();

  // A request has ended.
  void Add(const GenerateResult& result);
  // Between two tokens of one reply, as the engine gave them.
  void AddGap(double seconds) { gaps_.Observe(seconds); }

  std::vector<prometheus::MetricFamily> Collect() const { return registry_.Collect(); }

 private:
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>& ended_;
  prometheus::Family<prometheus::Counter>& read_;
  prometheus::Family<prometheus::Counter>& reused_;
  prometheus::Counter& predicted_;
  prometheus::Histogram& first_tokens_;
  prometheus::Histogram& gaps_;
};

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_REQUEST_METRICS_H_

#ifndef HOLDFAST_WEIGHTS_TESTING_UNRELIABLE_READER_H_
#define HOLDFAST_WEIGHTS_TESTING_UNRELIABLE_READER_H_

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/async_reader.h"

namespace holdfast {

// Reads as asked, in another order, late, or not at all.
class UnreliableReader : public AsyncReader {
 public:
  struct Faults {
    std::set<int64_t> failing;  // numbers of requests, from 0
    int error = EIO;
    std::atomic<int64_t> n_requests{0};
  };
  UnreliableReader(Faults* faults, Done done)
      : faults_(faults),
        inner_(MakePreadReader(3, [faults, done = std::move(done)](uint64_t tag, int error) {
          done(tag, error == EBADF ? faults->error : error);
        })) {}
  std::string_view name() const override { return "unreliable"; }
  void Submit(std::span<const ReadRequest> requests) override {
    std::vector<ReadRequest> reversed;
    for (ReadRequest request : requests) {
      if (faults_->failing.contains(faults_->n_requests++)) request.fd = -1;
      reversed.insert(reversed.begin(), request);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    inner_->Submit(reversed);
  }

 private:
  Faults* const faults_;
  const std::unique_ptr<AsyncReader> inner_;
};

}  // namespace holdfast

#endif  // HOLDFAST_WEIGHTS_TESTING_UNRELIABLE_READER_H_

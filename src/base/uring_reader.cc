// AsyncReader on io_uring.

#include "base/async_reader.h"

#ifdef HOLDFAST_HAS_URING
#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "base/thread_activity.h"
#endif

namespace holdfast {

#ifdef HOLDFAST_HAS_URING
namespace {

constexpr unsigned kEntries = 256;  // requests the kernel has at a time; more wait here
constexpr uint64_t kWakeUp = UINT64_MAX;

class UringReader : public AsyncReader {
 public:
  explicit UringReader(Done done) : done_(std::move(done)), flying_(kEntries) {
    for (unsigned i = 0; i < kEntries; ++i) free_.push_back(i);
  }
  Status Open() {
    const int error = -io_uring_queue_init(kEntries, &ring_, 0);
    if (error != 0) return ErrnoError(error, "io_uring");
    open_ = true;
    // Kernels before 5.6 have rings that cannot do this.
    io_uring_probe* const probe = io_uring_get_probe_ring(&ring_);
    const bool reads = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ) != 0;
    io_uring_free_probe(probe);
    if (!reads) return UnimplementedError("io_uring: this kernel's cannot read");
    thread_ = std::thread([this] { Run(); });
    return OkStatus();
  }
  ~UringReader() override {
    if (thread_.joinable()) {
      {
        const std::lock_guard lock(mutex_);
        stop_ = true;
        if (free_.size() == kEntries && waiting_.empty()) WakeUp();
      }
      thread_.join();
    }
    if (open_) io_uring_queue_exit(&ring_);
  }

  std::string_view name() const override { return "io_uring"; }
  void Submit(std::span<const ReadRequest> requests) override {
    const std::lock_guard lock(mutex_);
    for (const ReadRequest& request : requests) waiting_.push_back({.request = request});
    SubmitWaiting();
  }

 private:
  struct Read {
    ReadRequest request;
    uint32_t done = 0;     // where it begins this time
    uint32_t reached = 0;  // bytes that are there
  };

  // With mutex_ held:
  void SubmitWaiting() {
    bool any = false;
    while (!waiting_.empty() && !free_.empty()) {
      io_uring_sqe* const sqe = io_uring_get_sqe(&ring_);
      if (sqe == nullptr) break;
      const unsigned place = free_.back();
      free_.pop_back();
      Read& read = flying_[place];
      read = waiting_.front();
      waiting_.pop_front();
      constexpr uint32_t kBlock = 4096;  // O_DIRECT takes up again at a multiple of it
      read.done = read.reached / kBlock * kBlock;
      io_uring_prep_read(sqe, read.request.fd, read.request.data + read.done,
                         read.request.n_bytes - read.done, read.request.offset + read.done);
      io_uring_sqe_set_data64(sqe, place);
      any = true;
    }
    if (any) SubmitEntries();
  }
  void SubmitEntries() {
    // A kernel short of memory takes them a moment later.
    while (io_uring_sq_ready(&ring_) > 0) {
      if (io_uring_submit(&ring_) < 0) std::this_thread::yield();
    }
  }
  void WakeUp() {
    io_uring_sqe* const sqe = io_uring_get_sqe(&ring_);
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data64(sqe, kWakeUp);
    SubmitEntries();
  }

  void Run() {
    ThreadActivity activity("reader");
    for (;;) {
      io_uring_cqe* cqe = nullptr;
      activity.Set("waiting for reads");
      const int error = io_uring_wait_cqe(&ring_, &cqe);
      if (error == -EINTR) continue;
      HF_CHECK(error == 0);
      const uint64_t place = io_uring_cqe_get_data64(cqe);
      const int result = cqe->res;
      io_uring_cqe_seen(&ring_, cqe);
      if (place != kWakeUp) Take(static_cast<unsigned>(place), result);
      const std::lock_guard lock(mutex_);
      if (stop_ && free_.size() == kEntries && waiting_.empty()) return;
    }
  }

  void Take(unsigned place, int result) {
    std::unique_lock lock(mutex_);
    Read read = flying_[place];
    free_.push_back(place);
    const uint32_t end = read.done + static_cast<uint32_t>(std::max(result, 0));
    const bool again = result == -EINTR || result == -EAGAIN ||
                       (end > read.reached && end < read.request.min_bytes);
    if (again) {
      read.reached = std::max(read.reached, end);
      waiting_.push_front(read);
    }
    SubmitWaiting();
    lock.unlock();
    if (again) return;
    const int error = result < 0 ? -result : end < read.request.min_bytes ? kShortFile : 0;
    done_(read.request.tag, error);
  }

  const Done done_;
  io_uring ring_ = {};
  bool open_ = false;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<Read> flying_;  // by place; the kernel has those that are not free
  std::vector<unsigned> free_;
  std::deque<Read> waiting_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<AsyncReader>> MakeUringReader(AsyncReader::Done done) {
  auto reader = std::make_unique<UringReader>(std::move(done));
  HF_RETURN_IF_ERROR(reader->Open());
  return std::unique_ptr<AsyncReader>(std::move(reader));
}

#else

Result<std::unique_ptr<AsyncReader>> MakeUringReader(AsyncReader::Done) {
  return UnimplementedError("io_uring: this program was built without liburing");
}

#endif

}  // namespace holdfast

#include "base/async_reader.h"

#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "base/thread_activity.h"

namespace holdfast {
namespace {

constexpr int kPreadThreads = 8;

// Until min_bytes are there. A file opened with O_DIRECT takes up again at a multiple of 4 KiB.
int ReadAll(const ReadRequest& request) {
  constexpr uint32_t kBlock = 4096;
  uint32_t done = 0;
  while (done < request.min_bytes) {
    const uint32_t from = done / kBlock * kBlock;
    const ssize_t n = ::pread(request.fd, request.data + from, request.n_bytes - from,
                              static_cast<off_t>(request.offset + from));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    const uint32_t end = from + static_cast<uint32_t>(n);
    if (end <= done) return AsyncReader::kShortFile;
    done = end;
  }
  return 0;
}

class PreadReader : public AsyncReader {
 public:
  PreadReader(int n_threads, Done done) : done_(std::move(done)) {
    for (int i = 0; i < n_threads; ++i) threads_.emplace_back([this] { Run(); });
  }
  ~PreadReader() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  std::string_view name() const override { return "pread threads"; }
  void Submit(std::span<const ReadRequest> requests) override {
    {
      const std::lock_guard lock(mutex_);
      queue_.insert(queue_.end(), requests.begin(), requests.end());
    }
    wake_.notify_all();
  }

 private:
  void Run() {
    ThreadActivity activity("reader");
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const ReadRequest request = queue_.front();
      queue_.pop_front();
      lock.unlock();
      activity.Set("reading a file");
      const int error = ReadAll(request);
      activity.Set("waiting for work");
      done_(request.tag, error);
      lock.lock();
    }
  }

  const Done done_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<ReadRequest> queue_;  // guarded by mutex_
  bool stop_ = false;              // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<AsyncReader> MakePreadReader(int n_threads, AsyncReader::Done done) {
  return std::make_unique<PreadReader>(n_threads, std::move(done));
}

Result<ReaderKind> ParseReaderKind(std::string_view text) {
  if (text == "auto") return ReaderKind::kAuto;
  if (text == "io_uring") return ReaderKind::kUring;
  if (text == "pread") return ReaderKind::kPread;
  return InvalidArgumentError("'" + std::string(text) + "', wanted auto, io_uring or pread");
}

Result<std::unique_ptr<AsyncReader>> MakeAsyncReader(ReaderKind kind, AsyncReader::Done done) {
  if (kind == ReaderKind::kPread) return MakePreadReader(kPreadThreads, std::move(done));
  Result<std::unique_ptr<AsyncReader>> uring = MakeUringReader(done);
  if (uring.ok() || kind == ReaderKind::kUring) return uring;
  return MakePreadReader(kPreadThreads, std::move(done));
}

Status ReadErrorStatus(int error, const std::string& what) {
  if (error == 0) return OkStatus();
  if (error == AsyncReader::kShortFile) {
    return DataLossError(what + ": the file has become shorter than it was");
  }
  return ErrnoError(error, "reading " + what);
}

}  // namespace holdfast

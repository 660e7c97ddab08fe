#include "server/streamed_file.h"

#include <spdlog/spdlog.h>

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <utility>

#include "base/thread_activity.h"
#include "server/api_error.h"

namespace holdfast {
namespace {

// Enough for the disk and the network to work at the same time.
constexpr size_t kMaxWaitingBytes = 1 << 20;

}  // namespace

struct StreamedFile::Shared {
  std::mutex mutex;
  std::condition_variable room;
  std::string waiting;  // guarded by mutex, as all below
  bool done = false;
  Status status;     // of the producer, once it is done
  Status cancelled;  // why it is to end
  std::function<void()> wake;

  Status Add(std::span<const std::byte> bytes) {
    std::function<void()> call;
    {
      std::unique_lock lock(mutex);
      room.wait(lock, [this] { return waiting.size() < kMaxWaitingBytes || !cancelled.ok(); });
      if (!cancelled.ok()) return cancelled;
      waiting.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      call = wake;
    }
    if (call) call();
    return OkStatus();
  }
  void End(Status with) {
    std::function<void()> call;
    {
      const std::lock_guard lock(mutex);
      done = true;
      status = std::move(with);
      call = wake;
    }
    if (call) call();
  }
};

StreamedFile::StreamedFile(HttpResponse head)
    : head_(std::move(head)), shared_(std::make_shared<Shared>()) {}

Result<std::unique_ptr<ResponseSource>> StreamedFile::Start(HttpResponse head, Producer producer) {
  std::unique_ptr<StreamedFile> file(new StreamedFile(std::move(head)));
  const auto work = [shared = file->shared_, producer = std::move(producer)] {
    ThreadActivity activity("export");
    activity.Set("sending a file");
    shared->End(producer([&](std::span<const std::byte> bytes) { return shared->Add(bytes); }));
  };
  try {
    file->thread_ = std::thread(work);
  } catch (const std::system_error& error) {
    return UnavailableError(std::string("no thread for sending a file: ") + error.what());
  }
  return std::unique_ptr<ResponseSource>(std::move(file));
}

StreamedFile::~StreamedFile() {
  Cancel(CancelledError("the client has gone"));
  if (thread_.joinable()) thread_.join();
}

void StreamedFile::SetWaker(std::function<void()> wake) {
  const std::lock_guard lock(shared_->mutex);
  shared_->wake = std::move(wake);
}

ResponsePart StreamedFile::Take() {
  const std::lock_guard lock(shared_->mutex);
  ResponsePart part;
  part.bytes = std::exchange(shared_->waiting, {});
  shared_->room.notify_one();
  const bool failed = shared_->done && !shared_->status.ok();
  if (!begun_ && failed && part.bytes.empty()) {
    part.whole = OpenAiErrorResponse({.status = shared_->status});
    part.done = true;
    return part;
  }
  if (!begun_ && (shared_->done || !part.bytes.empty())) {
    part.head = head_;
    begun_ = true;
  }
  if (failed) spdlog::error("a file was not sent to its end: {}", shared_->status.ToString());
  part.broken = failed;
  part.done = shared_->done && !failed;
  return part;
}

void StreamedFile::Cancel(Status why) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->cancelled.ok()) shared_->cancelled = std::move(why);
  shared_->room.notify_one();
}

}  // namespace holdfast

#include "cli/reply_waiter.h"

#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <utility>

namespace holdfast::cli {
namespace {

// Set by any thread, waited for by one. Shared: a late wake may come after the waiter is gone.
struct Signal {
  std::mutex mutex;
  std::condition_variable changed;
  bool set = false;  // guarded by mutex

  void Set() {
    std::lock_guard lock(mutex);
    set = true;
    changed.notify_one();
  }
  void WaitFor(std::chrono::milliseconds bound) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, bound, [this] { return set; });
    set = false;
  }
};

}  // namespace

Result<FinishedReply> RunToEnd(const std::shared_ptr<const ModelService>& model,
                               GenerateRequest request, ReplyAssembler assembler,
                               const std::function<void(const GenerationEvent&)>& on_event,
                               const std::function<bool()>& interrupted) {
  // A terminal may be slower than the model, and losing text would be worse than memory.
  Generation::Options options;
  options.max_waiting_bytes = std::numeric_limits<int64_t>::max();
  HF_ASSIGN_OR_RETURN(const std::shared_ptr<Generation> generation,
                      Generation::Start(model, std::move(request), std::move(assembler), options));
  const auto signal = std::make_shared<Signal>();
  generation->SetWaker([signal] { signal->Set(); });
  while (true) {
    signal->WaitFor(std::chrono::milliseconds(100));
    if (interrupted()) generation->Cancel(CancelledError("interrupted"));
    for (const GenerationEvent& event : generation->Take()) {
      on_event(event);
      if (const auto* finished = std::get_if<FinishedReply>(&event)) return *finished;
    }
  }
}

}  // namespace holdfast::cli

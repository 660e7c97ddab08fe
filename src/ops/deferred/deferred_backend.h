#ifndef HOLDFAST_OPS_DEFERRED_DEFERRED_BACKEND_H_
#define HOLDFAST_OPS_DEFERRED_DEFERRED_BACKEND_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "ops/backend.h"
#include "ops/cpu/cpu_backend.h"

namespace holdfast {

class DeferredBuffer;

struct DeferredOptions {
  uint64_t seed = 1;
  // Chance that a call lets the ops queued so far run; otherwise they wait for the next call that
  // must have their results.
  double run_early_chance = 0.1;
};

// A backend for tests that behaves as a GPU's does: the CPU ops, run later, by a thread of its own,
// in memory that the host cannot touch. Whoever uses Backend correctly sees no difference from
// CpuBackend; whoever does not gets a fault, wrong numbers or an error here instead of on a device.
//
// * Ops only queue. They run when Synchronize, Download or WithHostBytes needs them, or at a random
//   earlier point. Host arrays named by arguments (Upload's source too) are read only then.
// * Each buffer is PROT_NONE except while an op that names it runs; a read-only one is then
// PROT_READ.
// * The first error skips everything queued until Synchronize has returned it. Download and
//   WithHostBytes return it too, and leave it for Synchronize.
// * A buffer that is destroyed first waits for what is queued.
class DeferredBackend : public Backend {
 public:
  static Result<std::unique_ptr<DeferredBackend>> Create(const CpuBackendOptions& cpu,
                                                         const DeferredOptions& options = {});
  ~DeferredBackend() override;

  std::string_view name() const override { return "deferred"; }

  // Lets the n-th op queued from now on (0: the next; negative: none) fail with `error` instead of
  // running.
  void FailOp(int64_t n, Status error);

  void BeginModel(int64_t hidden_size) override;
  Result<std::unique_ptr<Buffer>> Allocate(size_t bytes) override;
  Result<std::unique_ptr<Weight>> LoadWeight(const WeightView& view) override;
  uint64_t RepackedBytes(const Weight& weight) const override {
    return cpu_->RepackedBytes(weight);
  }
  Status Repack(Weight* weight) override;
  Status SetReadOnly(Buffer* buffer, bool read_only) override;
  Status Upload(BufferRef dst, std::span<const std::byte> src) override;
  Status Download(BufferRef src, std::span<std::byte> dst) override;
  Status WithHostBytes(Buffer* buffer,
                       const std::function<Status(std::span<std::byte>)>& fn) override;
  Status Copy(const CopyArgs& args) override;
  Status GatherRows(const GatherRowsArgs& args) override;
  Status Embed(const EmbedArgs& args) override;
  Status HcRead(const HcReadArgs& args) override;
  Status HcWrite(const HcWriteArgs& args) override;
  Status MatMul(const MatMulArgs& args) override;
  Status Gdn(const GdnArgs& args) override;
  Status QsaAppend(const QsaAppendArgs& args) override;
  Status QsaAttend(const QsaAttendArgs& args) override;
  Status Moe(const MoeArgs& args) override;
  Status Ple(const PleArgs& args) override;
  Status DraftInput(const DraftInputArgs& args) override;
  Status Commit(const CommitArgs& args) override;
  Status Synchronize() override;

 private:
  friend class DeferredBuffer;
  using Op = std::function<Status()>;

  DeferredBackend(std::unique_ptr<CpuBackend> cpu, const DeferredOptions& options);
  // OK at once: what goes wrong is heard at Synchronize.
  Status Enqueue(Op op);
  // Waits until everything queued has run or was skipped; the error that is pending, if any.
  Status Drain();
  void Run();

  std::unique_ptr<CpuBackend> cpu_;
  const double run_early_chance_;
  std::mt19937_64 random_;
  int64_t fail_after_ = -1;  // ops still to queue before the one that fails; < 0: none
  Status failure_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Op> queue_;    // GUARDED_BY(mutex_)
  int64_t n_released_ = 0;  // GUARDED_BY(mutex_): how many ops of the queue may run now
  bool running_ = false;    // GUARDED_BY(mutex_)
  bool stop_ = false;       // GUARDED_BY(mutex_)
  Status error_;            // GUARDED_BY(mutex_)
  std::thread thread_;
};

}  // namespace holdfast

#endif  // HOLDFAST_OPS_DEFERRED_DEFERRED_BACKEND_H_

#ifndef HOLDFAST_OPS_CPU_CPU_BACKEND_H_
#define HOLDFAST_OPS_CPU_CPU_BACKEND_H_

#include <memory>
#include <string>
#include <vector>

#include "ops/backend.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/scratch.h"
#include "ops/cpu/thread_pool.h"

namespace holdfast {

struct CpuBackendOptions {
  int n_threads = 0;             // 0: one for each CPU this process may use
  std::string kernels = "auto";  // a name of FindKernels()
  ActivationFormat activations = ActivationFormat::kAuto;
};

// Computes on the host's cores. Ops run at once, on the caller's thread and the pool's.
class CpuBackend : public Backend {
 public:
  static Result<std::unique_ptr<CpuBackend>> Create(const CpuBackendOptions& options);

  std::string_view name() const override { return "cpu"; }
  const KernelTable& kernels() const { return *kernels_; }
  int n_threads() const { return pool_.n_threads(); }

  void BeginModel(int64_t hidden_size) override;
  Result<std::unique_ptr<Buffer>> Allocate(size_t bytes) override;
  Result<std::unique_ptr<Weight>> LoadWeight(const WeightView& view) override;
  uint64_t RepackedBytes(const Weight& weight) const override;
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
  Status Synchronize() override { return OkStatus(); }

 private:
  // Activations of one product, quantised once for all the weights that share them.
  struct PreparedRows {
    const float* x = nullptr;
    int64_t n_rows = 0, n_cols = 0;
    QuantizedRows by_32, by_256;  // codes are null where no weight asked for them
  };
  struct Product {
    const WeightView* weight = nullptr;
    bool float_form = false;
    float* y = nullptr;
    int64_t y_stride = 0;
  };

  CpuBackend(const CpuBackendOptions& options, int n_threads, const KernelTable* kernels);

  bool UsesIntegers(const WeightView& weight, bool float_form) const;
  // Scratch lives until the op ends.
  PreparedRows Prepare(const float* x, int64_t n_rows, int64_t n_cols,
                       std::span<const Product> products);
  // Rows [row_begin, row_end) of W_mat times the prepared rows [x_begin, x_begin + n_x), or those
  // that x_index names. `y` is where row_begin's output of the first row goes.
  void RunSlice(const WeightView& weight, int64_t mat, bool float_form, const PreparedRows& rows,
                const int32_t* x_index, int64_t x_begin, int64_t n_x, int64_t row_begin,
                int64_t row_end, float* y, int64_t y_stride) const;
  void RunProducts(const PreparedRows& rows, std::span<const Product> products);
  // Has the tier read what the next layer's router would choose for `rows`, the input of this one.
  void ReadAheadExperts(const MoeArgs& args, const PreparedRows& rows);
  // Rows a task of a product should take so that every thread gets several tasks.
  int64_t SliceRows(int64_t n_rows) const;

  const KernelTable* kernels_;
  const ActivationFormat wanted_activations_;
  ActivationFormat activations_;  // resolved by BeginModel()
  ThreadPool pool_;
  Scratch scratch_;                      // reset at the start of each op
  std::vector<Scratch> thread_scratch_;  // one for each thread, reset by each task that uses it
};

// The host address of a CPU buffer.
std::byte* HostBytes(const BufferRef& ref);
template <typename T = float>
T* HostData(const BufferRef& ref) {
  return reinterpret_cast<T*>(HostBytes(ref));
}

}  // namespace holdfast

#endif  // HOLDFAST_OPS_CPU_CPU_BACKEND_H_

#include "ops/cpu/cpu_backend.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>

#include <cstring>
#include <thread>

#include "ops/cpu/grid_blocks.h"
#include "weights/dequantize.h"

namespace holdfast {
namespace {

constexpr size_t kAlignment = 4096;
constexpr int kMaxThreads = 512;

// Anonymous mapping: zero, page-aligned, and not resident until it is touched.
class CpuBuffer : public Buffer {
 public:
  CpuBuffer(size_t bytes, std::byte* data, size_t mapped)
      : Buffer(bytes), data_(data), mapped_(mapped) {}
  ~CpuBuffer() override {
    if (mapped_ > 0) munmap(data_, mapped_);
  }
  std::byte* data() const { return data_; }
  size_t mapped() const { return mapped_; }

 private:
  std::byte* data_;
  size_t mapped_;
};

class CpuWeight : public Weight {
 public:
  using Weight::Weight;
  void Replace(const WeightView& view, std::unique_ptr<Buffer> buffer) {
    view_ = view;
    buffer_ = std::move(buffer);
  }

 private:
  std::unique_ptr<Buffer> buffer_;  // of a repacked one
};

CpuBuffer* AsCpu(Buffer* buffer) { return static_cast<CpuBuffer*>(buffer); }

int UsableCpus() {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
#endif
  const unsigned n = std::thread::hardware_concurrency();
  return n == 0 ? 1 : static_cast<int>(n);
}

}  // namespace

std::byte* HostBytes(const BufferRef& ref) {
  HF_DCHECK(ref.buffer != nullptr);
  return AsCpu(ref.buffer)->data() + ref.offset;
}

Result<std::unique_ptr<CpuBackend>> CpuBackend::Create(const CpuBackendOptions& options) {
  if (options.n_threads < 0 || options.n_threads > kMaxThreads) {
    return InvalidArgumentError(
        fmt::format("{} threads, wanted 0 (all CPUs) to {}", options.n_threads, kMaxThreads));
  }
  HF_ASSIGN_OR_RETURN(const KernelTable* kernels, FindKernels(options.kernels));
  const int n_threads = options.n_threads == 0 ? UsableCpus() : options.n_threads;
  return std::unique_ptr<CpuBackend>(new CpuBackend(options, n_threads, kernels));
}

CpuBackend::CpuBackend(const CpuBackendOptions& options, int n_threads, const KernelTable* kernels)
    : kernels_(kernels),
      wanted_activations_(options.activations),
      activations_(options.activations),
      pool_(n_threads),
      thread_scratch_(n_threads) {}

void CpuBackend::BeginModel(int64_t hidden_size) {
  activations_ = ResolveActivations(wanted_activations_, hidden_size);
}

Result<std::unique_ptr<Buffer>> CpuBackend::Allocate(size_t bytes) {
  if (bytes == 0) return std::unique_ptr<Buffer>(new CpuBuffer(0, nullptr, 0));
  const size_t mapped = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* data = mapped < bytes ? MAP_FAILED
                              : mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return ResourceExhaustedError(fmt::format("no memory for a buffer of {} bytes", bytes));
  }
  return std::unique_ptr<Buffer>(new CpuBuffer(bytes, static_cast<std::byte*>(data), mapped));
}

Result<std::unique_ptr<Weight>> CpuBackend::LoadWeight(const WeightView& view) {
  return std::unique_ptr<Weight>(std::make_unique<CpuWeight>(view));
}

uint64_t CpuBackend::RepackedBytes(const Weight& weight) const {
  const WeightView& view = weight.view();
  if (view.repacked || !IsGridType(view.type) || !UsesIntegers(view, false)) return 0;
  return static_cast<uint64_t>(view.n_mats * view.n_rows * (view.n_cols / 256) *
                               RepackedBlockBytes(view.type));
}

Status CpuBackend::Repack(Weight* weight) {
  const size_t bytes = RepackedBytes(*weight);
  if (bytes == 0) return OkStatus();
  HF_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> buffer, Allocate(bytes));
  const WeightView& from = weight->view();
  WeightView to = from;
  to.repacked = true;
  to.data = AsCpu(buffer.get())->data();
  to.row_bytes = from.n_cols / 256 * RepackedBlockBytes(from.type);
  to.mat_bytes = from.n_rows * to.row_bytes;
  std::byte* const data = AsCpu(buffer.get())->data();
#ifdef MADV_HUGEPAGE
  // Advice: experts are read here and there.
  (void)madvise(data, AsCpu(buffer.get())->mapped(), MADV_HUGEPAGE);
#endif
  pool_.For(from.n_mats * from.n_rows, [&](int64_t i, int) {
    const int64_t mat = i / from.n_rows, row = i % from.n_rows;
    RepackBlocks(from.type, from.Row(row, mat), from.n_cols / 256,
                 data + mat * to.mat_bytes + row * to.row_bytes);
  });
  static_cast<CpuWeight*>(weight)->Replace(to, std::move(buffer));
  return OkStatus();
}

Status CpuBackend::SetReadOnly(Buffer* buffer, bool read_only) {
#ifdef NDEBUG
  (void)buffer, (void)read_only;
#else
  CpuBuffer* cpu = AsCpu(buffer);
  if (cpu->mapped() > 0 &&
      mprotect(cpu->data(), cpu->mapped(), read_only ? PROT_READ : PROT_READ | PROT_WRITE) != 0) {
    return InternalError("mprotect of a page failed");
  }
#endif
  return OkStatus();
}

Status CpuBackend::Upload(BufferRef dst, std::span<const std::byte> src) {
  HF_CHECK(dst.offset + src.size() <= dst.buffer->bytes());
  std::memcpy(HostBytes(dst), src.data(), src.size());
  return OkStatus();
}

Status CpuBackend::Download(BufferRef src, std::span<std::byte> dst) {
  HF_CHECK(src.offset + dst.size() <= src.buffer->bytes());
  std::memcpy(dst.data(), HostBytes(src), dst.size());
  return OkStatus();
}

Status CpuBackend::WithHostBytes(Buffer* buffer,
                                 const std::function<Status(std::span<std::byte>)>& fn) {
  return fn(std::span(AsCpu(buffer)->data(), buffer->bytes()));
}

Status CpuBackend::Copy(const CopyArgs& args) {
  HF_CHECK(args.src.offset + args.bytes <= args.src.buffer->bytes());
  HF_CHECK(args.dst.offset + args.bytes <= args.dst.buffer->bytes());
  // Large copies (running states) are split so that every core's share of the memory is used.
  constexpr size_t kPiece = size_t{1} << 20;
  const int64_t n_pieces = static_cast<int64_t>((args.bytes + kPiece - 1) / kPiece);
  pool_.For(n_pieces, [&](int64_t piece, int) {
    const size_t begin = piece * kPiece;
    const size_t n = std::min(kPiece, args.bytes - begin);
    std::memcpy(HostBytes(args.dst) + begin, HostBytes(args.src) + begin, n);
  });
  return OkStatus();
}

Status CpuBackend::GatherRows(const GatherRowsArgs& args) {
  const std::byte* src = HostBytes(args.src);
  std::byte* dst = HostBytes(args.dst);
  for (size_t i = 0; i < args.rows.size(); ++i) {
    std::memcpy(dst + i * args.row_bytes, src + args.rows[i] * args.row_bytes, args.row_bytes);
  }
  return OkStatus();
}

Status CpuBackend::Embed(const EmbedArgs& args) {
  const WeightView& table = args.table->view();
  float* x = HostData(args.x);
  const int64_t dim = table.n_cols;
  pool_.For(static_cast<int64_t>(args.tokens.size()), [&](int64_t row, int) {
    float* out = x + row * args.n_streams * dim;
    DequantizeRow(table.type, table.Row(args.tokens[row]), dim, out);
    for (int64_t s = 1; s < args.n_streams; ++s) {
      std::memcpy(out + s * dim, out, dim * sizeof(float));
    }
  });
  return OkStatus();
}

}  // namespace holdfast

#include "ops/deferred/deferred_backend.h"

#include "ops/deferred/hidden_buffers.h"

namespace holdfast {

Result<std::unique_ptr<DeferredBackend>> DeferredBackend::Create(const CpuBackendOptions& cpu,
                                                                 const DeferredOptions& options) {
  HF_ASSIGN_OR_RETURN(std::unique_ptr<CpuBackend> backend, CpuBackend::Create(cpu));
  return std::unique_ptr<DeferredBackend>(new DeferredBackend(std::move(backend), options));
}

DeferredBackend::DeferredBackend(std::unique_ptr<CpuBackend> cpu, const DeferredOptions& options)
    : cpu_(std::move(cpu)),
      run_early_chance_(options.run_early_chance),
      random_(options.seed),
      thread_([this] { Run(); }) {}

DeferredBackend::~DeferredBackend() {
  (void)Drain();
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void DeferredBackend::FailOp(int64_t n, Status error) {
  fail_after_ = n;
  failure_ = std::move(error);
}

Status DeferredBackend::Enqueue(Op op) {
  if (fail_after_ >= 0 && fail_after_-- == 0) {
    op = [error = failure_] { return error; };
  }
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(op));
  if (std::uniform_real_distribution<double>()(random_) < run_early_chance_) {
    n_released_ = static_cast<int64_t>(queue_.size());
    changed_.notify_all();
  }
  return OkStatus();
}

Status DeferredBackend::Drain() {
  std::unique_lock lock(mutex_);
  n_released_ = static_cast<int64_t>(queue_.size());
  changed_.notify_all();
  changed_.wait(lock, [&] { return queue_.empty() && !running_; });
  return error_;
}

Status DeferredBackend::Synchronize() {
  const Status status = Drain();
  const std::lock_guard lock(mutex_);
  error_ = OkStatus();
  return status;
}

void DeferredBackend::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || n_released_ > 0; });
    if (n_released_ == 0) return;
    const Op op = std::move(queue_.front());
    queue_.pop_front();
    --n_released_;
    running_ = true;
    const bool skip = !error_.ok();
    lock.unlock();
    Status status = skip ? OkStatus() : op();
    lock.lock();
    running_ = false;
    if (!status.ok()) error_ = std::move(status);
    changed_.notify_all();
  }
}

void DeferredBackend::BeginModel(int64_t hidden_size) { cpu_->BeginModel(hidden_size); }

Result<std::unique_ptr<Buffer>> DeferredBackend::Allocate(size_t bytes) {
  HF_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> buffer, cpu_->Allocate(bytes));
  return std::unique_ptr<Buffer>(new DeferredBuffer(this, std::move(buffer)));
}

Result<std::unique_ptr<Weight>> DeferredBackend::LoadWeight(const WeightView& view) {
  HF_RETURN_IF_ERROR(Drain());
  return cpu_->LoadWeight(view);
}

Status DeferredBackend::Repack(Weight* weight) {
  HF_RETURN_IF_ERROR(Drain());
  return cpu_->Repack(weight);
}

Status DeferredBackend::SetReadOnly(Buffer* buffer, bool read_only) {
  return Enqueue([buffer, read_only] {
    static_cast<DeferredBuffer*>(buffer)->set_read_only(read_only);
    return OkStatus();
  });
}

Status DeferredBackend::Upload(BufferRef dst, std::span<const std::byte> src) {
  return Enqueue([this, dst, src]() mutable {
    OpenBuffers open;
    open.Open(&dst);
    return cpu_->Upload(dst, src);
  });
}

Status DeferredBackend::Download(BufferRef src, std::span<std::byte> dst) {
  HF_RETURN_IF_ERROR(Enqueue([this, src, dst]() mutable {
    OpenBuffers open;
    open.Open(&src);
    return cpu_->Download(src, dst);
  }));
  return Drain();
}

Status DeferredBackend::WithHostBytes(Buffer* buffer,
                                      const std::function<Status(std::span<std::byte>)>& fn) {
  HF_RETURN_IF_ERROR(Drain());
  OpenBuffers open;
  return cpu_->WithHostBytes(open.Open(buffer), fn);
}

Status DeferredBackend::Copy(const CopyArgs& args) {
  return Enqueue([this, args = args]() mutable {
    OpenBuffers open;
    open.Open(&args.src);
    open.Open(&args.dst);
    return cpu_->Copy(args);
  });
}

Status DeferredBackend::GatherRows(const GatherRowsArgs& args) {
  return Enqueue([this, args = args]() mutable {
    OpenBuffers open;
    open.Open(&args.src);
    open.Open(&args.dst);
    return cpu_->GatherRows(args);
  });
}

Status DeferredBackend::Embed(const EmbedArgs& args) {
  return Enqueue([this, args = args]() mutable {
    OpenBuffers open;
    open.Open(&args.x);
    return cpu_->Embed(args);
  });
}

Status DeferredBackend::HcRead(const HcReadArgs& args) {
  return Enqueue([this, args = args]() mutable {
    OpenBuffers open;
    for (BufferRef* ref : {&args.x, &args.norm, &args.out, &args.inject_out}) open.Open(ref);
    return cpu_->HcRead(args);
  });
}

Status DeferredBackend::HcWrite(const HcWriteArgs& args) {
  return Enqueue([this, args = args]() mutable {
    OpenBuffers open;
    for (BufferRef* ref : {&args.x, &args.o, &args.inject}) open.Open(ref);
    return cpu_->HcWrite(args);
  });
}

Status DeferredBackend::MatMul(const MatMulArgs& args) {
  return Enqueue([this, args = args]() mutable {
    OpenBuffers open;
    open.Open(&args.x);
    for (MatMulArgs::Output& output : args.outputs) open.Open(&output.y);
    return cpu_->MatMul(args);
  });
}

Status DeferredBackend::Gdn(const GdnArgs& args) {
  return Enqueue([this, args = args]() mutable {
    OpenBuffers open;
    open.Open(&args.rows);
    for (BufferRef* ref : {&args.qkv, &args.z, &args.b, &args.a, &args.conv, &args.ssm_a,
                           &args.dt_bias, &args.norm, &args.out}) {
      open.Open(ref);
    }
    return cpu_->Gdn(args);
  });
}

Status DeferredBackend::QsaAppend(const QsaAppendArgs& args) {
  return Enqueue([this, args = args]() mutable {
    OpenBuffers open;
    open.Open(&args.rows);
    for (BufferRef* ref :
         {&args.q_gate, &args.k, &args.v, &args.index_q, &args.index_k, &args.q_norm, &args.k_norm,
          &args.index_q_norm, &args.index_k_norm, &args.q}) {
      open.Open(ref);
    }
    return cpu_->QsaAppend(args);
  });
}

Status DeferredBackend::QsaAttend(const QsaAttendArgs& args) {
  return Enqueue([this, args = args]() mutable {
    OpenBuffers open;
    open.Open(&args.rows);
    for (BufferRef* ref : {&args.q, &args.q_gate, &args.index_q, &args.out, &args.selected}) {
      open.Open(ref);
    }
    return cpu_->QsaAttend(args);
  });
}

Status DeferredBackend::Moe(const MoeArgs& args) {
  return Enqueue([this, args = args]() mutable {
    OpenBuffers open;
    for (BufferRef* ref :
         {&args.u, &args.out, &args.router_logits, &args.router_ids, &args.router_weights}) {
      open.Open(ref);
    }
    return cpu_->Moe(args);
  });
}

Status DeferredBackend::Ple(const PleArgs& args) {
  return Enqueue([this, args = args]() mutable {
    OpenBuffers open;
    open.Open(&args.rows);
    for (BufferRef* ref : {&args.norm_key, &args.norm_query, &args.norm_conv, &args.conv, &args.x,
                           &args.embedding, &args.added}) {
      open.Open(ref);
    }
    return cpu_->Ple(args);
  });
}

Status DeferredBackend::DraftInput(const DraftInputArgs& args) {
  return Enqueue([this, args = args]() mutable {
    OpenBuffers open;
    for (BufferRef* ref : {&args.hidden, &args.embed_norm, &args.hidden_norm, &args.x}) {
      open.Open(ref);
    }
    return cpu_->DraftInput(args);
  });
}

Status DeferredBackend::Commit(const CommitArgs& args) {
  return Enqueue([this, args = args]() mutable {
    OpenBuffers open;
    open.Open(&args);
    return cpu_->Commit(args);
  });
}

}  // namespace holdfast

#include "ops/deferred/hidden_buffers.h"

#include <sys/mman.h>

#include "ops/cpu/cpu_backend.h"
#include "ops/deferred/deferred_backend.h"

namespace holdfast {

DeferredBuffer::DeferredBuffer(DeferredBackend* backend, std::unique_ptr<Buffer> cpu)
    : Buffer(cpu->bytes()), backend_(backend), cpu_(std::move(cpu)) {
  Protect(PROT_NONE);
}

DeferredBuffer::~DeferredBuffer() {
  // Ops in the queue may name this buffer. Their error stays pending for Synchronize.
  (void)backend_->Drain();
}

void DeferredBuffer::Open() {
  if (n_open_++ == 0) Protect(read_only_ ? PROT_READ : PROT_READ | PROT_WRITE);
}

void DeferredBuffer::Close() {
  if (--n_open_ == 0) Protect(PROT_NONE);
}

void DeferredBuffer::Protect(int protection) const {
  if (bytes() == 0) return;
  HF_CHECK(mprotect(HostBytes({cpu_.get(), 0}), bytes(), protection) == 0);
}

OpenBuffers::~OpenBuffers() {
  for (DeferredBuffer* buffer : open_) buffer->Close();
}

Buffer* OpenBuffers::Open(Buffer* buffer) {
  if (buffer == nullptr) return nullptr;
  auto* deferred = static_cast<DeferredBuffer*>(buffer);
  deferred->Open();
  open_.push_back(deferred);
  return deferred->cpu();
}

void OpenBuffers::Open(StepRows* rows) {
  segments_.assign(rows->segments.begin(), rows->segments.end());
  pages_.reserve(segments_.size());
  for (Segment& segment : segments_) {
    segment.running = Open(segment.running);
    segment.log = Open(segment.log);
    std::vector<Buffer*>& pages = pages_.emplace_back();
    for (Buffer* page : segment.pages) pages.push_back(Open(page));
    segment.pages = pages;
  }
  rows->segments = segments_;
}

void OpenBuffers::Open(CommitArgs* args) {
  commits_.assign(args->segments.begin(), args->segments.end());
  for (CommitSegment& segment : commits_) {
    segment.running = Open(segment.running);
    segment.log = Open(segment.log);
  }
  args->segments = commits_;
}

}  // namespace holdfast

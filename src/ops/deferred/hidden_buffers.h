#ifndef HOLDFAST_OPS_DEFERRED_HIDDEN_BUFFERS_H_
#define HOLDFAST_OPS_DEFERRED_HIDDEN_BUFFERS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "ops/backend.h"

namespace holdfast {

class DeferredBackend;

// What the host holds: a CPU buffer whose memory it cannot touch.
class DeferredBuffer : public Buffer {
 public:
  DeferredBuffer(DeferredBackend* backend, std::unique_ptr<Buffer> cpu);
  ~DeferredBuffer() override;

  Buffer* cpu() const { return cpu_.get(); }
  // Nested: the memory is open until the last Close().
  void Open();
  void Close();
  // Takes effect when it is next opened.
  void set_read_only(bool read_only) { read_only_ = read_only; }

 private:
  void Protect(int protection) const;

  DeferredBackend* backend_;
  std::unique_ptr<Buffer> cpu_;
  int n_open_ = 0;
  bool read_only_ = false;
};

// The buffers of one op, open while this lives, and its arguments as the CPU backend wants them.
class OpenBuffers {
 public:
  OpenBuffers() = default;
  ~OpenBuffers();
  OpenBuffers(const OpenBuffers&) = delete;
  OpenBuffers& operator=(const OpenBuffers&) = delete;

  Buffer* Open(Buffer* buffer);
  void Open(BufferRef* ref) { ref->buffer = Open(ref->buffer); }
  void Open(StepRows* rows);  // running states, logs and all pages
  void Open(CommitArgs* args);

 private:
  std::vector<DeferredBuffer*> open_;
  std::vector<Segment> segments_;
  std::vector<CommitSegment> commits_;
  std::vector<std::vector<Buffer*>> pages_;
};

}  // namespace holdfast

#endif  // HOLDFAST_OPS_DEFERRED_HIDDEN_BUFFERS_H_

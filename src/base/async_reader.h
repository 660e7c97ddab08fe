#ifndef HOLDFAST_BASE_ASYNC_READER_H_
#define HOLDFAST_BASE_ASYNC_READER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace holdfast {

// Bytes of a file that are wanted in memory. Memory, offset and size are multiples of 4 KiB where
// the descriptor is O_DIRECT.
struct ReadRequest {
  int fd = -1;
  uint64_t offset = 0;
  std::byte* data = nullptr;
  uint32_t n_bytes = 0;
  uint32_t min_bytes = 0;  // the file may end after so many of them
  uint64_t tag = 0;        // comes back with the outcome
};

// Reads many pieces of files at once.
//
// Threads: one caller of Submit() at a time; outcomes are told on threads of the reader.
class AsyncReader {
 public:
  // `error` is 0, an errno, or kShortFile. Called once for each request, in no order.
  using Done = std::function<void(uint64_t tag, int error)>;
  static constexpr int kShortFile = -1;

  // Waits for what has been submitted.
  virtual ~AsyncReader() = default;
  AsyncReader(const AsyncReader&) = delete;
  AsyncReader& operator=(const AsyncReader&) = delete;

  // "io_uring" or "pread threads".
  virtual std::string_view name() const = 0;
  // Returns at once; `requests` may go then, the memory they name may not.
  virtual void Submit(std::span<const ReadRequest> requests) = 0;

 protected:
  AsyncReader() = default;
};

enum class ReaderKind { kAuto, kUring, kPread };
// "auto", "io_uring" or "pread". kInvalidArgument.
Result<ReaderKind> ParseReaderKind(std::string_view text);

// kAuto: io_uring where the kernel lets us have one, else threads. kUring fails instead, with the
// reason (kUnimplemented where the program was built without).
Result<std::unique_ptr<AsyncReader>> MakeAsyncReader(ReaderKind kind, AsyncReader::Done done);

// The two of them.
std::unique_ptr<AsyncReader> MakePreadReader(int n_threads, AsyncReader::Done done);
Result<std::unique_ptr<AsyncReader>> MakeUringReader(AsyncReader::Done done);

// The outcome of reading `what` ("layer 3 of model.gguf"); OK for 0.
Status ReadErrorStatus(int error, const std::string& what);

}  // namespace holdfast

#endif  // HOLDFAST_BASE_ASYNC_READER_H_

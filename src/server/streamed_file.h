#ifndef HOLDFAST_SERVER_STREAMED_FILE_H_
#define HOLDFAST_SERVER_STREAMED_FILE_H_

// A response whose bytes are made while the client takes them.

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "server/http_message.h"
#include "store/store_types.h"

namespace holdfast {

// A thread of its own makes the bytes, and waits while the client is behind by more than a little.
// An error before the first byte is a whole response; after it the stream breaks, so that the
// client knows that it has not got everything.
class StreamedFile : public ResponseSource {
 public:
  // Writes everything to the sink; ends soon with the sink's error. What it uses outlives this.
  using Producer = std::function<Status(const ByteSink& sink)>;

  // kUnavailable when no thread can be had.
  static Result<std::unique_ptr<ResponseSource>> Start(HttpResponse head, Producer producer);
  ~StreamedFile() override;

  void SetWaker(std::function<void()> wake) override;
  ResponsePart Take() override;
  void Cancel(Status why) override;

 private:
  struct Shared;
  explicit StreamedFile(HttpResponse head);

  const HttpResponse head_;
  const std::shared_ptr<Shared> shared_;
  bool begun_ = false;
  std::thread thread_;
};

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_STREAMED_FILE_H_

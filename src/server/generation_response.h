#ifndef HOLDFAST_SERVER_GENERATION_RESPONSE_H_
#define HOLDFAST_SERVER_GENERATION_RESPONSE_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/generation.h"
#include "server/http_message.h"

namespace holdfast {

// How one API writes a reply: as a stream of events, or as one object at the end.
class ReplyFormatter {
 public:
  virtual ~ReplyFormatter() = default;
  virtual bool streaming() const = 0;
  // Streaming: what comes before the first event.
  virtual std::string Begin() { return {}; }
  // Streaming: the bytes of an event. Otherwise collects, and returns nothing.
  virtual std::string Add(const GenerationEvent& event) = 0;
  // Not streaming: the response, after FinishedReply was added.
  virtual HttpResponse Whole() { return {}; }
  // Streaming: sent in silence.
  virtual std::string Heartbeat() { return {}; }
};

// A Generation behind the seam of the HTTP server. Destroying it before the end cancels the
// request.
class GenerationResponse : public ResponseSource {
 public:
  GenerationResponse(std::shared_ptr<Generation> generation,
                     std::unique_ptr<ReplyFormatter> formatter);
  ~GenerationResponse() override;

  void SetWaker(std::function<void()> wake) override;
  ResponsePart Take() override;
  std::string Heartbeat() override;
  void Cancel(Status why) override;

 private:
  std::shared_ptr<Generation> generation_;
  std::unique_ptr<ReplyFormatter> formatter_;
  bool begun_ = false, done_ = false;
  ReuseInfo reuse_;
  std::string conversation_;
};

// The head of a server-sent event stream.
HttpResponse EventStreamHead();
// "data: <data>\n\n"; `data` holds no line break.
std::string ServerSentEvent(std::string_view data);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_GENERATION_RESPONSE_H_

#ifndef HOLDFAST_SERVER_HTTP_MESSAGE_H_
#define HOLDFAST_SERVER_HTTP_MESSAGE_H_

// What the APIs see of HTTP: requests and responses as values, and responses that grow. Nothing
// here knows of sockets, so every API is tested without one.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace holdfast {

// Takes a body that is too large to be held. Calls come one at a time and in order, from threads
// that may wait for a disk.
class BodySink {
 public:
  virtual ~BodySink() = default;
  // An error ends the request, which is answered with it.
  virtual Status Write(std::string_view bytes) = 0;
};

struct HttpRequest {
  std::string id;      // ours, unique in the process; returned as X-Request-Id
  std::string method;  // "GET"
  std::string path;    // "/v1/models", percent-decoded, without query
  std::string query;   // after '?', as sent
  std::string remote;  // "127.0.0.1:51234"
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;
  std::shared_ptr<BodySink> body_sink;  // when set it has taken the body, and `body` is empty

  // The value of the first header of this name (lower case); empty when there is none.
  std::string_view header(std::string_view name) const;
  // The value of the first "name=value" of the query, as sent.
  std::optional<std::string_view> query_value(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;  // further ones
  std::string body;
};

// The next part of a response that is not finished yet. A response is either one `whole`, or a
// stream: `head` once, bytes any number of times, `done`.
struct ResponsePart {
  std::optional<HttpResponse> whole;
  std::optional<HttpResponse> head;  // its body is not used
  std::string bytes;
  bool done = false;
  bool broken = false;  // the stream ends here without being whole, and the client can tell

  bool empty() const { return !whole && !head && bytes.empty() && !done && !broken; }
};

// A response that is still being made. Owned and called by its connection, one call at a time; the
// waker is the only thing that other threads call. Destroying it abandons the work behind it.
class ResponseSource {
 public:
  virtual ~ResponseSource() = default;
  // `wake` is called, from any thread, whenever Take() may have something new. It must be cheap
  // and may be called after the source is gone.
  virtual void SetWaker(std::function<void()> wake) = 0;
  // What is there now; never blocks.
  virtual ResponsePart Take() = 0;
  // Sent when a stream has been silent for a while, so that clients and proxies keep waiting.
  virtual std::string Heartbeat() { return {}; }
  // Ends the work soon: Take() then gives an error, or the end of a stream that says why.
  virtual void Cancel(Status why) = 0;
};

// An answer to a request: at once, or later.
struct HttpReply {
  HttpResponse response;
  std::unique_ptr<ResponseSource> source;  // when set, `response` is not used

  HttpReply() = default;
  HttpReply(HttpResponse now) : response(std::move(now)) {}                       // NOLINT
  HttpReply(std::unique_ptr<ResponseSource> later) : source(std::move(later)) {}  // NOLINT
};

// May run on any thread, for several requests at once, and may take a while (rendering,
// tokenising).
using HttpHandler = std::function<HttpReply(const HttpRequest&)>;

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_HTTP_MESSAGE_H_

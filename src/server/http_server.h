#ifndef HOLDFAST_SERVER_HTTP_SERVER_H_
#define HOLDFAST_SERVER_HTTP_SERVER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/api_error.h"
#include "server/http_message.h"

namespace holdfast {

struct HttpLimits {
  int64_t max_header_bytes = 64 << 10;
  int64_t max_body_bytes = int64_t{32} << 20;
  int max_connections = 4096;
  int max_connections_per_address = 0;          // of an IPv4 address or an IPv6 /64; 0: no limit
  std::chrono::milliseconds idle{75'000};       // keep-alive, no byte of a request yet
  std::chrono::milliseconds header{15'000};     // from its first byte to the end of the header
  std::chrono::milliseconds body_step{20'000};  // between two parts of a body
  std::chrono::milliseconds body{600'000};      // for all of one that is held
  // For each 64 KiB of a response: a client that takes longer is cut off.
  std::chrono::milliseconds write{30'000};
  std::chrono::milliseconds heartbeat{5'000};  // silence of a stream before a heartbeat
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // an address or a name
  uint16_t port = 8080;            // 0: any free one
  int listening_socket = -1;       // one that listens already, taken over: host and port are its
  int n_threads = 2;               // for sockets
  int n_handler_threads = 2;       // for handlers
  HttpLimits limits;
  std::string tls_cert, tls_key;  // PEM files; both or none
  // Headers that every response to a request gets. May be null.
  std::function<std::vector<std::pair<std::string, std::string>>(const HttpRequest&)> add_headers;
  // Decides by the head, before the body is read: an error ends the request.
  std::function<std::optional<ApiError>(const HttpRequest& head)> check_head;
  // After that, where the body goes: null into HttpRequest::body. What has a sink is limited by it
  // and by `body_step` only. An error ends the request. May be null; runs on a handler's thread.
  std::function<Result<std::shared_ptr<BodySink>>(const HttpRequest& head)> open_body;
};

// HTTP/1.1 over TCP: keep-alive, pipelining, chunked requests, streamed responses, limits on
// everything a client controls. Clients that disconnect have their ResponseSource destroyed at
// once.
//
// Threads: its own. Start() returns with the port open.
class HttpServer {
 public:
  // kInvalidArgument for a host that does not resolve and for TLS files that are no good;
  // kUnavailable with the system's reason when the port cannot be bound.
  static Result<std::unique_ptr<HttpServer>> Start(const HttpServerOptions& options,
                                                   HttpHandler handler);
  // As Shutdown(0).
  ~HttpServer();

  uint16_t port() const;
  // The file descriptor; of a copy of it clients find an open port after Shutdown().
  int listening_socket() const;
  int n_connections() const;

  // No new connections or requests; running responses get `grace` to finish and are then cancelled
  // with an error the client sees. Returns when all connections are closed. Only the first call
  // does anything.
  void Shutdown(std::chrono::milliseconds grace);

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_HTTP_SERVER_H_

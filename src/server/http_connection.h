#ifndef HOLDFAST_SERVER_HTTP_CONNECTION_H_
#define HOLDFAST_SERVER_HTTP_CONNECTION_H_

// One client's connection. Includes Asio: only http_server.cc and http_connection.cc use this.

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <memory>

#include "server/http_server.h"

namespace holdfast {

// What all connections share; outlives them.
struct HttpShared {
  HttpServerOptions options;
  HttpHandler handler;
  boost::asio::thread_pool* handler_pool = nullptr;
  std::shared_ptr<boost::asio::ssl::context> tls;  // null: plain HTTP
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  // `socket` runs on a strand of its own. `on_close` is called once, last, from that strand.
  HttpConnection(boost::asio::ip::tcp::socket socket, const HttpShared* shared,
                 std::function<void(const std::shared_ptr<HttpConnection>&)> on_close);
  ~HttpConnection();

  // Serves requests until the connection ends. Keeps itself alive.
  void Run();
  // Answers with `why` and closes.
  void RunRefused(ApiError why);
  // The client's, as it was when the connection was made.
  const boost::asio::ip::address& address() const { return address_; }

  // Thread-safe. Ends the connection after the running response; at once when there is none.
  void CloseWhenIdle();
  // Thread-safe. Cancels the running response with `why`.
  void CancelResponse(Status why);
  // Thread-safe. Closes the socket under whatever runs.
  void Abort();

 private:
  class Impl;
  boost::asio::ip::address address_;
  std::shared_ptr<Impl> impl_;
  std::function<void(const std::shared_ptr<HttpConnection>&)> on_close_;
};

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_HTTP_CONNECTION_H_

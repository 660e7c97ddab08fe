#ifndef HOLDFAST_SERVER_HTTP_STREAM_H_
#define HOLDFAST_SERVER_HTTP_STREAM_H_

// The bytes of a connection, with or without TLS around them. Includes Asio.

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <optional>
#include <utility>

namespace holdfast {

// What Beast and Asio call an AsyncReadStream and AsyncWriteStream.
class HttpStream {
 public:
  using executor_type = boost::asio::ip::tcp::socket::executor_type;
  using Tls = boost::asio::ssl::stream<boost::asio::ip::tcp::socket&>;

  // `tls` may be null: plain bytes. Else it outlives this.
  HttpStream(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context* tls)
      : socket_(std::move(socket)) {
    if (tls != nullptr) tls_.emplace(socket_, *tls);
  }
  HttpStream(const HttpStream&) = delete;
  HttpStream& operator=(const HttpStream&) = delete;

  executor_type get_executor() { return socket_.get_executor(); }
  boost::asio::ip::tcp::socket& socket() { return socket_; }
  bool has_tls() const { return tls_.has_value(); }
  Tls& tls() { return *tls_; }

  template <typename Buffers, typename Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    if (tls_) return tls_->async_read_some(buffers, std::forward<Token>(token));
    return socket_.async_read_some(buffers, std::forward<Token>(token));
  }
  template <typename Buffers, typename Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    if (tls_) return tls_->async_write_some(buffers, std::forward<Token>(token));
    return socket_.async_write_some(buffers, std::forward<Token>(token));
  }

 private:
  boost::asio::ip::tcp::socket socket_;
  std::optional<Tls> tls_;
};

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_HTTP_STREAM_H_

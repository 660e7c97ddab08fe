#include "server/http_server.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/thread_activity.h"
#include "server/http_connection.h"
#include "server/tls_context.h"

namespace holdfast {
namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

// What counts as one client: an IPv4 address, or the /64 that an IPv6 host can choose from.
std::string NetworkOf(const asio::ip::address& address) {
  if (!address.is_v6() || address.to_v6().is_v4_mapped()) return address.to_string();
  asio::ip::address_v6::bytes_type bytes = address.to_v6().to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), 0);
  return asio::ip::address_v6(bytes).to_string();
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const HttpServerOptions& options, HttpHandler handler)
      : handler_pool_(static_cast<size_t>(options.n_handler_threads)),
        shared_{options, std::move(handler), &handler_pool_, nullptr},
        acceptor_(asio::make_strand(io_)) {}

  Status Open();
  Status TakeOver(int listening_socket);
  void Start();
  void Shutdown(std::chrono::milliseconds grace);

  uint16_t port() const { return port_; }
  int listening_socket() { return acceptor_.native_handle(); }
  int n_connections() {
    std::lock_guard lock(mutex_);
    return static_cast<int>(connections_.size());
  }

 private:
  using Connection = std::shared_ptr<HttpConnection>;

  asio::awaitable<void> Accept();
  void Add(tcp::socket socket);
  // Counts a new connection; why it is refused, if it is. Needs mutex_.
  std::optional<ApiError> Admit(const Connection& connection);
  void Remove(const Connection& connection);
  std::vector<Connection> connections();
  // Waits until there is no connection; false when that takes longer than `bound`.
  bool WaitUntilEmpty(std::chrono::milliseconds bound);

  asio::io_context io_;
  asio::thread_pool handler_pool_;
  HttpShared shared_;
  tcp::acceptor acceptor_;
  uint16_t port_ = 0;
  std::vector<std::jthread> threads_;
  bool shut_down_ = false;  // the owner's thread only

  std::mutex mutex_;
  std::condition_variable empty_;               // connections_ has become empty
  std::unordered_set<Connection> connections_;  // guarded by mutex_
  std::map<std::string, int> n_by_network_;     // guarded by mutex_
  bool accepting_ = true;                       // guarded by mutex_
};

Status HttpServer::Impl::Open() {
  const HttpServerOptions& options = shared_.options;
  if (options.tls_cert.empty() != options.tls_key.empty()) {
    return InvalidArgumentError("--tls-cert and --tls-key go together");
  }
  if (!options.tls_cert.empty()) {
    HF_ASSIGN_OR_RETURN(shared_.tls, LoadTlsContext(options.tls_cert, options.tls_key));
  }
  error_code error;
  if (options.listening_socket >= 0) return TakeOver(options.listening_socket);
  tcp::resolver resolver(io_);
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
  if (error || found.empty()) {
    return InvalidArgumentError(
        fmt::format("host {} cannot be resolved: {}", options.host, error.message()));
  }
  const tcp::endpoint endpoint = found.begin()->endpoint();
  const auto failed = [&](const char* what) {
    return UnavailableError(
        fmt::format("{} {} port {}: {}", what, options.host, options.port, error.message()));
  };
  acceptor_.open(endpoint.protocol(), error);
  if (error) return failed("cannot open a socket for");
  acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  acceptor_.bind(endpoint, error);
  if (error) return failed("cannot listen on");
  acceptor_.listen(tcp::socket::max_listen_connections, error);
  if (error) return failed("cannot listen on");
  port_ = acceptor_.local_endpoint(error).port();
  return OkStatus();
}

Status HttpServer::Impl::TakeOver(int listening_socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(listening_socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return ErrnoError(errno, "the listening socket");
  }
  error_code error;
  acceptor_.assign(address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), listening_socket, error);
  if (error) {
    return UnavailableError(fmt::format("cannot use the listening socket: {}", error.message()));
  }
  port_ = acceptor_.local_endpoint(error).port();
  return OkStatus();
}

void HttpServer::Impl::Start() {
  asio::co_spawn(acceptor_.get_executor(), Accept(), asio::detached);
  for (int i = 0; i < shared_.options.n_threads; ++i) {
    threads_.emplace_back([this] {
      ThreadActivity activity("http");
      activity.Set("serving connections");
      io_.run();
    });
  }
}

asio::awaitable<void> HttpServer::Impl::Accept() {
  while (acceptor_.is_open()) {
    error_code error;
    tcp::socket socket =
        co_await acceptor_.async_accept(asio::any_io_executor(asio::make_strand(io_)),
                                        asio::redirect_error(asio::use_awaitable, error));
    if (!error) {
      Add(std::move(socket));
    } else if (acceptor_.is_open()) {
      // Out of descriptors, or a client that was gone at once: try again, but not in a hot loop.
      spdlog::warn("a connection could not be accepted: {}", error.message());
      asio::steady_timer pause(acceptor_.get_executor(), std::chrono::milliseconds(50));
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
  }
}

std::optional<ApiError> HttpServer::Impl::Admit(const Connection& connection) {
  const HttpLimits& limits = shared_.options.limits;
  ApiError full;
  full.retry_after_s = 1;
  const int n = ++n_by_network_[NetworkOf(connection->address())];
  if (connections_.size() > static_cast<size_t>(limits.max_connections)) {
    full.status =
        UnavailableError(fmt::format("the server has its {} connections", limits.max_connections));
    return full;
  }
  if (limits.max_connections_per_address > 0 && n > limits.max_connections_per_address) {
    full.status = UnavailableError(fmt::format(
        "{} connections from one address, more are not taken", limits.max_connections_per_address));
    full.http_status = 429;
    return full;
  }
  return std::nullopt;
}

void HttpServer::Impl::Add(tcp::socket socket) {
  const auto connection = std::make_shared<HttpConnection>(
      std::move(socket), &shared_, [this](const Connection& closed) { Remove(closed); });
  const size_t limit = static_cast<size_t>(shared_.options.limits.max_connections);
  std::optional<ApiError> refused;
  {
    std::lock_guard lock(mutex_);
    // A few more are told why they are refused; beyond that even telling is too much.
    if (!accepting_ || connections_.size() >= limit + 64) return;
    connections_.insert(connection);
    refused = Admit(connection);
  }
  if (refused) {
    connection->RunRefused(*std::move(refused));
  } else {
    connection->Run();
  }
}

void HttpServer::Impl::Remove(const Connection& connection) {
  std::lock_guard lock(mutex_);
  connections_.erase(connection);
  const auto it = n_by_network_.find(NetworkOf(connection->address()));
  if (it != n_by_network_.end() && --it->second <= 0) n_by_network_.erase(it);
  if (connections_.empty()) empty_.notify_all();
}

std::vector<HttpServer::Impl::Connection> HttpServer::Impl::connections() {
  std::lock_guard lock(mutex_);
  return {connections_.begin(), connections_.end()};
}

bool HttpServer::Impl::WaitUntilEmpty(std::chrono::milliseconds bound) {
  std::unique_lock lock(mutex_);
  return empty_.wait_for(lock, bound, [this] { return connections_.empty(); });
}

void HttpServer::Impl::Shutdown(std::chrono::milliseconds grace) {
  if (std::exchange(shut_down_, true)) return;
  {
    std::lock_guard lock(mutex_);
    accepting_ = false;
  }
  asio::post(acceptor_.get_executor(), [this] {
    error_code ignored;
    acceptor_.close(ignored);
  });
  for (const Connection& connection : connections()) connection->CloseWhenIdle();
  if (!WaitUntilEmpty(grace)) {
    for (const Connection& connection : connections()) {
      connection->CancelResponse(UnavailableError("the server is shutting down"));
    }
    // A cancelled reply ends within a step of the model and is then written.
    if (!WaitUntilEmpty(std::chrono::seconds(5))) {
      for (const Connection& connection : connections()) connection->Abort();
      WaitUntilEmpty(std::chrono::seconds(5));
    }
  }
  handler_pool_.join();
  io_.stop();
  threads_.clear();
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() { Shutdown(std::chrono::milliseconds(0)); }

Result<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpServerOptions& options,
                                                      HttpHandler handler) {
  auto impl = std::make_unique<Impl>(options, std::move(handler));
  HF_RETURN_IF_ERROR(impl->Open());
  impl->Start();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

uint16_t HttpServer::port() const { return impl_->port(); }
int HttpServer::listening_socket() const { return impl_->listening_socket(); }
int HttpServer::n_connections() const { return impl_->n_connections(); }
void HttpServer::Shutdown(std::chrono::milliseconds grace) { impl_->Shutdown(grace); }

}  // namespace holdfast

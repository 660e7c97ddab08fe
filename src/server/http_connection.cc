#include "server/http_connection.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <exception>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/thread_activity.h"
#include "server/http_stream.h"
#include "server/http_target.h"
#include "server/request_id.h"

namespace holdfast {
namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

namespace {

constexpr size_t kWriteStep = 64 << 10;
constexpr size_t kPassStep = 256 << 10;

// Every operation reports by error code; nothing throws.
auto Await(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

asio::ip::address AddressOf(const tcp::socket& socket) {
  error_code error;
  const tcp::endpoint remote = socket.remote_endpoint(error);
  return error ? asio::ip::address() : remote.address();
}

HttpReply CallHandler(const HttpHandler& handler, const HttpRequest& request) {
  thread_local ThreadActivity activity("http-handler");
  activity.Set("reading a request");
  try {
    HttpReply reply = handler(request);
    activity.Set("idle");
    return reply;
  } catch (const std::exception& error) {  // a library's; ours are values
    spdlog::error("{} {} {}: {}", request.id, request.method, request.path, error.what());
    return ErrorResponseFor(request, {.status = InternalError("the request could not be handled")});
  }
}

}  // namespace

class HttpConnection::Impl : public std::enable_shared_from_this<HttpConnection::Impl> {
 public:
  Impl(tcp::socket socket, const HttpShared* shared)
      : stream_(std::move(socket), shared->tls.get()),
        deadline_timer_(stream_.get_executor()),
        wake_timer_(stream_.get_executor()),
        buffer_(static_cast<size_t>(shared->options.limits.max_header_bytes) + kWriteStep),
        shared_(*shared),
        limits_(shared->options.limits) {
    error_code error;
    const tcp::endpoint remote = stream_.socket().remote_endpoint(error);
    if (!error) {
      remote_ = fmt::format("{}:{}", remote.address().to_string(), remote.port());
    }
    stream_.socket().set_option(tcp::no_delay(true), error);
  }

  asio::any_io_executor executor() { return stream_.get_executor(); }

  asio::awaitable<void> Serve();
  asio::awaitable<void> Refuse(ApiError why);

  void CloseWhenIdle() {
    closing_ = true;
    if (!busy_) Cancel();
  }

  void CancelResponse(Status why) {
    if (running_ != nullptr) {
      running_->Cancel(std::move(why));
      Wake();
    } else {
      cancel_next_ = std::move(why);
    }
  }

  void Abort() {
    aborted_ = true;
    error_code ignored;
    stream_.socket().close(ignored);
    WakeNow();
  }

 private:
  struct ReadOutcome {
    bool ok = false;
    std::optional<ApiError> error;  // to be told to the client before closing
  };
  using Parser = http::request_parser<http::string_body>;

  asio::awaitable<bool> Handshake();
  asio::awaitable<bool> WaitForRequest();
  asio::awaitable<bool> ServeOne();
  asio::awaitable<ReadOutcome> ReadHead(Parser& parser);
  asio::awaitable<ReadOutcome> ReadBody(Parser& parser);
  asio::awaitable<ReadOutcome> HoldBody(Parser& parser);
  asio::awaitable<ReadOutcome> PassBody(Parser& head);
  // Runs `function` where it may wait, and comes back to the strand with what it returns.
  template <typename Function>
  asio::awaitable<std::invoke_result_t<Function>> OnHandlerThread(Function function) {
    using Value = std::invoke_result_t<Function>;
    const auto run = [](Function f) -> asio::awaitable<Value> { co_return f(); };
    return asio::co_spawn(shared_.handler_pool->get_executor(), run(std::move(function)),
                          asio::use_awaitable);
  }
  asio::awaitable<bool> RunSource(std::unique_ptr<ResponseSource> source);
  asio::awaitable<bool> WriteWhole(const HttpResponse& response);
  asio::awaitable<bool> WriteHead(const HttpResponse& head);
  asio::awaitable<bool> WriteStreamBytes(std::string_view bytes);
  asio::awaitable<bool> WriteStreamEnd();
  template <typename Buffers>
  asio::awaitable<bool> WriteBuffers(const Buffers& buffers);
  asio::awaitable<void> RefuseAndClose(ApiError error);
  asio::awaitable<void> DrainAndClose();
  asio::awaitable<void> EndTls();

  template <typename Message>
  void SetHeaders(const HttpResponse& response, Message* message) const;
  ReadOutcome OutcomeOf(const error_code& error, const char* part) const;
  void WatchForDisconnect();
  void WatchTlsForDisconnect();
  asio::awaitable<void> EndWatch();
  void LogAccess() const;

  void Cancel() {
    error_code ignored;
    stream_.socket().cancel(ignored);
  }

  // Cancels the socket's operations when they take longer than `bound`.
  void Arm(Clock::duration bound) {
    timed_out_ = false;
    const uint64_t armed = ++armed_;
    deadline_timer_.expires_after(bound);
    deadline_timer_.async_wait([self = weak_from_this(), armed](const error_code& error) {
      const auto impl = self.lock();
      if (error || impl == nullptr || impl->armed_ != armed) return;
      impl->timed_out_ = true;
      impl->Cancel();
    });
  }
  void Disarm() {
    ++armed_;
    deadline_timer_.cancel();
  }

  // Any thread.
  void Wake() {
    if (wake_posted_.exchange(true)) return;
    asio::post(executor(), [self = shared_from_this()] {
      self->wake_posted_ = false;
      self->WakeNow();
    });
  }
  void WakeNow() {
    woken_ = true;
    wake_timer_.cancel();
  }

  HttpStream stream_;
  asio::steady_timer deadline_timer_, wake_timer_;
  boost::beast::flat_buffer buffer_;
  const HttpShared& shared_;
  const HttpLimits& limits_;
  std::string remote_ = "?";

  std::atomic<bool> wake_posted_ = false;
  // All below belong to the strand.
  uint64_t armed_ = 0;
  bool timed_out_ = false, woken_ = false, disconnected_ = false, aborted_ = false;
  bool closing_ = false, busy_ = false;
  bool watching_ = false;  // a byte of the client's is waited for during a response
  char watched_byte_ = 0;
  ResponseSource* running_ = nullptr;
  Status cancel_next_;  // a cancellation that came while the handler ran

  // The request being served.
  HttpRequest request_;
  unsigned version_ = 11;
  bool keep_alive_ = false;
  int status_ = 0;
  int64_t bytes_written_ = 0;
  Clock::time_point started_;
};

asio::awaitable<void> HttpConnection::Impl::Serve() {
  bool more = co_await Handshake();
  while (more && !closing_) {
    more = co_await WaitForRequest();
    if (!more) break;
    busy_ = true;
    more = co_await ServeOne();
    busy_ = false;
  }
  co_await EndTls();
  error_code ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
  stream_.socket().close(ignored);
}

asio::awaitable<bool> HttpConnection::Impl::Handshake() {
  if (!stream_.has_tls()) co_return true;
  error_code error;
  Arm(limits_.header);
  co_await stream_.tls().async_handshake(asio::ssl::stream_base::server, Await(error));
  Disarm();
  co_return !error;
}

// Tells the client that this is the end and not an attack. It need not answer.
asio::awaitable<void> HttpConnection::Impl::EndTls() {
  if (!stream_.has_tls() || !stream_.socket().is_open()) co_return;
  error_code error;
  Arm(std::chrono::seconds(1));
  co_await stream_.tls().async_shutdown(Await(error));
  Disarm();
}

asio::awaitable<void> HttpConnection::Impl::Refuse(ApiError why) {
  // A client that speaks TLS would not understand; a handshake is what a refusal should not cost.
  if (!stream_.has_tls()) co_await RefuseAndClose(std::move(why));
}

asio::awaitable<bool> HttpConnection::Impl::WaitForRequest() {
  if (buffer_.size() > 0) co_return true;  // a pipelined one
  error_code error;
  Arm(limits_.idle);
  if (stream_.has_tls()) {
    // Bytes that are there may be no part of a request, and part of one may be there already.
    const auto space = buffer_.prepare(kWriteStep);
    const size_t n = co_await stream_.async_read_some(space, Await(error));
    buffer_.commit(n);
  } else {
    co_await stream_.socket().async_wait(tcp::socket::wait_read, Await(error));
  }
  Disarm();
  co_return !error;
}

HttpConnection::Impl::ReadOutcome HttpConnection::Impl::OutcomeOf(const error_code& error,
                                                                  const char* part) const {
  const auto refuse = [](int http_status, std::string message) {
    ApiError api_error{.status = InvalidArgumentError(std::move(message))};
    api_error.http_status = http_status;
    return ReadOutcome{.error = std::move(api_error)};
  };
  if (!error) return {.ok = true};
  if (timed_out_) return refuse(408, fmt::format("the {} did not arrive in time", part));
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return refuse(431, fmt::format("the header is larger than {} bytes", limits_.max_header_bytes));
  }
  if (error == http::error::body_limit) {
    return refuse(413, fmt::format("the body is larger than {} bytes", limits_.max_body_bytes));
  }
  const bool from_parser =
      error.category() == http::make_error_code(http::error::bad_value).category();
  if (from_parser && error != http::error::end_of_stream && error != http::error::partial_message) {
    return refuse(400, fmt::format("the {} is not valid HTTP: {}", part, error.message()));
  }
  return {};  // the client has gone
}

asio::awaitable<HttpConnection::Impl::ReadOutcome> HttpConnection::Impl::ReadHead(Parser& parser) {
  parser.header_limit(static_cast<uint32_t>(limits_.max_header_bytes));
  parser.body_limit(boost::none);  // known once it is known where the body goes
  error_code error;
  Arm(limits_.header);
  co_await http::async_read_header(stream_, buffer_, parser, Await(error));
  Disarm();
  ReadOutcome outcome = OutcomeOf(error, "header");
  if (!outcome.ok) co_return outcome;

  const auto& message = parser.get();
  version_ = message.version();
  keep_alive_ = message.keep_alive();
  request_.method = std::string(message.method_string());
  SplitTarget(std::string_view(message.target().data(), message.target().size()), &request_);
  for (const auto& field : message) {
    std::string name(field.name_string());
    std::transform(name.begin(), name.end(), name.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    request_.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  // Two Host headers would let one be checked and the other be meant.
  if (message.count(http::field::host) > 1) {
    ApiError twice;
    twice.status = InvalidArgumentError("there is more than one Host header");
    twice.param = "Host";
    outcome.ok = false;
    outcome.error = std::move(twice);
    co_return outcome;
  }
  if (shared_.options.check_head) {
    outcome.error = shared_.options.check_head(request_);
    outcome.ok = !outcome.error;
  }
  co_return outcome;
}

asio::awaitable<HttpConnection::Impl::ReadOutcome> HttpConnection::Impl::ReadBody(Parser& parser) {
  ReadOutcome outcome;
  if (!parser.is_done() && shared_.options.open_body) {
    const Status opened = co_await OnHandlerThread([this]() -> Status {
      HF_ASSIGN_OR_RETURN(request_.body_sink, shared_.options.open_body(request_));
      return OkStatus();
    });
    if (!opened.ok()) co_return ReadOutcome{.error = ApiError{.status = opened}};
  }
  const auto limit = static_cast<uint64_t>(limits_.max_body_bytes);
  if (!request_.body_sink && parser.content_length() && *parser.content_length() > limit) {
    co_return OutcomeOf(http::error::body_limit, "body");
  }
  if (!parser.is_done() && request_.header("expect") == "100-continue") {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    const bool sent = co_await WriteBuffers(asio::buffer(kContinue.data(), kContinue.size()));
    if (!sent) co_return outcome;
  }
  if (request_.body_sink) {
    outcome = co_await PassBody(parser);
  } else {
    parser.body_limit(limit);
    outcome = co_await HoldBody(parser);
  }
  co_return outcome;
}

asio::awaitable<HttpConnection::Impl::ReadOutcome> HttpConnection::Impl::HoldBody(Parser& parser) {
  ReadOutcome outcome;
  error_code error;
  const Clock::time_point end = Clock::now() + limits_.body;
  while (!parser.is_done()) {
    const Clock::duration left = std::max<Clock::duration>(end - Clock::now(), Clock::duration(1));
    Arm(std::min<Clock::duration>(left, limits_.body_step));
    co_await http::async_read_some(stream_, buffer_, parser, Await(error));
    Disarm();
    outcome = OutcomeOf(error, "body");
    if (!outcome.ok) co_return outcome;
  }
  request_.body = std::move(parser.get().body());
  outcome.ok = true;
  co_return outcome;
}

// To the request's sink, in pieces that are worth a change of threads.
asio::awaitable<HttpConnection::Impl::ReadOutcome> HttpConnection::Impl::PassBody(Parser& head) {
  http::request_parser<http::buffer_body> parser(std::move(head));
  parser.body_limit(boost::none);
  std::vector<char> piece(kPassStep);
  size_t n_filled = 0;
  ReadOutcome outcome;
  while (!parser.is_done()) {
    auto& body = parser.get().body();
    body.data = piece.data() + n_filled;
    body.size = piece.size() - n_filled;
    error_code error;
    Arm(limits_.body_step);
    co_await http::async_read_some(stream_, buffer_, parser, Await(error));
    Disarm();
    if (error == http::error::need_buffer) error = {};
    outcome = OutcomeOf(error, "body");
    if (!outcome.ok) co_return outcome;
    n_filled = piece.size() - body.size;
    if (n_filled < piece.size() && !parser.is_done()) continue;
    const Status taken =
        co_await OnHandlerThread([this, bytes = std::string_view(piece.data(), n_filled)] {
          return request_.body_sink->Write(bytes);
        });
    if (!taken.ok()) co_return ReadOutcome{.error = ApiError{.status = taken}};
    n_filled = 0;
  }
  outcome.ok = true;
  co_return outcome;
}

asio::awaitable<bool> HttpConnection::Impl::ServeOne() {
  request_ = HttpRequest();
  request_.id = MakeRequestId();
  request_.remote = remote_;
  started_ = Clock::now();
  status_ = 0;
  bytes_written_ = 0;
  disconnected_ = false;
  keep_alive_ = false;

  Parser parser;
  ReadOutcome read = co_await ReadHead(parser);
  if (read.ok) read = co_await ReadBody(parser);
  if (read.error) co_await RefuseAndClose(std::move(*read.error));
  if (!read.ok) co_return false;
  // What is left of the parser's copy is not needed while the model works.
  parser.get().clear();

  HttpReply reply =
      co_await OnHandlerThread([this] { return CallHandler(shared_.handler, request_); });
  request_.body = std::string();
  request_.body_sink = nullptr;
  bool alive = false;
  if (reply.source) {
    alive = co_await RunSource(std::move(reply.source));
  } else {
    alive = co_await WriteWhole(reply.response);
  }
  LogAccess();
  co_return alive&& keep_alive_;
}

// A client that closes its side while we work has lost interest. Nothing is consumed: bytes of a
// pipelined request stay where they are.
void HttpConnection::Impl::WatchForDisconnect() {
  if (stream_.has_tls()) return WatchTlsForDisconnect();
  const auto on_readable = [self = shared_from_this()](const error_code& error) {
    if (error || self->running_ == nullptr) return;
    char byte = 0;
    const ssize_t n =
        ::recv(self->stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n > 0) return;  // the next request; a later disconnect shows when we write
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return self->WatchForDisconnect();
    self->disconnected_ = true;
    self->WakeNow();
  };
  stream_.socket().async_wait(tcp::socket::wait_read, on_readable);
}

// Under TLS only a read tells the end of the stream from other records. A byte it gives belongs to
// the next request.
void HttpConnection::Impl::WatchTlsForDisconnect() {
  watching_ = true;
  const auto on_read = [self = shared_from_this()](const error_code& error, size_t n) {
    self->watching_ = false;
    if (n > 0) {
      self->buffer_.commit(
          asio::buffer_copy(self->buffer_.prepare(n), asio::buffer(&self->watched_byte_, n)));
    } else if (error != asio::error::operation_aborted) {
      self->disconnected_ = true;
    }
    self->WakeNow();
  };
  stream_.async_read_some(asio::buffer(&watched_byte_, 1), on_read);
}

// Nothing else may read before the watch has ended.
asio::awaitable<void> HttpConnection::Impl::EndWatch() {
  Cancel();
  while (watching_) {
    error_code error;
    wake_timer_.expires_after(std::chrono::seconds(1));
    co_await wake_timer_.async_wait(Await(error));
  }
}

asio::awaitable<bool> HttpConnection::Impl::RunSource(std::unique_ptr<ResponseSource> source) {
  bool alive = true, streaming = false, done = false;
  running_ = source.get();
  source->SetWaker([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Wake();
  });
  // Of silence on the wire: the source may wake us many times with nothing to send.
  Clock::time_point silent_since = Clock::now();
  if (!cancel_next_.ok()) source->Cancel(cancel_next_);
  WatchForDisconnect();
  while (alive && !done && !disconnected_ && !aborted_) {
    woken_ = false;
    const ResponsePart part = source->Take();
    if (part.head) {
      alive = co_await WriteHead(*part.head);
      streaming = true;
    }
    if (alive && !part.bytes.empty()) alive = co_await WriteStreamBytes(part.bytes);
    if (alive && part.whole) alive = co_await WriteWhole(*part.whole);
    done = part.done;
    if (part.broken) alive = false;
    const bool wrote = part.head || !part.bytes.empty();
    if (wrote) silent_since = Clock::now();
    if (!alive || done || !part.empty()) continue;

    if (Clock::now() - silent_since >= limits_.heartbeat) {
      silent_since = Clock::now();
      const std::string heartbeat = streaming ? source->Heartbeat() : std::string();
      if (!heartbeat.empty()) alive = co_await WriteStreamBytes(heartbeat);
      continue;
    }
    if (woken_) continue;
    error_code error;
    wake_timer_.expires_at(silent_since + limits_.heartbeat);
    co_await wake_timer_.async_wait(Await(error));
  }
  running_ = nullptr;
  source->SetWaker(nullptr);
  source.reset();  // cancels what is not done
  co_await EndWatch();
  if (alive && done && streaming) alive = co_await WriteStreamEnd();
  if (!done && status_ == 0) status_ = 499;
  co_return alive&& done;
}

template <typename Message>
void HttpConnection::Impl::SetHeaders(const HttpResponse& response, Message* message) const {
  message->version(version_);
  message->result(static_cast<unsigned>(response.status));
  message->reason(std::string(HttpReason(response.status)));
  message->set(http::field::server, "holdfast");
  message->set("X-Request-Id", request_.id);
  message->set("request-id", request_.id);  // Anthropic's name
  message->set(http::field::content_type, response.content_type);
  for (const auto& [name, value] : response.headers) message->set(name, value);
  if (!shared_.options.add_headers) return;
  for (const auto& [name, value] : shared_.options.add_headers(request_)) message->set(name, value);
}

template <typename Buffers>
asio::awaitable<bool> HttpConnection::Impl::WriteBuffers(const Buffers& buffers) {
  error_code error;
  Arm(limits_.write);
  bytes_written_ +=
      static_cast<int64_t>(co_await asio::async_write(stream_, buffers, Await(error)));
  Disarm();
  co_return !error;
}

asio::awaitable<bool> HttpConnection::Impl::WriteWhole(const HttpResponse& response) {
  status_ = response.status;
  if (closing_) keep_alive_ = false;
  http::response<http::empty_body> head;
  SetHeaders(response, &head);
  if (response.status != 304) head.content_length(response.body.size());
  head.keep_alive(keep_alive_);
  http::response_serializer<http::empty_body> serializer(head);
  serializer.split(true);
  error_code error;
  Arm(limits_.write);
  bytes_written_ +=
      static_cast<int64_t>(co_await http::async_write_header(stream_, serializer, Await(error)));
  Disarm();
  if (error) co_return false;
  if (request_.method == "HEAD") co_return true;
  std::string_view left = response.body;
  while (!left.empty()) {
    const std::string_view step = left.substr(0, kWriteStep);
    left.remove_prefix(step.size());
    const bool sent = co_await WriteBuffers(asio::buffer(step.data(), step.size()));
    if (!sent) co_return false;
  }
  co_return true;
}

asio::awaitable<bool> HttpConnection::Impl::WriteHead(const HttpResponse& response) {
  status_ = response.status;
  if (version_ < 11 || closing_) keep_alive_ = false;
  http::response<http::empty_body> head;
  SetHeaders(response, &head);
  if (version_ >= 11) head.chunked(true);
  head.keep_alive(keep_alive_);
  http::response_serializer<http::empty_body> serializer(head);
  error_code error;
  Arm(limits_.write);
  co_await http::async_write_header(stream_, serializer, Await(error));
  Disarm();
  co_return !error;
}

asio::awaitable<bool> HttpConnection::Impl::WriteStreamBytes(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view step = bytes.substr(0, kWriteStep);
    bytes.remove_prefix(step.size());
    const asio::const_buffer buffer(step.data(), step.size());
    bool sent = false;
    if (version_ >= 11) {
      sent = co_await WriteBuffers(http::make_chunk(buffer));
    } else {
      sent = co_await WriteBuffers(buffer);
    }
    if (!sent) co_return false;
  }
  co_return true;
}

asio::awaitable<bool> HttpConnection::Impl::WriteStreamEnd() {
  if (version_ < 11) co_return true;  // the end of the connection is the end
  const bool sent = co_await WriteBuffers(http::make_chunk_last());
  co_return sent;
}

asio::awaitable<void> HttpConnection::Impl::RefuseAndClose(ApiError error) {
  keep_alive_ = false;
  const HttpResponse response = ErrorResponseFor(request_, error);
  const bool sent = co_await WriteWhole(response);
  LogAccess();
  if (sent) co_await DrainAndClose();
}

// Closing with unread bytes in the socket would reset the connection, and the client might never
// see the error. So a little of the rest is read first.
asio::awaitable<void> HttpConnection::Impl::DrainAndClose() {
  co_await EndTls();
  error_code error;
  stream_.socket().shutdown(tcp::socket::shutdown_send, error);
  std::array<char, 16 << 10> scratch;
  Arm(std::chrono::seconds(2));
  for (int i = 0; i < 256 && !error; ++i) {
    co_await stream_.socket().async_read_some(asio::buffer(scratch), Await(error));
  }
  Disarm();
  stream_.socket().close(error);
}

void HttpConnection::Impl::LogAccess() const {
  const std::chrono::duration<double, std::milli> ms = Clock::now() - started_;
  spdlog::info("{} {} {} {} {} {}B {:.1f}ms", request_.id, request_.remote,
               request_.method.empty() ? "-" : request_.method,
               request_.path.empty() ? "-" : LogText(request_.path), status_, bytes_written_,
               ms.count());
}

HttpConnection::HttpConnection(tcp::socket socket, const HttpShared* shared,
                               std::function<void(const std::shared_ptr<HttpConnection>&)> on_close)
    : address_(AddressOf(socket)),
      impl_(std::make_shared<Impl>(std::move(socket), shared)),
      on_close_(std::move(on_close)) {}

HttpConnection::~HttpConnection() = default;

void HttpConnection::Run() {
  asio::co_spawn(impl_->executor(), impl_->Serve(),
                 [self = shared_from_this()](std::exception_ptr) { self->on_close_(self); });
}

void HttpConnection::RunRefused(ApiError why) {
  asio::co_spawn(impl_->executor(), impl_->Refuse(std::move(why)),
                 [self = shared_from_this()](std::exception_ptr) { self->on_close_(self); });
}

void HttpConnection::CloseWhenIdle() {
  asio::post(impl_->executor(), [impl = impl_] { impl->CloseWhenIdle(); });
}

void HttpConnection::CancelResponse(Status why) {
  asio::post(impl_->executor(), [impl = impl_, why] { impl->CancelResponse(why); });
}

void HttpConnection::Abort() {
  asio::post(impl_->executor(), [impl = impl_] { impl->Abort(); });
}

}  // namespace holdfast

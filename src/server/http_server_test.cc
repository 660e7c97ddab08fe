#include "server/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>

namespace holdfast {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A client of plain system calls, so that nothing of the server's library tests itself.
class RawClient {
 public:
  explicit RawClient(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~RawClient() { Close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  int fd() const { return fd_; }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  bool Send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      text.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  // Reads until `done` holds of everything read so far, the server closes, or `bound` passes.
  std::string ReadUntil(const std::function<bool(const std::string&)>& done,
                        milliseconds bound = milliseconds(5000)) {
    const auto end = std::chrono::steady_clock::now() + bound;
    while (!done(text_)) {
      const auto left =
          std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now());
      pollfd poll_fd{fd_, POLLIN, 0};
      if (left.count() <= 0 || ::poll(&poll_fd, 1, static_cast<int>(left.count())) <= 0) break;
      char buffer[65536];
      const ssize_t n = ::recv(fd_, buffer, sizeof(buffer), 0);
      if (n <= 0) {
        closed_ = true;
        break;
      }
      text_.append(buffer, static_cast<size_t>(n));
    }
    return text_;
  }
  std::string ReadAll(milliseconds bound = milliseconds(5000)) {
    return ReadUntil([](const std::string&) { return false; }, bound);
  }
  bool closed() const { return closed_; }

 private:
  int fd_;
  bool connected_ = false, closed_ = false;
  std::string text_;
};

// A stream that a test feeds by hand.
class ManualSource : public ResponseSource {
 public:
  struct Shared {
    std::mutex mutex;
    std::string bytes;  // guarded by mutex, as all below
    bool done = false, broken = false, head_taken = false, destroyed = false;
    Status cancelled;
    std::function<void()> wake;

    void Feed(std::string text, bool end = false, bool broken_off = false) {
      std::function<void()> call;
      {
        std::lock_guard lock(mutex);
        bytes += text;
        done |= end;
        broken |= broken_off;
        call = wake;
      }
      if (call) call();
    }
    bool WaitDestroyed(milliseconds bound = milliseconds(5000)) {
      for (int64_t i = 0; i < bound.count(); ++i) {
        {
          std::lock_guard lock(mutex);
          if (destroyed) return true;
        }
        std::this_thread::sleep_for(milliseconds(1));
      }
      return false;
    }
  };

  ManualSource(std::shared_ptr<Shared> shared, bool stream)
      : shared_(std::move(shared)), stream_(stream) {}
  ~ManualSource() override {
    std::lock_guard lock(shared_->mutex);
    shared_->destroyed = true;
  }
  void SetWaker(std::function<void()> wake) override {
    std::lock_guard lock(shared_->mutex);
    shared_->wake = std::move(wake);
  }
  ResponsePart Take() override {
    std::lock_guard lock(shared_->mutex);
    ResponsePart part;
    if (stream_) {
      if (!std::exchange(shared_->head_taken, true)) {
        part.head = HttpResponse{.content_type = "text/event-stream"};
      }
      part.bytes = std::exchange(shared_->bytes, {});
    } else if (shared_->done) {
      part.whole = HttpResponse{.body = shared_->bytes};
    }
    part.done = shared_->done && !shared_->broken;
    part.broken = shared_->broken;
    return part;
  }
  std::string Heartbeat() override { return ": heartbeat\n\n"; }
  void Cancel(Status why) override {
    std::lock_guard lock(shared_->mutex);
    shared_->cancelled = why;
    shared_->bytes += "cancelled: " + why.message();
    shared_->done = true;
  }

 private:
  const std::shared_ptr<Shared> shared_;
  const bool stream_;
};

class HttpServerTest : public ::testing::Test {
 protected:
  void StartServer(HttpServerOptions options = {}) {
    options.port = 0;
    auto server = HttpServer::Start(options, [this](const HttpRequest& request) -> HttpReply {
      ++n_requests_;
      if (request.path == "/stream" || request.path == "/slow") {
        return HttpReply(
            std::make_unique<ManualSource>(shared_, /*stream=*/request.path == "/stream"));
      }
      if (request.path == "/throw") throw std::runtime_error("secret");
      HttpResponse response;
      response.content_type = "text/plain";
      response.body =
          request.method + " " + request.path + " " + request.query + " " + request.body;
      if (request.path == "/big") response.body = std::string(20'000'000, 'x');
      return response;
    });
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(*server);
  }
  static std::string Get(const std::string& path) {
    return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  }
  static int CountOf(const std::string& text, const std::string& what) {
    int n = 0;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++n;
    return n;
  }
  // The whole answer to one request on its own connection.
  std::string Ask(const std::string& request) {
    RawClient client(server_->port());
    client.Send(request);
    return client.ReadAll(milliseconds(3000));
  }

  std::shared_ptr<ManualSource::Shared> shared_ = std::make_shared<ManualSource::Shared>();
  std::atomic<int> n_requests_ = 0;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, ServesRequestsOneAfterAnotherAndPipelined) {
  StartServer();
  RawClient client(server_->port());
  const auto has_answers = [](int n) {
    return [n](const std::string& text) { return CountOf(text, " HTTP-end") == n; };
  };
  client.Send("GET /a%20b?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  std::string text = client.ReadUntil([](const std::string& t) { return t.ends_with("x=1 "); });
  EXPECT_THAT(text, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(text, HasSubstr("GET /a b x=1"));
  EXPECT_THAT(text, HasSubstr("X-Request-Id: req-"));
  client.Send(
      "POST /p HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n HTTP-end"
      "POST /p HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "4\r\n HTT\r\n5\r\nP-end\r\n0\r\n\r\n");
  text = client.ReadUntil(has_answers(2));
  EXPECT_EQ(CountOf(text, "HTTP/1.1 200 OK"), 3);
  EXPECT_EQ(CountOf(text, " HTTP-end"), 2);
  EXPECT_FALSE(client.closed());
}

TEST_F(HttpServerTest, HeadHasNoBodyAndHttp10Closes) {
  StartServer();
  RawClient client(server_->port());
  client.Send("HEAD /x HTTP/1.0\r\n\r\n");
  const std::string text = client.ReadAll();
  EXPECT_TRUE(client.closed());
  EXPECT_THAT(text, HasSubstr("Content-Length: "));
  EXPECT_TRUE(text.ends_with("\r\n\r\n"));
}

TEST_F(HttpServerTest, WhatIsNotHttpGetsA400) {
  StartServer();
  for (const std::string& request :
       {std::string("hello\r\n\r\n"), std::string("GET\r\n\r\n"),
        std::string("GET / HTTP/9.9\r\n\r\n"), std::string("GET / HTTP/1.1\r\nBad Header\r\n\r\n"),
        std::string("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"),
        std::string("POST / HTTP/1.1\r\nContent-Length: 1x\r\n\r\n"),
        std::string("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
        std::string("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
        std::string(
            "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        std::string("GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"),
        std::string("\0\0\0\0\r\n\r\n", 8),
        std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03")}) {
    const std::string text = Ask(request);
    EXPECT_THAT(text, StartsWith("HTTP/1.1 400 Bad Request")) << request;
    EXPECT_THAT(text, HasSubstr("invalid_request_error"));
  }
  EXPECT_EQ(n_requests_, 0);
}

TEST_F(HttpServerTest, HeadersAndBodiesAreLimited) {
  HttpServerOptions options;
  options.limits.max_header_bytes = 4096;
  options.limits.max_body_bytes = 1000;
  StartServer(options);
  const std::string head = "POST / HTTP/1.1\r\nHost: localhost\r\n";
  EXPECT_THAT(Ask(head + "X: " + std::string(10000, 'x') + "\r\n\r\n"),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(Ask("GET /" + std::string(10000, 'x') + " HTTP/1.1\r\n\r\n"),
              StartsWith("HTTP/1.1 431 "));
  std::string many = head;
  for (int i = 0; i < 2000; ++i) many += "A: b\r\n";
  EXPECT_THAT(Ask(many + "\r\n"), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(Ask(head + "Content-Length: 1001\r\n\r\n" + std::string(1001, 'x')),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(Ask(head + "Content-Length: 99999999999999\r\n\r\n"), StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(Ask(head + "Transfer-Encoding: chunked\r\n\r\n7d0\r\n" + std::string(2000, 'x') +
                  "\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_EQ(n_requests_, 0);
  EXPECT_THAT(
      Ask(head + "Connection: close\r\nContent-Length: 1000\r\n\r\n" + std::string(1000, 'x')),
      StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, TheHeadIsCheckedBeforeTheBodyIsRead) {
  HttpServerOptions options;
  options.check_head = [](const HttpRequest& head) -> std::optional<ApiError> {
    if (head.header("x-key") == "good") return std::nullopt;
    return ApiError{.status = PermissionDeniedError("no"), .http_status = 401};
  };
  StartServer(options);
  // The body never comes, and the answer does not wait for it.
  RawClient client(server_->port());
  client.Send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n");
  EXPECT_THAT(client.ReadUntil([](const std::string& t) { return t.find("error") != t.npos; }),
              StartsWith("HTTP/1.1 401 Unauthorized"));
  EXPECT_EQ(n_requests_, 0);
  EXPECT_THAT(Ask("GET / HTTP/1.1\r\nHost: x\r\nX-Key: good\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, ExpectContinueIsAnswered) {
  StartServer();
  RawClient client(server_->port());
  client.Send(
      "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_THAT(client.ReadUntil([](const std::string& t) { return t.ends_with("\r\n\r\n"); }),
              StartsWith("HTTP/1.1 100 Continue\r\n\r\n"));
  client.Send("ab");
  EXPECT_THAT(client.ReadUntil([](const std::string& t) { return t.ends_with(" ab"); }),
              HasSubstr("HTTP/1.1 200 OK"));
}

TEST_F(HttpServerTest, SlowSendersAreCutOff) {
  HttpServerOptions options;
  options.limits.idle = options.limits.header = options.limits.body_step = milliseconds(150);
  StartServer(options);
  RawClient idle(server_->port()), half_head(server_->port()), half_body(server_->port());
  half_head.Send("GET / HT");
  half_body.Send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nab");
  EXPECT_EQ(idle.ReadAll(), "");
  EXPECT_TRUE(idle.closed());
  EXPECT_THAT(half_head.ReadAll(), StartsWith("HTTP/1.1 408 "));
  EXPECT_THAT(half_body.ReadAll(), StartsWith("HTTP/1.1 408 "));
  EXPECT_EQ(n_requests_, 0);
}

TEST_F(HttpServerTest, StreamsInChunksWithHeartbeats) {
  HttpServerOptions options;
  options.limits.heartbeat = milliseconds(50);
  StartServer(options);
  RawClient client(server_->port());
  client.Send(Get("/stream"));
  std::string text =
      client.ReadUntil([](const std::string& t) { return t.find("heartbeat") != t.npos; });
  EXPECT_THAT(text, HasSubstr("Transfer-Encoding: chunked"));
  shared_->Feed("data: one\n\n");
  text = client.ReadUntil([](const std::string& t) { return t.find("one") != t.npos; });
  EXPECT_THAT(text, HasSubstr("\r\nb\r\ndata: one\n\n\r\n"));
  shared_->Feed("data: two\n\n", /*end=*/true);
  text = client.ReadUntil([](const std::string& t) { return t.ends_with("0\r\n\r\n"); });
  EXPECT_THAT(text, HasSubstr("data: two"));
  // The connection goes on.
  client.Send(Get("/after"));
  EXPECT_THAT(client.ReadUntil([](const std::string& t) { return t.find("/after") != t.npos; }),
              HasSubstr("GET /after"));
}

TEST_F(HttpServerTest, AStreamThatBreaksIsSeenToBeIncomplete) {
  StartServer();
  RawClient client(server_->port());
  client.Send(Get("/stream"));
  shared_->Feed("all there is", /*end=*/true, /*broken_off=*/true);
  const std::string text = client.ReadAll();
  EXPECT_TRUE(client.closed());
  EXPECT_THAT(text, HasSubstr("all there is"));
  EXPECT_FALSE(text.ends_with("0\r\n\r\n"));
}

// Takes up to 5,000,000 bytes.
class CountingSink : public BodySink {
 public:
  Status Write(std::string_view bytes) override {
    text += bytes;
    if (text.size() > 5'000'000) return ResourceExhaustedError("the disk is full");
    return OkStatus();
  }
  std::string text;
};

TEST_F(HttpServerTest, ABodyWithASinkGoesThereWithoutALimitAndOthersAreHeld) {
  HttpServerOptions options;
  options.limits.max_body_bytes = 1000;
  std::shared_ptr<CountingSink> sink;
  options.open_body = [&](const HttpRequest& head) -> Result<std::shared_ptr<BodySink>> {
    if (head.path == "/refused") return FailedPreconditionError("not now");
    if (head.path != "/sink") return std::shared_ptr<BodySink>();
    sink = std::make_shared<CountingSink>();
    return std::shared_ptr<BodySink>(sink);
  };
  StartServer(options);
  const auto post = [](const std::string& path, const std::string& body) {
    return "POST " + path +
           " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
  };
  std::string body;
  for (int i = 0; i < 200'000; ++i) body += std::to_string(i);
  RawClient client(server_->port());
  client.Send(post("/sink", body));
  client.Send(
      "POST /sink HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\nfirst\r\n6\r\n, last\r\n0\r\n\r\n" +
      post("/held", "small"));
  const std::string text =
      client.ReadUntil([](const std::string& t) { return t.ends_with("small"); });
  EXPECT_EQ(CountOf(text, "HTTP/1.1 200 OK"), 3);
  EXPECT_EQ(CountOf(text, body.substr(0, 50)), 0) << "the body was held as well";
  EXPECT_EQ(sink->text, "first, last");

  EXPECT_THAT(Ask(post("/held", std::string(1001, 'x'))), StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(Ask(post("/refused", "x")), StartsWith("HTTP/1.1 409"));
  EXPECT_THAT(Ask("POST /refused HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                  "Content-Length: 4000000000\r\n\r\n"),
              StartsWith("HTTP/1.1 409"));
  EXPECT_THAT(Ask(post("/sink", body)), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(sink->text, body);
  // The sink's own error answers the request; the rest of the body is not waited for.
  EXPECT_THAT(Ask(post("/sink", std::string(5'100'000, 'x'))), HasSubstr("the disk is full"));
}

TEST_F(HttpServerTest, ADisconnectEndsTheWorkBehindARequest) {
  StartServer();
  for (const char* path : {"/stream", "/slow"}) {
    shared_ = std::make_shared<ManualSource::Shared>();
    const int before = n_requests_;
    RawClient client(server_->port());
    client.Send(Get(path));
    for (int i = 0; i < 5000 && n_requests_ == before; ++i) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    std::this_thread::sleep_for(milliseconds(20));
    client.Close();
    EXPECT_TRUE(shared_->WaitDestroyed()) << path;
  }
}

TEST_F(HttpServerTest, AReaderThatStopsIsCutOffAndOthersDoNotNotice) {
  HttpServerOptions options;
  options.limits.write = milliseconds(200);
  StartServer(options);
  RawClient stuck(server_->port());
  const int small = 4096;
  ::setsockopt(stuck.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
  stuck.Send(Get("/big"));
  RawClient stuck_stream(server_->port());
  stuck_stream.Send(Get("/stream"));
  shared_->Feed(std::string(20'000'000, 'x'));
  EXPECT_THAT(Ask("GET /fine HTTP/1.0\r\n\r\n"), HasSubstr("GET /fine"));
  EXPECT_TRUE(shared_->WaitDestroyed());
  for (int i = 0; i < 5000 && server_->n_connections() > 0; ++i) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(server_->n_connections(), 0);
}

TEST_F(HttpServerTest, AThrowingHandlerIsA500WithoutItsText) {
  StartServer();
  const std::string text = Ask("GET /throw HTTP/1.0\r\n\r\n");
  EXPECT_THAT(text, StartsWith("HTTP/1.0 500 "));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("secret")));
}

TEST_F(HttpServerTest, MoreConnectionsThanAllowedGetA503) {
  HttpServerOptions options;
  options.limits.max_connections = 3;
  StartServer(options);
  std::vector<std::unique_ptr<RawClient>> open;
  for (int i = 0; i < 3; ++i) {
    open.push_back(std::make_unique<RawClient>(server_->port()));
    open.back()->Send(Get("/x"));
    open.back()->ReadUntil([](const std::string& t) { return t.find("GET /x") != t.npos; });
  }
  EXPECT_THAT(Ask(""), StartsWith("HTTP/1.1 503 "));
  open.clear();
  for (int i = 0; i < 5000 && server_->n_connections() > 0; ++i) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_THAT(Ask("GET /y HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.0 200 "));
}

TEST_F(HttpServerTest, MoreConnectionsOfOneAddressThanAllowedGetA429) {
  HttpServerOptions options;
  options.limits.max_connections_per_address = 2;
  options.add_headers = [](const HttpRequest& request) {
    return std::vector<std::pair<std::string, std::string>>{{"X-Extra", "of " + request.path}};
  };
  StartServer(options);
  {
    RawClient first(server_->port()), second(server_->port());
    for (RawClient* client : {&first, &second}) {
      client->Send(Get("/x"));
      EXPECT_THAT(client->ReadUntil([](const std::string& t) { return t.ends_with("/x  "); }),
                  HasSubstr("X-Extra: of /x\r\n"));
    }
    EXPECT_THAT(Ask(Get("/x")), StartsWith("HTTP/1.1 429 "));
  }
  // Once they have gone there is room again.
  for (int i = 0; i < 2000 && server_->n_connections() > 0; ++i) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  RawClient third(server_->port());
  third.Send(Get("/y"));
  EXPECT_THAT(third.ReadUntil([](const std::string& t) { return t.ends_with("/y  "); }),
              StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, FourHundredIdleConnectionsDoNotDisturb) {
  StartServer();
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 400; ++i) {
    idle.push_back(std::make_unique<RawClient>(server_->port()));
    ASSERT_TRUE(idle.back()->connected());
    idle.back()->Send("GET / HT");
  }
  EXPECT_THAT(Ask("GET /fine HTTP/1.0\r\n\r\n"), HasSubstr("GET /fine"));
}

TEST_F(HttpServerTest, ShutdownLetsARunningReplyFinish) {
  StartServer();
  RawClient client(server_->port()), idle(server_->port());
  client.Send(Get("/stream"));
  client.ReadUntil([](const std::string& t) { return t.find("chunked") != t.npos; });
  std::jthread feeder([this] {
    std::this_thread::sleep_for(milliseconds(100));
    shared_->Feed("the end", true);
  });
  server_->Shutdown(milliseconds(5000));
  const std::string text = client.ReadAll();
  EXPECT_THAT(text, HasSubstr("the end"));
  EXPECT_TRUE(text.ends_with("0\r\n\r\n"));
  idle.ReadAll();
  EXPECT_TRUE(idle.closed());
  EXPECT_FALSE(RawClient(server_->port()).connected());
}

TEST_F(HttpServerTest, ShutdownCancelsAfterTheGraceAndSaysSo) {
  StartServer();
  RawClient client(server_->port());
  client.Send(Get("/stream"));
  client.ReadUntil([](const std::string& t) { return t.find("chunked") != t.npos; });
  server_->Shutdown(milliseconds(50));
  EXPECT_THAT(client.ReadAll(), HasSubstr("cancelled: the server is shutting down"));
}

TEST_F(HttpServerTest, APortInUseIsSaidSo) {
  StartServer();
  HttpServerOptions options;
  options.port = server_->port();
  const auto second = HttpServer::Start(options, [](const HttpRequest&) { return HttpReply(); });
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(second.status().message(), HasSubstr(std::to_string(options.port)));
  options.host = "no such host";
  EXPECT_FALSE(HttpServer::Start(options, [](const HttpRequest&) { return HttpReply(); }).ok());
}

}  // namespace
}  // namespace holdfast

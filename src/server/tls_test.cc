// HTTPS, by a client of OpenSSL's own calls.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/temp_folder.h"
#include "server/http_server.h"
#include "server/tls_context.h"

namespace holdfast {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A certificate signed with its own key, in two files.
struct SelfSigned {
  explicit SelfSigned(const std::string& name)
      : cert_path(folder.path() + "/" + name + ".crt"),
        key_path(folder.path() + "/" + name + ".key") {
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* cert = X509_new();
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), 0);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(cert));
    X509_sign(cert, key, EVP_sha256());
    std::FILE* file = std::fopen(cert_path.c_str(), "w");
    PEM_write_X509(file, cert);
    std::fclose(file);
    file = std::fopen(key_path.c_str(), "w");
    PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
    X509_free(cert);
    EVP_PKEY_free(key);
  }

  const TempFolder folder = TempFolder::Create("tls_test").value();
  const std::string cert_path, key_path;
};

int Connect(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  timeval bound{.tv_sec = 5, .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof(bound));
  return fd;
}

class TlsClient {
 public:
  explicit TlsClient(uint16_t port, int max_version = 0)
      : fd_(Connect(port)), context_(SSL_CTX_new(TLS_client_method())), ssl_(SSL_new(context_)) {
    if (max_version != 0) {
      SSL_set_security_level(ssl_, 0);
      SSL_set_min_proto_version(ssl_, 0);
      SSL_set_max_proto_version(ssl_, max_version);
    }
    SSL_set_fd(ssl_, fd_);
    connected_ = SSL_connect(ssl_) == 1;
  }
  ~TlsClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
    ::close(fd_);
    ERR_clear_error();
  }

  bool connected() const { return connected_; }
  void Send(const std::string& text) {
    EXPECT_EQ(SSL_write(ssl_, text.data(), static_cast<int>(text.size())),
              static_cast<int>(text.size()));
  }
  std::string ReadUntil(const std::string& end) {
    std::string text;
    char buffer[65536];
    while (text.find(end) == std::string::npos) {
      const int n = SSL_read(ssl_, buffer, sizeof(buffer));
      if (n <= 0) break;
      text.append(buffer, static_cast<size_t>(n));
    }
    return text;
  }
  // As a browser ends: a closing record, then the connection.
  void Shutdown() {
    SSL_shutdown(ssl_);
    ::shutdown(fd_, SHUT_RDWR);
  }

 private:
  int fd_;
  SSL_CTX* context_;
  SSL* ssl_;
  bool connected_ = false;
};

// What a test and its streams share.
struct Streams {
  std::mutex mutex;
  std::function<void()> wake;  // guarded by mutex
  std::atomic<int> n_alive = 0;
  std::atomic<bool> end = false;

  void End() {
    end = true;
    const std::lock_guard lock(mutex);
    if (wake) wake();
  }
};

// Sends its head and then nothing until it is told to end.
class SilentSource : public ResponseSource {
 public:
  explicit SilentSource(Streams* streams) : streams_(*streams) { ++streams_.n_alive; }
  ~SilentSource() override { --streams_.n_alive; }
  void SetWaker(std::function<void()> wake) override {
    const std::lock_guard lock(streams_.mutex);
    streams_.wake = std::move(wake);
  }
  ResponsePart Take() override {
    ResponsePart part;
    if (!std::exchange(begun_, true)) part.head = HttpResponse{.content_type = "text/event-stream"};
    part.done = streams_.end;
    return part;
  }
  void Cancel(Status) override { streams_.end = true; }

 private:
  Streams& streams_;
  bool begun_ = false;
};

class TlsTest : public ::testing::Test {
 protected:
  void StartServer(HttpLimits limits = {}) {
    HttpServerOptions options;
    options.port = 0;
    options.limits = limits;
    options.tls_cert = files_.cert_path;
    options.tls_key = files_.key_path;
    auto server = HttpServer::Start(options, [this](const HttpRequest& request) -> HttpReply {
      if (request.path == "/stream") return HttpReply(std::make_unique<SilentSource>(&streams_));
      HttpResponse response;
      response.body = request.path == "/big" ? std::string(3'000'000, 'x') : "";
      response.body += request.body + "|" + request.path + "|END";
      return response;
    });
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(*server);
  }
  bool WaitForAlive(int n) {
    for (int i = 0; i < 5000 && streams_.n_alive != n; ++i) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    return streams_.n_alive == n;
  }
  static std::string Get(const std::string& path) {
    return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  }

  const SelfSigned files_{"tls_test"};
  Streams streams_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(TlsTest, ServesSmallAndLargeAndPipelinedRequests) {
  StartServer();
  TlsClient client(server_->port());
  ASSERT_TRUE(client.connected());
  client.Send(Get("/a"));
  EXPECT_THAT(client.ReadUntil("END"), HasSubstr("|/a|END"));
  client.Send(Get("/big"));
  EXPECT_GT(client.ReadUntil("END").size(), 3'000'000u);
  const std::string body(200'000, 'y');
  client.Send("POST /post HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n" + body);
  EXPECT_THAT(client.ReadUntil("END"), HasSubstr("yyy|/post|END"));
  client.Send(Get("/b") + Get("/c"));
  EXPECT_THAT(client.ReadUntil("/c|END"), HasSubstr("|/b|END"));
}

TEST_F(TlsTest, ADisconnectEndsTheWorkBehindARequest) {
  StartServer();
  for (const bool politely : {true, false}) {
    TlsClient client(server_->port());
    client.Send(Get("/stream"));
    EXPECT_THAT(client.ReadUntil("\r\n\r\n"), StartsWith("HTTP/1.1 200 OK"));
    EXPECT_TRUE(WaitForAlive(1));
    if (!politely) continue;  // the client's destructor just closes
    client.Shutdown();
    EXPECT_TRUE(WaitForAlive(0));
  }
  EXPECT_TRUE(WaitForAlive(0));
}

TEST_F(TlsTest, ARequestDuringAResponseIsTheNextOne) {
  StartServer();
  TlsClient client(server_->port());
  client.Send(Get("/stream"));
  client.ReadUntil("\r\n\r\n");
  client.Send(Get("/next"));
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(streams_.n_alive, 1);  // it is no disconnect
  streams_.End();
  EXPECT_THAT(client.ReadUntil("END"), HasSubstr("|/next|END"));
}

TEST_F(TlsTest, WhatIsNotTlsIsClosedAndOthersAreServed) {
  StartServer();
  const int fd = Connect(server_->port());
  const std::string plain = Get("/a");
  EXPECT_GT(::send(fd, plain.data(), plain.size(), MSG_NOSIGNAL), 0);
  std::string answer(1000, '\0');
  const ssize_t n = ::recv(fd, answer.data(), answer.size(), 0);
  EXPECT_EQ(answer.substr(0, static_cast<size_t>(std::max<ssize_t>(n, 0))).find("/a|"),
            std::string::npos);
  ::close(fd);
  TlsClient old(server_->port(), TLS1_1_VERSION);
  EXPECT_FALSE(old.connected());
  TlsClient client(server_->port());
  client.Send(Get("/a"));
  EXPECT_THAT(client.ReadUntil("END"), HasSubstr("|/a|END"));
}

TEST_F(TlsTest, AHandshakeThatDoesNotComeIsNotWaitedFor) {
  HttpLimits limits;
  limits.header = milliseconds(100);
  StartServer(limits);
  const int fd = Connect(server_->port());
  char byte = 0;
  EXPECT_LE(::recv(fd, &byte, 1, 0), 0);
  ::close(fd);
  for (int i = 0; i < 2000 && server_->n_connections() > 0; ++i) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(server_->n_connections(), 0);
}

TEST_F(TlsTest, FilesThatAreNoGoodAreNamed) {
  const SelfSigned other("tls_test_other");
  const auto message = [](const std::string& cert, const std::string& key) {
    const auto context = LoadTlsContext(cert, key);
    EXPECT_FALSE(context.ok());
    return context.ok() ? std::string() : context.status().message();
  };
  EXPECT_THAT(message("/nonexistent.crt", files_.key_path), HasSubstr("/nonexistent.crt"));
  EXPECT_THAT(message(files_.cert_path, "/nonexistent.key"), HasSubstr("/nonexistent.key"));
  EXPECT_THAT(message(files_.key_path, files_.key_path), HasSubstr("--tls-cert"));
  EXPECT_THAT(message(files_.cert_path, other.key_path), HasSubstr("tls_test_other.key"));
  HttpServerOptions options;
  options.port = 0;
  options.tls_cert = files_.cert_path;
  EXPECT_FALSE(HttpServer::Start(options, [](const HttpRequest&) { return HttpReply(); }).ok());
}

}  // namespace
}  // namespace holdfast

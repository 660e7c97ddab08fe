#include "cli/server_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "base/temp_folder.h"
#include "server/http_server.h"

namespace holdfast::cli {
namespace {

using ::testing::HasSubstr;

class ServerClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HttpServerOptions options;
    options.port = 0;
    auto server = HttpServer::Start(options, [this](const HttpRequest& request) -> HttpReply {
      last_ = request;
      HttpResponse response;
      if (request.path == "/missing") {
        return OpenAiErrorResponse({.status = NotFoundError("there is no such thing")});
      }
      if (request.path == "/text") response.body = "no JSON";
      if (request.path == "/file") response.body = std::string(3'000'000, 'f');
      if (request.path == "/json") response.body = R"({"a": 1})";
      if (request.path == "/conflict") {
        response.status = 409;
        response.body = "plain";
      }
      return response;
    });
    ASSERT_TRUE(server.ok());
    server_ = std::move(*server);
  }
  ServerClient Client(std::string key = "") {
    return *ServerClient::Create("http://127.0.0.1:" + std::to_string(server_->port()), key);
  }
  std::string File(const std::string& name) { return dir_.path() + "/" + name; }

  const TempFolder dir_ = TempFolder::Create("client").value();
  HttpRequest last_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(ServerClientTest, SendsMethodBodyAndKeyAndGivesTheJson) {
  const auto json = Client("secret").Call("DELETE", "/json", "body");
  ASSERT_TRUE(json.ok()) << json.status().ToString();
  EXPECT_EQ((*json)["a"], 1);
  EXPECT_EQ(last_.method, "DELETE");
  EXPECT_EQ(last_.body, "body");
  EXPECT_EQ(last_.header("authorization"), "Bearer secret");
  ASSERT_TRUE(Client().Call("GET", "/json").ok());
  EXPECT_EQ(last_.header("authorization"), "");
}

TEST_F(ServerClientTest, RefusalsKeepTheServersWordsAndTheirKind) {
  const auto missing = Client().Call("GET", "/missing");
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.status().message(), "there is no such thing");
  const auto conflict = Client().Call("GET", "/conflict");
  EXPECT_EQ(conflict.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(conflict.status().message(), HasSubstr("409"));
  EXPECT_EQ(Client().Call("GET", "/text").status().code(), StatusCode::kInvalidArgument);
}

TEST_F(ServerClientTest, FilesAreWrittenWholeOrNotAtAllAndSentAsTheyAre) {
  const ServerClient client = Client();
  ASSERT_TRUE(client.Download("/file", File("got")).ok());
  EXPECT_EQ(std::filesystem::file_size(File("got")), 3'000'000u);
  EXPECT_EQ(client.Download("/missing", File("none")).code(), StatusCode::kNotFound);
  EXPECT_FALSE(client.Download("/file", File("no/such/folder")).ok());
  ASSERT_TRUE(client.Upload("/json", File("got")).ok());
  EXPECT_EQ(last_.body, std::string(3'000'000, 'f'));
  EXPECT_EQ(client.Upload("/json", File("none")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_.path()), {}), 1);
}

TEST_F(ServerClientTest, NobodyThereIsUnavailable) {
  const ServerClient client = Client();
  server_.reset();
  const auto answer = client.Call("GET", "/json");
  EXPECT_EQ(answer.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(answer.status().message(), HasSubstr("no server answers"));
}

TEST(ServerUrlTest, OnlyHostsAndPortsOverPlainHttp) {
  for (const char* good : {"http://localhost", "http://127.0.0.1:8080/", "http://[::1]:80"}) {
    EXPECT_TRUE(ServerClient::Create(good, "").ok()) << good;
  }
  for (const char* bad :
       {"", "localhost", "https://localhost", "http://", "http://:80", "http://a/b", "http://a:x",
        "http://a:", "http://[::1", "http://a:123456"}) {
    EXPECT_EQ(ServerClient::Create(bad, "").status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace holdfast::cli

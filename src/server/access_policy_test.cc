#include "server/access_policy.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

int StatusOf(const AccessPolicy& policy, std::vector<std::pair<std::string, std::string>> headers,
             std::string path = "/v1/models") {
  HttpRequest head;
  head.method = "GET";
  head.path = std::move(path);
  head.headers = std::move(headers);
  const std::optional<ApiError> error = policy.Check(head);
  return error ? HttpStatusOf(*error) : 200;
}

TEST(AccessPolicyTest, OtherAddressesNeedAKeyOrInsecure) {
  EXPECT_TRUE(AccessPolicy::Validate({}).ok());
  EXPECT_TRUE(AccessPolicy::Validate({.host = "localhost"}).ok());
  EXPECT_TRUE(AccessPolicy::Validate({.host = "::1"}).ok());
  for (const char* host :
       {"0.0.0.0", "::", "192.168.1.5", "example.com", "127.0.0.1.example.com"}) {
    EXPECT_EQ(AccessPolicy::Validate({.host = host}).code(), StatusCode::kPermissionDenied) << host;
    EXPECT_TRUE(AccessPolicy::Validate({.host = host, .insecure = true}).ok());
    EXPECT_TRUE(AccessPolicy::Validate({.host = host, .api_keys = {"k"}}).ok());
  }
  EXPECT_FALSE(AccessPolicy::Validate({.host = "0.0.0.0", .api_keys = {""}}).ok());
}

TEST(AccessPolicyTest, OnLoopbackHostAndOriginMustNameThisMachine) {
  const AccessPolicy policy({});
  for (const char* host : {"localhost", "localhost:8080", "LOCALHOST:1", "127.0.0.1:8080",
                           "127.1.2.3", "[::1]:8080", "[::1]", "app.localhost:80"}) {
    EXPECT_EQ(StatusOf(policy, {{"host", host}}), 200) << host;
    EXPECT_EQ(StatusOf(policy, {{"host", host}, {"origin", "http://" + std::string(host)}}), 200);
  }
  EXPECT_EQ(StatusOf(policy, {}), 200);  // HTTP/1.0 tools
  for (const char* host : {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8080",
                           "[::2]", "192.168.0.1", "127.evil", "[::1"}) {
    EXPECT_EQ(StatusOf(policy, {{"host", host}}), 403) << host;
  }
  for (const char* origin :
       {"http://evil.example", "null", "https://127.0.0.1.evil.example", "localhost", "file://"}) {
    EXPECT_EQ(StatusOf(policy, {{"host", "localhost"}, {"origin", origin}}), 403) << origin;
  }
}

TEST(AccessPolicyTest, WithKeysOneMustBeGiven) {
  const AccessPolicy policy({.host = "0.0.0.0", .api_keys = {"first", "second"}});
  EXPECT_EQ(StatusOf(policy, {}), 401);
  EXPECT_EQ(StatusOf(policy, {{"authorization", "Bearer first"}}), 200);
  EXPECT_EQ(StatusOf(policy, {{"authorization", "bearer second"}}), 200);
  EXPECT_EQ(StatusOf(policy, {{"x-api-key", "second"}}), 200);
  for (const char* wrong : {"firs", "firstt", "FIRST", "", " first", "first "}) {
    EXPECT_EQ(StatusOf(policy, {{"x-api-key", wrong}}), 401) << wrong;
    EXPECT_EQ(StatusOf(policy, {{"authorization", "Bearer " + std::string(wrong)}}), 401) << wrong;
  }
  EXPECT_EQ(StatusOf(policy, {{"authorization", "Basic first"}}), 401);
  EXPECT_EQ(StatusOf(policy, {}, "/health"), 200);
  // A page on another host cannot know the key, so names do not matter here.
  EXPECT_EQ(StatusOf(policy, {{"host", "server.lan"}, {"x-api-key", "first"}}), 200);
}

}  // namespace
}  // namespace holdfast

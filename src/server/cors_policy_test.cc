#include "server/cors_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/access_policy.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kPage[] = "https://chat.example";

HttpRequest Head(const std::string& method, CorsPolicy::Headers headers) {
  HttpRequest request;
  request.method = method;
  request.path = "/v1/models";
  request.headers = std::move(headers);
  return request;
}

std::string ValueOf(const CorsPolicy::Headers& headers, const std::string& name) {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

TEST(CorsPolicyTest, NothingIsSaidToOriginsThatAreNotNamed) {
  const CorsPolicy none({}), one({kPage});
  for (const char* origin :
       {"", "https://evil.example", "https://chat.example.evil.example", "http://chat.example",
        "https://chat.example:8443", "null", "HTTPS://CHAT.EXAMPLE"}) {
    EXPECT_THAT(one.ResponseHeaders(Head("GET", {{"origin", origin}})), IsEmpty()) << origin;
    EXPECT_FALSE(one.IsPreflight(
        Head("OPTIONS", {{"origin", origin}, {"access-control-request-method", "POST"}})));
  }
  EXPECT_THAT(none.ResponseHeaders(Head("GET", {{"origin", kPage}})), IsEmpty());
}

TEST(CorsPolicyTest, ANamedOriginMayAskAndRead) {
  const CorsPolicy policy({"http://localhost:3000", kPage});
  const CorsPolicy::Headers headers = policy.ResponseHeaders(Head("GET", {{"origin", kPage}}));
  EXPECT_EQ(ValueOf(headers, "Access-Control-Allow-Origin"), kPage);
  EXPECT_EQ(ValueOf(headers, "Vary"), "Origin");
  EXPECT_EQ(ValueOf(headers, "Access-Control-Allow-Credentials"), "");
  const HttpRequest ask =
      Head("OPTIONS", {{"origin", kPage},
                       {"access-control-request-method", "POST"},
                       {"access-control-request-headers", "authorization,x-stainless-lang"}});
  ASSERT_TRUE(policy.IsPreflight(ask));
  const HttpResponse answer = policy.Preflight(ask);
  EXPECT_EQ(answer.status, 204);
  EXPECT_EQ(ValueOf(answer.headers, "Access-Control-Allow-Headers"),
            "authorization,x-stainless-lang");
  EXPECT_THAT(ValueOf(answer.headers, "Access-Control-Allow-Methods"), HasSubstr("POST"));
  // An OPTIONS that asks nothing is an ordinary request.
  EXPECT_FALSE(policy.IsPreflight(Head("OPTIONS", {{"origin", kPage}})));
}

TEST(CorsPolicyTest, WhatCannotBeAListOfHeadersIsNotRepeated) {
  const CorsPolicy policy({kPage});
  for (const std::string& list : {std::string("a\r\nSet-Cookie: x"), std::string("a;b"),
                                  std::string("*"), std::string(5000, 'a')}) {
    const HttpResponse answer =
        policy.Preflight(Head("OPTIONS", {{"origin", kPage},
                                          {"access-control-request-method", "POST"},
                                          {"access-control-request-headers", list}}));
    EXPECT_EQ(ValueOf(answer.headers, "Access-Control-Allow-Headers"), "");
  }
}

TEST(CorsPolicyTest, OriginsMustBeExact) {
  EXPECT_TRUE(CorsPolicy::Validate({kPage, "http://localhost:3000", "app://obsidian.md"}).ok());
  for (const char* wrong : {"*", "", "chat.example", "https://", "https://*.example",
                            "https://chat.example/", "https://user@chat.example", "://x"}) {
    const Status status = CorsPolicy::Validate({wrong});
    EXPECT_FALSE(status.ok()) << wrong;
    EXPECT_THAT(status.message(), HasSubstr("--cors-origin"));
  }
}

TEST(CorsPolicyTest, ANamedOriginPassesTheOriginCheckAndNothingElse) {
  const AccessPolicy open({.host = "127.0.0.1", .cors_origins = {kPage}});
  EXPECT_FALSE(open.Check(Head("GET", {{"host", "localhost:8080"}, {"origin", kPage}})));
  EXPECT_TRUE(open.Check(Head("GET", {{"host", "localhost"}, {"origin", "https://evil.example"}})));
  EXPECT_TRUE(open.Check(Head("GET", {{"host", "evil.example"}, {"origin", kPage}})));
  const AccessPolicy locked({.api_keys = {"secret"}, .cors_origins = {kPage}});
  EXPECT_TRUE(locked.Check(Head("GET", {{"origin", kPage}})));
}

}  // namespace
}  // namespace holdfast

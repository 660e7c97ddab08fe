#include "server/web_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <utility>

#include "server/access_policy.h"
#include "server/api.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

HttpRequest Get(const std::string& path, std::string if_none_match = "") {
  HttpRequest request{.method = "GET", .path = path};
  if (!if_none_match.empty()) request.headers.emplace_back("if-none-match", if_none_match);
  return request;
}

std::string HeaderOf(const HttpResponse& response, const std::string& name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return "";
}

TEST(WebPageTest, ThePageIsThereWhileTheModelIsLoading) {
  ModelState loading;
  const HttpHandler handler = MakeApi(&loading);
  const HttpResponse page = handler(Get("/")).response;
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.content_type, "text/html; charset=utf-8");
  EXPECT_THAT(page.body, HasSubstr("<title>holdfast</title>"));
  EXPECT_EQ(handler(Get("/ui/app.js")).response.content_type, "text/javascript; charset=utf-8");
  EXPECT_EQ(handler(Get("/ui/icon.svg")).response.content_type, "image/svg+xml");
  EXPECT_EQ(handler({.method = "POST", .path = "/"}).response.status, 405);
  for (const char* path : {"/ui/", "/ui/nothing.js", "/ui/../web/app.js", "/index.html"}) {
    EXPECT_EQ(handler(Get(path)).response.status, 404) << path;
  }
}

TEST(WebPageTest, EverythingThatThePageNamesIsThere) {
  int n_names = 0;
  for (const WebFile& file : WebFiles()) {
    if (!file.name.ends_with(".html") && !file.name.ends_with(".js")) continue;
    const std::string text(file.bytes);
    const std::regex name(file.name.ends_with(".html") ? "(?:src|href)=\"ui/([^\"]+)\""
                                                       : "from '(\\.{1,2}/[^']+)'");
    for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) {
      std::string path = (*it)[1];
      std::string folder(file.name.substr(0, file.name.rfind('/') + 1));
      if (file.name.find('/') == std::string_view::npos) folder.clear();
      if (path.starts_with("./")) path = folder + path.substr(2);
      if (path.starts_with("../")) path = path.substr(3);  // folders are one deep
      EXPECT_TRUE(IsWebPagePath("/ui/" + path)) << file.name << " names " << path;
      ++n_names;
    }
  }
  EXPECT_GT(n_names, 20);
}

TEST(WebPageTest, AnUnchangedFileIsNotSentAgain) {
  const HttpResponse first = *WebPage(Get("/ui/app.js"));
  const std::string etag = HeaderOf(first, "ETag");
  ASSERT_FALSE(etag.empty());
  EXPECT_EQ(HeaderOf(first, "Cache-Control"), "no-cache");
  for (const std::string& tag : {etag, "W/" + etag, "\"other\", " + etag, std::string("*")}) {
    const HttpResponse again = *WebPage(Get("/ui/app.js", tag));
    EXPECT_EQ(again.status, 304) << tag;
    EXPECT_EQ(again.body, "");
    EXPECT_EQ(HeaderOf(again, "ETag"), etag);
  }
  EXPECT_EQ(WebPage(Get("/ui/app.js", "\"other\""))->status, 200);
  EXPECT_NE(HeaderOf(*WebPage(Get("/")), "ETag"), etag);
}

TEST(WebPageTest, NothingFromElsewhereRunsInThePageOrShowsIt) {
  for (const WebFile& file : WebFiles()) {
    const std::string path = file.name == "index.html" ? "/" : "/ui/" + std::string(file.name);
    const std::string policy = HeaderOf(*WebPage(Get(path)), "Content-Security-Policy");
    EXPECT_THAT(policy, HasSubstr("default-src 'none'; script-src 'self'; style-src 'self';"));
    EXPECT_THAT(policy, HasSubstr("frame-ancestors 'none'"));
    EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
    EXPECT_EQ(HeaderOf(*WebPage(Get(path)), "X-Content-Type-Options"), "nosniff");
    // Text of a model must never become markup or code.
    for (const char* bad : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",
                            "eval(", "new Function", "srcdoc"}) {
      EXPECT_THAT(std::string(file.bytes), Not(HasSubstr(bad))) << file.name;
    }
  }
}

TEST(WebPageTest, NoKeyIsNeededForThePageOnly) {
  const AccessPolicy policy({.host = "0.0.0.0", .api_keys = {"secret"}});
  EXPECT_FALSE(policy.Check(Get("/")).has_value());
  EXPECT_FALSE(policy.Check(Get("/ui/app.js")).has_value());
  EXPECT_TRUE(policy.Check(Get("/ui/nothing")).has_value());
  EXPECT_TRUE(policy.Check(Get("/v1/status")).has_value());
  EXPECT_TRUE(policy.Check(Get("/slots")).has_value());
  // Without keys the page is no exception: it is for this machine only.
  const AccessPolicy local({.host = "127.0.0.1"});
  HttpRequest rebound = Get("/");
  rebound.headers.emplace_back("host", "evil.example");
  EXPECT_TRUE(local.Check(rebound).has_value());
}

}  // namespace
}  // namespace holdfast

#ifndef HOLDFAST_SERVER_API_FIXTURE_H_
#define HOLDFAST_SERVER_API_FIXTURE_H_

// For tests of the APIs: requests to all routes, without sockets, answered by a FakeGenerator.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/api.h"
#include "server/collect_reply.h"
#include "server/fake_generator.h"
#include "server/json.h"
#include "server/reply_memory.h"

namespace holdfast {

struct NamedEvent {
  std::string name;  // of the `event:` line
  Json data;
};

// The events of a stream whose events are named; comments are left out.
inline std::vector<NamedEvent> NamedEvents(const HttpResponse& response) {
  EXPECT_TRUE(response.content_type.starts_with("text/event-stream")) << response.body;
  std::vector<NamedEvent> events;
  for (size_t begin = 0; begin < response.body.size();) {
    const size_t end = response.body.find("\n\n", begin);
    EXPECT_NE(end, std::string::npos) << "an event without an end";
    if (end == std::string::npos) break;
    const std::string event = response.body.substr(begin, end - begin);
    begin = end + 2;
    if (event.starts_with(':')) continue;
    const size_t line = event.find("\ndata: ");
    EXPECT_TRUE(event.starts_with("event: ") && line != std::string::npos) << event;
    if (line == std::string::npos) continue;
    events.push_back({event.substr(7, line - 7), Json::parse(event.substr(line + 7))});
    EXPECT_EQ(events.back().data["type"], events.back().name);
  }
  return events;
}

class ApiFixture : public ::testing::Test {
 protected:
  ApiFixture() : handler_(MakeApi(&state_)) { state_.Set(fake_.service); }

  HttpReply Send(const std::string& method, const std::string& path, std::string body = "") {
    HttpRequest request;
    request.id = "req-test";
    request.method = method;
    request.path = path;
    request.body = std::move(body);
    return handler_(request);
  }
  HttpResponse Call(const std::string& method, const std::string& path, std::string body = "") {
    return Collect(Send(method, path, std::move(body)));
  }
  HttpResponse Post(const std::string& path, const Json& body) {
    return Call("POST", path, ToText(body));
  }
  Json PostJson(const std::string& path, const Json& body) {
    const HttpResponse response = Post(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::parse(response.body);
  }
  // With exact replay of what was generated.
  void RememberReplies() {
    auto service = std::make_shared<ModelService>(*fake_.service);
    service->replies = std::make_shared<ReplyMemory>();
    state_.Set(service);
  }
  std::string PromptText() {
    return fake_.tokenizer().Decode(fake_.generator.last_request().prompt, true);
  }
  std::string PrefixText(int64_t n_tokens) {
    const std::vector<TokenId> prompt = fake_.generator.last_request().prompt;
    return fake_.tokenizer().Decode(std::span(prompt).first(static_cast<size_t>(n_tokens)), true);
  }

  FakeService fake_;
  ModelState state_;
  HttpHandler handler_;
};

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_API_FIXTURE_H_

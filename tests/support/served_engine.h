#ifndef HOLDFAST_TESTS_SUPPORT_SERVED_ENGINE_H_
#define HOLDFAST_TESTS_SUPPORT_SERVED_ENGINE_H_

// An engine behind all routes of the server, without sockets.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/api.h"
#include "server/collect_reply.h"
#include "server/json.h"
#include "server/model_service.h"
#include "server/reply_memory.h"
#include "server/slot_names.h"
#include "tests/support/engine_client.h"

namespace holdfast {

class ServedEngine {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;  // names in lower case

  explicit ServedEngine(EngineOptions options) : engine_(StartEngine(std::move(options))) {
    auto service = std::make_shared<ModelService>();
    service->generator = engine_.get();
    service->engine = engine_.get();
    service->tokenizer = &engine_->tokenizer();
    service->chat_template = &engine_->chat_template();
    service->model_id = "demo";
    Persistence* const persistence = engine_->persistence();
    service->replies = std::make_shared<ReplyMemory>(persistence ? persistence->store() : nullptr);
    service->slots = std::make_shared<SlotNames>(engine_->plan().n_slots);
    state_.Set(service);
    handler_ = MakeApi(&state_);
  }

  Engine* engine() { return engine_.get(); }
  std::shared_ptr<const ModelService> service() const { return state_.service(); }

  // The whole response, a stream's events put together.
  HttpResponse Send(const std::string& method, const std::string& path,
                    const std::string& body = "", Headers headers = {}, std::string query = "") {
    HttpReply reply = handler_({.method = method,
                                .path = path,
                                .query = std::move(query),
                                .headers = std::move(headers),
                                .body = body});
    return Collect(std::move(reply));
  }

  // The status and parsed body of a whole response; text that is no JSON as a string.
  std::pair<int, Json> Call(const std::string& method, const std::string& path,
                            const std::string& body = "", std::string query = "") {
    const HttpResponse response = Send(method, path, body, {}, std::move(query));
    auto json = ParseJson(response.body);
    return {response.status, json.ok() ? *json : Json(response.body)};
  }

  // A chat completion that must be answered.
  Json Chat(const Json& body, Headers headers = {}) {
    const HttpResponse response =
        Send("POST", "/v1/chat/completions", ToText(body), std::move(headers));
    EXPECT_EQ(response.status, 200) << response.body;
    return *ParseJson(response.body);
  }

 private:
  std::unique_ptr<Engine> engine_;
  ModelState state_;
  HttpHandler handler_;
};

}  // namespace holdfast

#endif  // HOLDFAST_TESTS_SUPPORT_SERVED_ENGINE_H_

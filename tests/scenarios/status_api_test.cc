// What the Monitor of the page is told, over the route itself.

#include "server/status_api.h"

#include <gtest/gtest.h>

#include "base/temp_folder.h"
#include "server/api.h"
#include "server/json.h"
#include "server/openai_common.h"
#include "server/request_history.h"
#include "tests/support/engine_client.h"
#include "tests/support/random_tokens.h"

namespace holdfast {
namespace {

class StatusApiTest : public ::testing::Test {
 protected:
  StatusApiTest() {
    engine_ = StartEngine(
        {.ctx = 4096, .store_dir = dir_.path() + "/store", .autosave = Autosave::kTurn});
    service_ = std::make_shared<ModelService>();
    service_->generator = engine_.get();
    service_->engine = engine_.get();
    service_->tokenizer = &engine_->tokenizer();
    service_->chat_template = &engine_->chat_template();
    service_->model_id = "demo";
    service_->history = std::make_shared<RequestHistory>();
    service_->settings = {{"--ctx", "4096", "flag"}};
    state_.Set(service_);
    handler_ = MakeApi(&state_);
  }
  HttpResponse Call(const std::string& query = "") {
    return handler_({.method = "GET", .path = "/v1/status", .query = query}).response;
  }
  Json Status(const std::string& query = "") {
    const HttpResponse response = Call(query);
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::parse(response.body);
  }
  // As a Generation does at a reply's end.
  GenerateResult Finish(const std::vector<TokenId>& prompt) {
    GenerateResult result = Ask(engine_.get(), prompt, 4, {})->Wait();
    service_->history->Add(result);
    return result;
  }

  const TempFolder dir_ = TempFolder::Create("scenario").value();
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<ModelService> service_;
  ModelState state_;
  HttpHandler handler_;
};

TEST_F(StatusApiTest, WhatHasNotHappenedIsNullAndWhatHasIsCounted) {
  const Json before = Status();
  EXPECT_EQ(before["model"]["id"], "demo");
  EXPECT_EQ(before["plan"]["n_ctx"], 4096);
  EXPECT_EQ(before["settings"],
            Json::parse(R"([{"name":"--ctx","value":"4096","source":"flag"}])"));
  EXPECT_TRUE(before["steps"]["last_ms"].is_null());
  EXPECT_TRUE(before["requests"].empty());
  EXPECT_EQ(before["last_request"], 0);
  // The host is read for the answer: never more than there is.
  EXPECT_GT(before["host"]["available_bytes"], 0);
  EXPECT_LE(before["host"]["available_bytes"], before["host"]["total_bytes"]);

  const std::vector<TokenId> prompt = RandomTokens(71, 300);
  Finish(prompt);
  const Json after = Status();
  EXPECT_GT(after["steps"]["last_ms"], 0);
  EXPECT_GE(after["steps"]["n"], 4);
  EXPECT_EQ(after["state"]["n_parked"], 1);
  EXPECT_EQ(after["store"]["usage"]["n_conversations"], 1);
  EXPECT_GT(after["store"]["bytes_written"], 0);
  EXPECT_TRUE(after["slots"].empty());
}

TEST_F(StatusApiTest, ARequestIsToldWithItsReuseOnce) {
  std::vector<TokenId> prompt = RandomTokens(72, 300);
  const GenerateResult first = Finish(prompt);
  prompt.resize(200);  // an edit: nothing is kept between 0 and 300 but the ends
  for (TokenId id : RandomTokens(73, 50)) prompt.push_back(id);
  Finish(prompt);

  const Json all = Status()["requests"];
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]["number"], 1);
  EXPECT_EQ(all[0]["reuse"]["source"], "none");
  EXPECT_EQ(all[0]["reuse"]["limit"], "new");
  EXPECT_TRUE(all[0]["reuse"]["conversation"].is_null());
  EXPECT_EQ(all[0]["reuse"]["tokens_known"], 0);
  EXPECT_EQ(all[0]["prompt_tokens"], 300);
  EXPECT_EQ(all[0]["generated"], 4);
  EXPECT_EQ(all[0]["conversation"], first.conversation);
  // 200 tokens were known, and as no state is kept nearer they are read again.
  EXPECT_EQ(all[1]["reuse"]["tokens_known"], 200);
  EXPECT_EQ(all[1]["reuse"]["limit"], "no_checkpoint");
  EXPECT_EQ(all[1]["reuse"]["first_difference"], 200);

  EXPECT_EQ(Status("after=1")["requests"].size(), 1u);
  EXPECT_EQ(Status("x=3&after=2")["requests"].size(), 0u);
  EXPECT_EQ(Status("after=9007199254740991")["last_request"], 2);
  for (const char* query : {"after=", "after=-1", "after=x", "after=1x"}) {
    EXPECT_EQ(Call(query).status, 400) << query;
  }
}

TEST(RequestHistoryTest, OnlyTheLastRequestsAreKept) {
  RequestHistory history;
  for (size_t i = 0; i < RequestHistory::kMaxRequests + 10; ++i) history.Add({});
  const auto all = history.After(0);
  ASSERT_EQ(all.size(), RequestHistory::kMaxRequests);
  EXPECT_EQ(all.front().number, 11);
  EXPECT_EQ(all.back().number, history.last_number());
}

}  // namespace
}  // namespace holdfast

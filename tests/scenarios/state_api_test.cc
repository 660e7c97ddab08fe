// What a running server tells about its conversations, over the routes themselves.

#include "server/state_api.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "base/temp_folder.h"
#include "server/openai_chat.h"
#include "tests/support/random_tokens.h"
#include "tests/support/served_engine.h"

namespace holdfast {
namespace {

class StateApiTest : public ::testing::Test {
 protected:
  StateApiTest() {
    served_.emplace(EngineOptions{
        .ctx = 4096, .store_dir = dir_.path() + "/store", .autosave = Autosave::kTurn});
  }
  std::pair<int, Json> Call(const std::string& method, const std::string& path,
                            const std::string& body = "") {
    return served_->Call(method, path, body);
  }
  Engine* engine() { return served_->engine(); }

  const TempFolder dir_ = TempFolder::Create("scenario").value();
  std::optional<ServedEngine> served_;
};

TEST_F(StateApiTest, AConversationIsListedPinnedForkedAndDeleted) {
  auto reply = Ask(engine(), RandomTokens(61, 300), 5, {100, 296});
  const std::string id = reply->Wait().conversation;
  auto [status, list] = Call("GET", "/v1/conversations");
  ASSERT_EQ(status, 200);
  ASSERT_EQ(list["data"].size(), 1u);
  EXPECT_EQ(list["data"][0]["id"], id);
  EXPECT_EQ(list["data"][0]["n_tokens"], 304);
  EXPECT_EQ(list["data"][0]["durable_tokens"], 304);
  EXPECT_GE(list["data"][0]["checkpoints"].size(), 3u);
  EXPECT_GT(list["data"][0]["ram_bytes"], 0);
  EXPECT_EQ(list["data"][0]["shared_bytes"], 0);
  const std::chrono::duration<double, std::milli> now =
      std::chrono::system_clock::now().time_since_epoch();
  EXPECT_NEAR(list["data"][0]["used_ms"].get<double>(), now.count(), 600'000);

  EXPECT_EQ(Call("POST", "/v1/conversations/" + id + "/pin").first, 200);
  EXPECT_EQ(Call("GET", "/v1/conversations").second["data"][0]["pinned"], true);
  EXPECT_EQ(Call("POST", "/v1/conversations/" + id + "/fork", R"({"id":"copy"})").first, 200);
  EXPECT_EQ(Call("GET", "/v1/conversations").second["data"].size(), 2u);
  const Json shared = Call("GET", "/v1/conversations").second["data"];
  EXPECT_GT(shared[0]["shared_bytes"], 0);
  EXPECT_EQ(shared[0]["shared_bytes"], shared[1]["shared_bytes"]);
  EXPECT_EQ(Call("POST", "/v1/conversations/copy/fork", R"({"id":5})").first, 400);
  EXPECT_EQ(Call("POST", "/v1/conversations/" + id + "/dance").first, 404);

  EXPECT_EQ(Call("DELETE", "/v1/conversations/" + id).first, 200);
  EXPECT_EQ(Call("DELETE", "/v1/conversations/" + id).first, 404);
  const Json left = Call("GET", "/v1/conversations").second["data"];
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0]["id"], "copy");
}

TEST_F(StateApiTest, ExplainSaysWhatWouldBeReusedWithoutReadingAnything) {
  const std::string chat = R"({"messages":[{"role":"user","content":"My name is Marta."}]})";
  auto [status, before] = Call("POST", "/v1/cache/explain", chat);
  ASSERT_EQ(status, 200);
  EXPECT_EQ(before["reuse"]["source"], "none");
  ApiError error;
  auto prepared = PrepareOpenAiChat(*served_->service(), {.body = chat}, &error);
  ASSERT_TRUE(prepared);
  auto reply = std::make_shared<Reply>();
  ASSERT_TRUE(engine()->Submit(prepared->request, reply).ok());
  reply->Wait();
  const Json after = Call("POST", "/v1/cache/explain", chat).second;
  // All but the generation prompt, where the kept state ends.
  EXPECT_GT(after["reuse"]["tokens_reused"], 0);
  EXPECT_EQ(
      after["reuse"]["tokens_reused"].get<int64_t>() + after["reuse"]["tokens_read"].get<int64_t>(),
      after["prompt_tokens"].get<int64_t>());
  EXPECT_EQ(Call("POST", "/v1/cache/explain", "{}").first, 400);
  const auto [ok, pinned] =
      Call("POST", "/v1/cache/explain", R"({"messages":[{"role":"system","content":
      "x-anthropic-billing-header: cc_version=2.1; cch=fa690;\nBe brief."},{"role":"user","content":"Hi"}]})");
  ASSERT_EQ(ok, 200) << pinned;
  EXPECT_NE(pinned["reuse"]["reason"].get<std::string>().find("; the client's billing line"),
            std::string::npos)
      << pinned;
}

// Replies come back as messages; what the model generated is never tokenised again, also where it
// wrote marker tokens that a history's text cannot hold (this question makes the demo model call a
// tool it was not given).
TEST_F(StateApiTest, AHistoryGetsTheTokensThatWereGenerated) {
  Json messages = Json::array();
  int64_t durable = 0;
  for (const char* question : {"My name is Marta.", "Make a list of three colours.",
                               "Make a list of three colours.", "What is my name?"}) {
    messages.push_back({{"role", "user"}, {"content", question}});
    Json body;
    body["messages"] = messages;
    body["max_tokens"] = 60;
    const Json answer = served_->Chat(body);
    EXPECT_GE(answer["reuse"]["tokens_reused"].get<int64_t>(), durable) << answer["reuse"];
    durable = answer["usage"]["prompt_tokens"].get<int64_t>() +
              answer["usage"]["completion_tokens"].get<int64_t>() - 1;
    messages.push_back(answer["choices"][0]["message"]);
  }
}

TEST_F(StateApiTest, SlotsAndMetricsAnswer) {
  Ask(engine(), RandomTokens(62, 50), 5)->Wait();
  EXPECT_EQ(Call("GET", "/slots").second.size(), 4u);
  const auto [status, text] = Call("GET", "/metrics");
  EXPECT_EQ(status, 200);
  const std::string metrics = text.get<std::string>();
  EXPECT_NE(metrics.find("holdfast_requests_begun_total{source=\"none\"} 1"), std::string::npos);
  EXPECT_NE(metrics.find("holdfast_store_saves_total 1"), std::string::npos);
}

}  // namespace
}  // namespace holdfast

// Histories that clients bring back in another shape, also after a restart: only what is new is
// read.

#include <gtest/gtest.h>

#include <optional>

#include "base/temp_folder.h"
#include "server/reply_match.h"
#include "tests/support/served_engine.h"

namespace holdfast {
namespace {

const char kWeatherTool[] = R"([{"type":"function","function":{"name":"get_weather",
    "description":"Get the weather of a city","parameters":{"type":"object",
    "properties":{"city":{"type":"string"}},"required":["city"]}}}])";

class HistoryTest : public ::testing::Test {
 protected:
  HistoryTest() { Start(); }
  void Start() {
    served_.reset();
    served_.emplace(EngineOptions{
        .ctx = 4096, .store_dir = dir_.path() + "/store", .autosave = Autosave::kTurn});
  }

  // Asks with `messages_`, adds the reply to them, and returns the whole answer. All that was there
  // after the last turn must be reused.
  Json Turn(Json body = Json::object()) {
    body["messages"] = messages_;
    if (!body.contains("max_tokens")) body["max_tokens"] = 60;
    const Json answer = served_->Chat(body);
    EXPECT_GE(answer["reuse"]["tokens_reused"].get<int64_t>(), n_kept_) << answer["reuse"];
    n_kept_ = answer["usage"]["prompt_tokens"].get<int64_t>() +
              answer["usage"]["completion_tokens"].get<int64_t>() - 1;
    messages_.push_back(answer["choices"][0]["message"]);
    return answer;
  }
  void Say(const std::string& text) { messages_.push_back({{"role", "user"}, {"content", text}}); }
  Json& LastMessage() { return messages_.back(); }

  const TempFolder dir_ = TempFolder::Create("scenario").value();
  std::optional<ServedEngine> served_;
  Json messages_ = Json::array();
  int64_t n_kept_ = 0;
};

TEST_F(HistoryTest, TextThatWasTrimmedIsNotReadAgain) {
  for (int restarts = 0; restarts < 2; ++restarts) {
    messages_ = Json::array();
    n_kept_ = 0;
    Say("My name is Marta and I live in Porto.");
    Turn();
    Say("Tell me a short story about a fox.");
    Turn();
    if (restarts > 0) Start();
    for (Json& message : messages_) {
      if (message["role"] != "assistant") continue;
      message["content"] = "\n" + message["content"].get<std::string>() + " \r\n";
      message["refusal"] = nullptr;
    }
    Say("What is my name?");
    const Json answer = Turn();
    EXPECT_EQ(answer["reuse"]["source"], restarts > 0 ? "disk" : "live");
  }
}

TEST_F(HistoryTest, ThinkingThatTheClientLeavesOutIsNotReadAgain) {
  const Json thinking = {{"chat_template_kwargs", {{"enable_thinking", true}}},
                         {"max_tokens", 120}};
  Say("What is 13 plus 29?");
  const Json first = Turn(thinking);
  ASSERT_TRUE(first["choices"][0]["message"].contains("reasoning_content")) << first;
  Say("And 7 more?");
  Turn(thinking);
  Start();
  for (Json& message : messages_) message.erase("reasoning_content");
  Say("And 5 more?");
  const Json answer = Turn(thinking);
  EXPECT_EQ(answer["reuse"]["source"], "disk");
  // The thinking is kept where the client moves it into the text, too.
  const Json said = LastMessage();
  LastMessage().erase("reasoning_content");
  LastMessage()["content"] =
      "<think>" + TextOf(said, "reasoning_content") + "</think>" + TextOf(said, "content");
  Say("Thank you.");
  Turn(thinking);
}

TEST_F(HistoryTest, ToolCallsInAnotherSpellingAreNotReadAgain) {
  const Json tools = {{"tools", *ParseJson(kWeatherTool)}};
  Say("What is the weather in Oslo?");
  Turn(tools);
  ASSERT_EQ(LastMessage()["tool_calls"].size(), 1u) << LastMessage();
  Start();
  Json& call = LastMessage()["tool_calls"][0];
  const Json arguments = *ParseJson(call["function"]["arguments"].get<std::string>());
  call["function"]["arguments"] = arguments;  // as a value
  call["id"] = "renamed_1";
  messages_.push_back({{"role", "tool"},
                       {"tool_call_id", "renamed_1"},
                       {"content", R"({"temperature": 4, "condition": "cloudy"})"}});
  const Json answer = Turn(tools);
  EXPECT_EQ(answer["reuse"]["source"], "disk");
  EXPECT_NE(TextOf(LastMessage(), "content").find("cloudy"), std::string::npos) << LastMessage();
}

// What the model sees is what the client says, where that is not what was given.
TEST_F(HistoryTest, AnEditedReplyIsReadAsTheClientHasIt) {
  Say("My name is Marta.");
  Turn();
  Say("What is my name?");
  const Json before = messages_;
  Turn();
  messages_ = before;
  messages_[1]["content"] = "Hello Jonas, I will call you Jonas.";
  n_kept_ = 0;
  const Json edited = Turn();
  messages_.erase(messages_.size() - 1);
  n_kept_ = 0;
  served_.reset();
  served_.emplace(EngineOptions{.ctx = 4096});  // that knows nothing
  EXPECT_EQ(Turn()["choices"][0]["message"]["content"], edited["choices"][0]["message"]["content"]);
}

TEST_F(HistoryTest, TheStoreKnowsWhatWasSaid) {
  Say("My name is Marta.");
  const Json answer = Turn();
  Store* const store = served_->engine()->persistence()->store();
  const auto list = store->List();
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->size(), 1u);
  EXPECT_EQ((*list)[0].title, "My name is Marta.");
  const auto detail = store->Show((*list)[0].id);
  ASSERT_TRUE(detail.ok());
  ASSERT_EQ(detail->messages.size(), 2u);
  EXPECT_EQ(detail->messages[0].role, "user");
  const StoredMessage& reply = detail->messages[1];
  EXPECT_EQ(*ParseJson(reply.content), messages_[1]);
  EXPECT_EQ(reply.token_begin, answer["usage"]["prompt_tokens"]);
  const auto span = [&](const StoredMessage& m) {
    return served_->service()->tokenizer->Decode(
        std::span(detail->tokens).subspan(m.token_begin, m.token_end - m.token_begin), true);
  };
  EXPECT_EQ(span(detail->messages[0]), "user\nMy name is Marta.");  // the role is from there too
  EXPECT_EQ(span(reply), messages_[1]["content"]);
}

}  // namespace
}  // namespace holdfast

#include "server/anthropic_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api_fixture.h"

namespace holdfast {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kPath[] = "/v1/messages";
constexpr char kWeatherCall[] =
    "I will look.\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n"
    "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>";

class AnthropicApiTest : public ApiFixture {
 protected:
  static Json Hello() {
    return Json::parse(R"({"model":"claude-x","max_tokens":100,
      "messages":[{"role":"user","content":"Hi"}]})");
  }
  static Json With(Json body, const std::string& key, Json value) {
    body[key] = std::move(value);
    return body;
  }
  static Json Tools() {
    return Json::parse(R"([{"name":"get_weather","description":"Get the weather of a city",
      "input_schema":{"type":"object","properties":{"city":{"type":"string"},
      "days":{"type":"integer"}},"required":["city"]}}])");
  }
  Json Message(const Json& body) { return PostJson(kPath, body); }
  std::vector<NamedEvent> Stream(Json body) {
    body["stream"] = true;
    return NamedEvents(Post(kPath, body));
  }
  void ExpectError(const HttpResponse& response, int status, const std::string& type,
                   const std::string& words) {
    EXPECT_EQ(response.status, status) << response.body;
    const Json error = Json::parse(response.body);
    EXPECT_EQ(error["type"], "error");
    EXPECT_EQ(error["error"]["type"], type);
    EXPECT_THAT(error["error"]["message"].get<std::string>(), HasSubstr(words));
    EXPECT_EQ(error["request_id"], "req-test");
  }
};

// A stream put together again as the SDK does it.
Json Assemble(const std::vector<NamedEvent>& events) {
  Json message;
  std::vector<std::string> inputs;
  bool stopped = false;
  for (const auto& [name, data] : events) {
    EXPECT_FALSE(stopped) << name << " behind message_stop";
    if (name == "message_start") {
      EXPECT_TRUE(message.is_null());
      message = data["message"];
    } else if (name == "content_block_start") {
      EXPECT_EQ(data["index"], message["content"].size());
      message["content"].push_back(data["content_block"]);
      inputs.emplace_back();
    } else if (name == "content_block_delta") {
      Json& block = message["content"][data["index"].get<size_t>()];
      const Json& delta = data["delta"];
      if (delta["type"] == "input_json_delta") {
        inputs[data["index"].get<size_t>()] += delta["partial_json"].get<std::string>();
      } else if (delta["type"] == "signature_delta") {
        block["signature"] = delta["signature"];
      } else {
        const char* key = delta["type"] == "text_delta" ? "text" : "thinking";
        block[key] = block[key].get<std::string>() + delta[key].get<std::string>();
      }
    } else if (name == "content_block_stop") {
      const size_t index = data["index"].get<size_t>();
      Json& block = message["content"][index];
      if (block["type"] == "tool_use") block["input"] = Json::parse(inputs[index]);
    } else if (name == "message_delta") {
      message["stop_reason"] = data["delta"]["stop_reason"];
      message["stop_sequence"] = data["delta"]["stop_sequence"];
      message["usage"] = data["usage"];
    } else if (name == "message_stop") {
      stopped = true;
    }
  }
  EXPECT_TRUE(stopped);
  return message;
}

TEST_F(AnthropicApiTest, AnswersWithOneMessage) {
  fake_.generator.reuse.tokens_reused = 3;
  const Json reply = Message(Hello());
  EXPECT_EQ(reply["type"], "message");
  EXPECT_EQ(reply["role"], "assistant");
  EXPECT_EQ(reply["model"], "holdfast-demo");
  EXPECT_THAT(reply["id"].get<std::string>(), StartsWith("msg_"));
  EXPECT_EQ(reply["content"], Json::parse(R"([{"type":"text","text":"Hello there."}])"));
  EXPECT_EQ(reply["stop_reason"], "end_turn");
  EXPECT_TRUE(reply["stop_sequence"].is_null());
  const GenerateRequest request = fake_.generator.last_request();
  EXPECT_EQ(request.max_tokens, 100);
  const int64_t n_prompt = static_cast<int64_t>(request.prompt.size());
  EXPECT_EQ(reply["usage"]["cache_read_input_tokens"], 3);
  EXPECT_EQ(reply["usage"]["cache_creation_input_tokens"], 0);
  EXPECT_EQ(reply["usage"]["input_tokens"], n_prompt - 3);
  EXPECT_GT(reply["usage"]["output_tokens"], 2);
  EXPECT_EQ(PromptText(),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
}

TEST_F(AnthropicApiTest, StreamsTheSameMessage) {
  fake_.reply = "Grüße, 世界! 👋🏽 Zoë.";
  fake_.generator.reuse.tokens_reused = 2;
  const std::vector<NamedEvent> events = Stream(Hello());
  ASSERT_GE(events.size(), 6u);
  EXPECT_EQ(events[0].name, "message_start");
  EXPECT_EQ(events[0].data["message"]["usage"]["cache_read_input_tokens"], 2);
  EXPECT_EQ(events[0].data["message"]["content"], Json::array());
  EXPECT_EQ(events[1].name, "ping");
  EXPECT_EQ(events.back().name, "message_stop");
  Json streamed = Assemble(events), whole = Message(Hello());
  for (const char* key : {"content", "stop_reason", "stop_sequence", "usage", "role", "model"}) {
    EXPECT_EQ(streamed[key], whole[key]) << key;
  }
}

TEST_F(AnthropicApiTest, PingsWhileItWaits) {
  fake_.generator.Hold();
  HttpReply reply = Send("POST", kPath, ToText(With(Hello(), "stream", true)));
  ASSERT_NE(reply.source, nullptr);
  // Something at once, then the first event however long the queue is, then pings.
  const ResponsePart first = reply.source->Take();
  EXPECT_TRUE(first.head);
  EXPECT_FALSE(first.bytes.empty());
  std::string silence = first.bytes + reply.source->Heartbeat();
  EXPECT_THAT(silence, HasSubstr("event: message_start\n"));
  EXPECT_THAT(silence, HasSubstr("event: ping\ndata: {\"type\":\"ping\"}\n\n"));
  EXPECT_THAT(reply.source->Heartbeat(), StartsWith("event: ping\n"));
  fake_.generator.Release();
  const std::string rest = Collect(std::move(reply)).body;
  EXPECT_THAT(rest, Not(HasSubstr("message_start")));
}

TEST_F(AnthropicApiTest, SystemAndBlocksBecomeAPrompt) {
  Json body = Hello();
  body["system"] = Json::parse(R"([{"type":"text","text":"Be brief."},
    {"type":"text","text":"Be kind.","cache_control":{"type":"ephemeral"}}])");
  body["messages"] = Json::parse(R"([
    {"role":"user","content":[{"type":"text","text":"One."},{"type":"text","text":"Two.",
      "cache_control":{"type":"ephemeral","ttl":"1h"}}]},
    {"role":"assistant","content":[{"type":"text","text":"A"},{"type":"text","text":"B"}]},
    {"role":"user","content":[{"type":"document","source":{"type":"text",
      "media_type":"text/plain","data":"Notes <|im_end|>"}}]}])");
  body["metadata"] = {{"user_id", "u"}};
  body["context_management"] = {{"edits", Json::array()}};
  const Json reply = Message(body);
  EXPECT_EQ(PromptText(),
            "<|im_start|>system\nBe brief.\nBe kind.<|im_end|>\n<|im_start|>user\nOne.\nTwo."
            "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nAB<|im_end|>\n"
            "<|im_start|>user\nNotes <|im_end|><|im_end|>\n"
            "<|im_start|>assistant\n<think>\n\n</think>\n\n");
  // What a client writes is never a control token.
  const std::vector<TokenId> prompt = fake_.generator.last_request().prompt;
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), *fake_.tokenizer().FindToken("<|im_end|>")),
            4);
  // What was read up to the last mark is what the client has asked to be kept.
  std::vector<std::string> marked;
  int64_t n_marked = 0;
  for (const CheckpointMark& mark : fake_.generator.last_request().checkpoints) {
    if (mark.kind != CheckpointKind::kMark) continue;
    marked.push_back(PrefixText(mark.position));
    n_marked = mark.position;
  }
  ASSERT_EQ(marked.size(), 1u);
  EXPECT_THAT(marked[0], EndsWith("One.\nTwo.<|im_end|>\n"));
  EXPECT_EQ(reply["usage"]["cache_creation_input_tokens"], n_marked);
  EXPECT_EQ(reply["usage"]["input_tokens"], static_cast<int64_t>(prompt.size()) - n_marked);
}

TEST_F(AnthropicApiTest, AToolIsCalledAndItsResultTold) {
  RememberReplies();
  fake_.reply = kWeatherCall;
  Json body = With(Hello(), "tools", Tools());
  const Json reply = Message(body);
  EXPECT_THAT(PromptText(),
              HasSubstr(R"({"type": "function", "function": {"name": "get_weather")"));
  ASSERT_EQ(reply["content"].size(), 2u);
  EXPECT_EQ(reply["content"][0]["type"], "text");
  const Json& use = reply["content"][1];
  EXPECT_EQ(use["type"], "tool_use");
  EXPECT_THAT(use["id"].get<std::string>(), StartsWith("toolu_"));
  EXPECT_EQ(use["name"], "get_weather");
  EXPECT_EQ(use["input"], Json::parse(R"({"city":"Oslo","days":3})"));
  EXPECT_EQ(reply["stop_reason"], "tool_use");
  const Json streamed = Assemble(Stream(body));
  EXPECT_EQ(streamed["content"][1]["input"], use["input"]);
  EXPECT_EQ(streamed["stop_reason"], "tool_use");

  const std::vector<TokenId> first = fake_.generator.last_request().prompt;
  const std::vector<TokenId> generated = fake_.tokenizer().Encode(kWeatherCall, AddedTokens::kAll);
  body["messages"].push_back({{"role", "assistant"}, {"content", reply["content"]}});
  body["messages"].push_back(
      {{"role", "user"},
       {"content", Json::array({{{"type", "tool_result"},
                                 {"tool_use_id", use["id"]},
                                 {"content", Json::array({{{"type", "text"}, {"text", "cold"}}})}},
                                {{"type", "text"}, {"text", "And now?"}}})}});
  fake_.reply = "It is cold.";
  Message(body);
  EXPECT_THAT(PromptText(), HasSubstr("<|im_start|>user\n<tool_response>\ncold\n</tool_response>"
                                      "<|im_end|>\n<|im_start|>user\nAnd now?<|im_end|>"));
  // The prompt goes on with exactly the tokens that were generated.
  std::vector<TokenId> expected = first;
  expected.insert(expected.end(), generated.begin(), generated.end());
  const std::vector<TokenId> second = fake_.generator.last_request().prompt;
  ASSERT_GT(second.size(), expected.size());
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), second.begin()));
}

TEST_F(AnthropicApiTest, ReplaysTokensThatTheTokenizerWouldNotUse) {
  RememberReplies();
  // "Hello" spelled letter by letter.
  std::vector<TokenId> letters;
  for (const char letter : std::string("Hello")) {
    letters.push_back(fake_.tokenizer().Encode(std::string(1, letter), AddedTokens::kNone)[0]);
  }
  ASSERT_NE(fake_.tokenizer().Encode("Hello", AddedTokens::kNone), letters);
  fake_.generator.script = [&](const GenerateRequest&) { return letters; };
  Json body = Hello();
  const Json reply = Message(body);
  std::vector<TokenId> expected = fake_.generator.last_request().prompt;
  expected.insert(expected.end(), letters.begin(), letters.end());
  body["messages"].push_back({{"role", "assistant"}, {"content", reply["content"]}});
  body["messages"].push_back({{"role", "user"}, {"content", "Again"}});
  Message(body);
  const std::vector<TokenId> prompt = fake_.generator.last_request().prompt;
  ASSERT_GT(prompt.size(), expected.size());
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), prompt.begin()));
}

TEST_F(AnthropicApiTest, OneToolCallWhenParallelOnesAreOff) {
  fake_.reply = std::string(kWeatherCall) + "\n" + kWeatherCall;
  Json body = With(Hello(), "tools", Tools());
  EXPECT_EQ(Message(body)["content"].size(), 4u);
  body["tool_choice"] = {{"type", "auto"}, {"disable_parallel_tool_use", true}};
  const Json reply = Message(body);
  EXPECT_EQ(reply["content"].size(), 2u);
  EXPECT_EQ(reply["stop_reason"], "tool_use");
  body["tool_choice"] = {{"type", "none"}};
  Message(body);
  EXPECT_THAT(PromptText(), Not(HasSubstr("get_weather")));
}

TEST_F(AnthropicApiTest, ThinkingIsABlockWithASignature) {
  fake_.reply = "Two and two.\n</think>\n\nFour.";
  Json body = Hello();
  body["thinking"] = {{"type", "enabled"}, {"budget_tokens", 50}};
  const Json reply = Message(body);
  EXPECT_THAT(PromptText(), EndsWith("<think>\n"));
  ASSERT_EQ(reply["content"].size(), 2u);
  EXPECT_EQ(reply["content"][0]["type"], "thinking");
  EXPECT_THAT(reply["content"][0]["thinking"].get<std::string>(), HasSubstr("Two and two."));
  EXPECT_FALSE(reply["content"][0]["signature"].get<std::string>().empty());
  EXPECT_EQ(reply["content"][1]["text"], "Four.");
  EXPECT_EQ(Assemble(Stream(body))["content"], reply["content"]);

  // And back again in the history.
  body["messages"].push_back({{"role", "assistant"}, {"content", reply["content"]}});
  body["messages"].push_back({{"role", "user"}, {"content", "Sure?"}});
  Message(body);
  EXPECT_THAT(PromptText(), HasSubstr("<think>\nTwo and two.\n</think>\n\nFour.<|im_end|>"));

  body = Hello();
  body["thinking"] = {{"type", "adaptive"}, {"display", "summarized"}};
  body["output_config"] = {{"effort", "high"}};
  Message(body);
  EXPECT_THAT(PromptText(), EndsWith("<think>\n"));
  for (const Json& off : {Json{{"type", "disabled"}}, Json()}) {
    Message(With(body, "thinking", off));
    EXPECT_THAT(PromptText(), EndsWith("<think>\n\n</think>\n\n"));
  }
}

TEST_F(AnthropicApiTest, AReplyMayBeginWithTheClientsWords) {
  fake_.reply = " 42.";
  Json body = Hello();
  body["messages"].push_back({{"role", "assistant"}, {"content", "The answer is"}});
  EXPECT_EQ(Message(body)["content"][0]["text"], " 42.");
  EXPECT_THAT(PromptText(), EndsWith("<think>\n\n</think>\n\nThe answer is"));
}

TEST_F(AnthropicApiTest, StopReasons) {
  fake_.reply = "One, two, three, four.";
  Json body = With(Hello(), "stop_sequences", Json::array({"three", "zzz"}));
  const Json stopped = Message(body);
  EXPECT_EQ(stopped["stop_reason"], "stop_sequence");
  EXPECT_EQ(stopped["stop_sequence"], "three");
  EXPECT_EQ(stopped["content"][0]["text"], "One, two, ");
  const Json cut = Message(With(Hello(), "max_tokens", 2));
  EXPECT_EQ(cut["stop_reason"], "max_tokens");
  EXPECT_EQ(cut["usage"]["output_tokens"], 2);
}

TEST_F(AnthropicApiTest, CountsThePromptThatWouldBeRead) {
  Json body = With(Hello(), "tools", Tools());
  body["system"] = "Be brief.";
  Message(body);
  const size_t n = fake_.generator.last_request().prompt.size();
  body.erase("max_tokens");
  const Json count = PostJson("/v1/messages/count_tokens", body);
  EXPECT_EQ(count, (Json{{"input_tokens", n}}));
  EXPECT_EQ(fake_.generator.requests().size(), 1u);
}

TEST_F(AnthropicApiTest, ErrorsHaveAnthropicsShapeAndCodes) {
  ExpectError(Call("POST", kPath, "{"), 400, "invalid_request_error", "JSON");
  ExpectError(Call("GET", kPath), 405, "invalid_request_error", "POST");
  ExpectError(Call("POST", "/v1/messages/batches", "{}"), 404, "not_found_error", "batches");
  fake_.generator.submit_status = UnavailableError("256 requests are waiting");
  ExpectError(Post(kPath, Hello()), 529, "overloaded_error", "waiting");
  fake_.generator.submit_status = OkStatus();
  fake_.generator.error_after = 2;
  ExpectError(Post(kPath, Hello()), 500, "api_error", "logit nan");
  const std::vector<NamedEvent> events = Stream(Hello());
  EXPECT_EQ(events.front().name, "message_start");
  EXPECT_EQ(events.back().name, "error");
  EXPECT_EQ(events.back().data["error"]["type"], "api_error");
  ModelState loading;
  handler_ = MakeApi(&loading);
  ExpectError(Post(kPath, Hello()), 529, "overloaded_error", "loading");
}

TEST_F(AnthropicApiTest, APromptThatIsTooLongNamesBothNumbers) {
  Message(Hello());
  const size_t n = fake_.generator.last_request().prompt.size();
  fake_.generator.context = 5;
  ExpectError(Post(kPath, Hello()), 400, "invalid_request_error",
              "prompt is too long: " + std::to_string(n) + " tokens > 4 maximum");
}

// How clients fill a cache in advance.
TEST_F(AnthropicApiTest, NoTokensAtMostReadsThePromptAndSaysNothing) {
  Json body = Hello();
  body["max_tokens"] = 0;
  const HttpResponse response = Post(kPath, body);
  ASSERT_EQ(response.status, 200) << response.body;
  const Json reply = Json::parse(response.body);
  EXPECT_EQ(reply["stop_reason"], "max_tokens");
  EXPECT_EQ(reply["content"], Json::array());
  EXPECT_EQ(fake_.generator.last_request().max_tokens, 0);
}

TEST_F(AnthropicApiTest, WrongFieldsAreNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"messages is missing", R"({"max_tokens":5})"},
      {"max_tokens is missing", R"({"messages":[{"role":"user","content":"a"}]})"},
      {"max_tokens", R"({"max_tokens":-1,"messages":[{"role":"user","content":"a"}]})"},
      {"mcp_servers",
       R"({"mcp_servers":[{"name":"m"}],"messages":[{"role":"user","content":"a"}]})"},
      {"thread", R"({"thread":{"type":"create"},"messages":[{"role":"user","content":"a"}]})"},
      {"compaction", R"({"compaction":{},"messages":[{"role":"user","content":"a"}]})"},
      {"output_format.type",
       R"({"output_format":{"type":"xml"},"messages":[{"role":"user","content":"a"}]})"},
      {"system[0].type", R"({"system":[{"type":"image"}],"messages":[]})"},
      {"system", R"({"system":5,"messages":[]})"},
      {"messages", R"({"messages":[]})"},
      {"messages[0].role", R"({"messages":[{"role":"tool","content":"a"}]})"},
      {"messages[0].content is missing", R"({"messages":[{"role":"user"}]})"},
      {"messages[0].content", R"({"messages":[{"role":"user","content":[]}]})"},
      {"messages[0].content[0]", R"({"messages":[{"role":"user","content":["a"]}]})"},
      {"messages[0].content[1].type",
       R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image",
          "source":{"type":"url","url":"http://x/y.png"}}]}]})"},
      {"messages[0].content[0].tool_use_id",
       R"({"messages":[{"role":"user","content":[{"type":"tool_result","content":"a"}]}]})"},
      {"messages[0].content[0].content[0].type",
       R"({"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t",
          "content":[{"type":"image"}]}]}]})"},
      {"messages[1].content[0].input",
       R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[
          {"type":"tool_use","id":"t","name":"f","input":"x"}]}]})"},
      {"tools[0].input_schema", R"({"messages":[{"role":"user","content":"a"}],
          "tools":[{"name":"f"}]})"},
      {"tools[0].type", R"({"messages":[{"role":"user","content":"a"}],
          "tools":[{"type":"web_search_20250305","name":"web_search"}]})"},
      {"tool_choice.type", R"({"messages":[{"role":"user","content":"a"}],
          "tool_choice":{"type":"maybe"}})"},
      {"thinking.type", R"({"messages":[{"role":"user","content":"a"}],"thinking":{}})"},
      {"thinking.budget_tokens",
       R"({"messages":[{"role":"user","content":"a"}],"thinking":{"type":"enabled"}})"},
      {"role assistant", R"({"messages":[{"role":"assistant","content":"a"}]})"},
      {"stop_sequences", R"({"max_tokens":5,"messages":[{"role":"user","content":"a"}],
          "stop_sequences":[""]})"},
  };
  for (const auto& [words, body] : cases) {
    ExpectError(Call("POST", kPath, body), 400, "invalid_request_error", words);
  }
  EXPECT_TRUE(fake_.generator.requests().empty());
}

}  // namespace
}  // namespace holdfast

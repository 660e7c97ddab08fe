#include "server/responses_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api_fixture.h"
#include "server/responses_request.h"

namespace holdfast {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kPath[] = "/v1/responses";

class ResponsesApiTest : public ApiFixture {
 protected:
  static Json Tools() {
    return Json::parse(R"([
      {"type":"function","name":"get_weather","description":"Weather of a city","strict":true,
       "parameters":{"type":"object","properties":{"city":{"type":"string"}}}},
      {"type":"custom","name":"apply_patch","description":"Edit files",
       "format":{"type":"grammar","syntax":"lark","definition":"start: /x+/"}},
      {"type":"namespace","name":"mcp__files","description":"Files","tools":[
        {"type":"function","name":"read","parameters":{"type":"object",
          "properties":{"path":{"type":"string"}}}}]},
      {"type":"web_search"}])");
  }
  static std::string CallText(const std::string& name, const std::string& key,
                              const std::string& value) {
    return "<tool_call>\n<function=" + name + ">\n<parameter=" + key + ">\n" + value +
           "\n</parameter>\n</function>\n</tool_call>";
  }
  std::vector<NamedEvent> Stream(Json body) {
    body["stream"] = true;
    std::vector<NamedEvent> events = NamedEvents(Post(kPath, body));
    for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i].data["sequence_number"], i);
    return events;
  }
  static std::vector<std::string> Names(const std::vector<NamedEvent>& events) {
    std::vector<std::string> names;
    for (const NamedEvent& event : events) {
      if (names.empty() || names.back() != event.name) names.push_back(event.name);
    }
    return names;
  }
  void ExpectRefused(const std::string& body, const std::string& param) {
    const HttpResponse response = Call("POST", kPath, body);
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_EQ(Json::parse(response.body)["error"]["param"], param) << response.body;
  }
};

TEST_F(ResponsesApiTest, AnswersWithOneResponse) {
  fake_.generator.reuse.tokens_reused = 3;
  const Json reply =
      PostJson(kPath, {{"input", "Hi"}, {"instructions", "Be brief."}, {"metadata", {{"a", "b"}}}});
  EXPECT_THAT(reply["id"].get<std::string>(), StartsWith("resp_"));
  EXPECT_EQ(reply["object"], "response");
  EXPECT_EQ(reply["status"], "completed");
  EXPECT_EQ(reply["model"], "holdfast-demo");
  EXPECT_EQ(reply["instructions"], "Be brief.");
  EXPECT_EQ(reply["metadata"]["a"], "b");
  ASSERT_EQ(reply["output"].size(), 1u);
  EXPECT_EQ(reply["output"][0]["type"], "message");
  EXPECT_EQ(reply["output"][0]["status"], "completed");
  EXPECT_EQ(reply["output"][0]["content"][0]["text"], "Hello there.");
  EXPECT_EQ(reply["usage"]["input_tokens"], fake_.generator.last_request().prompt.size());
  EXPECT_EQ(reply["usage"]["input_tokens_details"]["cached_tokens"], 3);
  EXPECT_THAT(PromptText(), StartsWith("<|im_start|>system\nBe brief.<|im_end|>\n"
                                       "<|im_start|>user\nHi<|im_end|>\n"));
}

TEST_F(ResponsesApiTest, StreamsTheFullLifecycle) {
  fake_.reply = "Two and two.\n</think>\n\nFour.";
  const std::vector<NamedEvent> events =
      Stream({{"input", "2+2?"}, {"reasoning", {{"effort", "high"}}}});
  EXPECT_EQ(
      Names(events),
      (std::vector<std::string>{
          "response.created", "response.in_progress", "response.output_item.added",
          "response.reasoning_text.delta", "response.reasoning_text.done",
          "response.output_item.done", "response.output_item.added", "response.content_part.added",
          "response.output_text.delta", "response.output_text.done", "response.content_part.done",
          "response.output_item.done", "response.completed"}));
  const Json& response = events.back().data["response"];
  EXPECT_EQ(response["status"], "completed");
  ASSERT_EQ(response["output"].size(), 2u);
  EXPECT_EQ(response["output"][0]["type"], "reasoning");
  EXPECT_THAT(response["output"][0]["content"][0]["text"].get<std::string>(),
              HasSubstr("Two and two."));
  EXPECT_EQ(response["output"][1]["content"][0]["text"], "Four.");
  std::string text;
  for (const NamedEvent& event : events) {
    if (event.name != "response.output_text.delta") continue;
    text += event.data["delta"].get<std::string>();
    EXPECT_EQ(event.data["output_index"], 1);
    EXPECT_EQ(event.data["item_id"], response["output"][1]["id"]);
  }
  EXPECT_EQ(text, "Four.");
}

TEST_F(ResponsesApiTest, ReasoningIsASummaryWhereOneIsAskedFor) {
  fake_.reply = "Two and two.\n</think>\n\nFour.";
  const std::vector<NamedEvent> events =
      Stream({{"input", "2+2?"}, {"reasoning", {{"effort", "low"}, {"summary", "auto"}}}});
  EXPECT_THAT(Names(events), ::testing::IsSupersetOf({"response.reasoning_summary_part.added",
                                                      "response.reasoning_summary_text.delta",
                                                      "response.reasoning_summary_text.done",
                                                      "response.reasoning_summary_part.done"}));
  EXPECT_THAT(events.back().data["response"]["output"][0]["summary"][0]["text"].get<std::string>(),
              HasSubstr("Two and two."));
}

TEST_F(ResponsesApiTest, SaysThatItIsStillThere) {
  fake_.generator.Hold();
  HttpReply reply = Send("POST", kPath, R"({"input":"Hi","stream":true})");
  EXPECT_THAT(reply.source->Take().bytes, StartsWith("event: response.created\n"));
  EXPECT_THAT(reply.source->Heartbeat(), StartsWith("event: response.in_progress\n"));
  fake_.generator.Release();
  EXPECT_THAT(Collect(std::move(reply)).body, HasSubstr("event: response.completed\n"));
}

TEST_F(ResponsesApiTest, ToolsOfAllKindsAreCalledByTheirOwnNames) {
  fake_.reply = CallText("get_weather", "city", "Oslo") + "\n" +
                CallText("apply_patch", "input", "*** Begin\n\"x\"") + "\n" +
                CallText("mcp__files__read", "path", "/a");
  const std::vector<NamedEvent> events = Stream({{"input", "Go"}, {"tools", Tools()}});
  EXPECT_THAT(PromptText(), HasSubstr("\"name\": \"mcp__files__read\""));
  EXPECT_THAT(PromptText(), HasSubstr("start: /x+/"));
  EXPECT_THAT(PromptText(), Not(HasSubstr("web_search")));
  const Json& output = events.back().data["response"]["output"];
  ASSERT_EQ(output.size(), 3u);
  EXPECT_EQ(output[0]["type"], "function_call");
  EXPECT_EQ(output[0]["name"], "get_weather");
  EXPECT_EQ(Json::parse(output[0]["arguments"].get<std::string>())["city"], "Oslo");
  EXPECT_THAT(output[0]["call_id"].get<std::string>(), StartsWith("call_"));
  EXPECT_EQ(output[1]["type"], "custom_tool_call");
  EXPECT_EQ(output[1]["name"], "apply_patch");
  EXPECT_EQ(output[1]["input"], "*** Begin\n\"x\"");
  EXPECT_EQ(output[2]["name"], "read");
  EXPECT_EQ(output[2]["namespace"], "mcp__files");
  EXPECT_THAT(Names(events), ::testing::IsSupersetOf({"response.function_call_arguments.delta",
                                                      "response.function_call_arguments.done",
                                                      "response.custom_tool_call_input.delta",
                                                      "response.custom_tool_call_input.done"}));
}

TEST_F(ResponsesApiTest, AHistoryThatComesBackGetsTheGeneratedTokens) {
  RememberReplies();
  fake_.reply = "Look it up.\n</think>\n\nI will.\n\n" + CallText("get_weather", "city", "Oslo") +
                "\n" + CallText("apply_patch", "input", "a\nb") + "\n" +
                CallText("mcp__files__read", "path", "/a");
  Json body = {{"input", Json::array({{{"role", "user"}, {"content", "Go"}}})},
               {"tools", Tools()},
               {"store", false},
               {"reasoning", {{"effort", "high"}, {"summary", "auto"}}},
               {"include", Json::array({"reasoning.encrypted_content"})}};
  const Json first = PostJson(kPath, body);
  std::vector<TokenId> expected = fake_.generator.last_request().prompt;
  const std::vector<TokenId> generated = fake_.tokenizer().Encode(fake_.reply, AddedTokens::kAll);
  expected.insert(expected.end(), generated.begin(), generated.end());
  ASSERT_EQ(first["output"].size(), 5u);
  for (Json item : first["output"]) {
    // As Codex sends it: without ids, statuses and raw thinking.
    item.erase("id");
    item.erase("status");
    if (item["type"] == "reasoning") item.erase("content");
    body["input"].push_back(item);
  }
  for (const size_t i : {2u, 3u, 4u}) {
    const bool custom = first["output"][i]["type"] == "custom_tool_call";
    body["input"].push_back({{"type", custom ? "custom_tool_call_output" : "function_call_output"},
                             {"call_id", first["output"][i]["call_id"]},
                             {"output", "cold"}});
  }
  PostJson(kPath, body);
  const std::vector<TokenId> second = fake_.generator.last_request().prompt;
  ASSERT_GT(second.size(), expected.size());
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), second.begin()))
      << fake_.tokenizer().Decode(second, true);
}

TEST_F(ResponsesApiTest, AResponseIsKeptAndContinued) {
  RememberReplies();
  const Json first = PostJson(kPath, {{"input", "Hi"}, {"instructions", "Be brief."}});
  const std::string id = first["id"];
  EXPECT_EQ(Json::parse(Call("GET", "/v1/responses/" + id).body), first);
  const Json second = PostJson(
      kPath, {{"input", "Bye"}, {"previous_response_id", id}, {"instructions", "Be kind."}});
  EXPECT_EQ(second["previous_response_id"], id);
  EXPECT_THAT(PromptText(),
              HasSubstr("<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
                        "<|im_start|>assistant\n<think>\n\n</think>\n\nHello there.<|im_end|>\n"
                        "<|im_start|>user\nBye<|im_end|>\n"));
  EXPECT_THAT(PromptText(), Not(HasSubstr("brief")));
  EXPECT_EQ(Json::parse(Call("DELETE", "/v1/responses/" + id).body)["deleted"], true);
  EXPECT_EQ(Call("GET", "/v1/responses/" + id).status, 404);
  const HttpResponse gone = Post(kPath, {{"input", "Bye"}, {"previous_response_id", id}});
  EXPECT_EQ(gone.status, 400);
  EXPECT_THAT(gone.body, HasSubstr("previous_response_not_found"));
  const Json unkept = PostJson(kPath, {{"input", "Hi"}, {"store", false}});
  EXPECT_EQ(Call("GET", "/v1/responses/" + unkept["id"].get<std::string>()).status, 404);
}

TEST_F(ResponsesApiTest, ACutReplyIsIncomplete) {
  const Json reply = PostJson(kPath, {{"input", "Hi"}, {"max_output_tokens", 2}});
  EXPECT_EQ(reply["status"], "incomplete");
  EXPECT_EQ(reply["incomplete_details"]["reason"], "max_output_tokens");
  const std::vector<NamedEvent> events = Stream({{"input", "Hi"}, {"max_output_tokens", 2}});
  EXPECT_EQ(events.back().name, "response.incomplete");
}

TEST_F(ResponsesApiTest, FailuresAreEventsOfAStream) {
  fake_.generator.error_after = 1;
  std::vector<NamedEvent> events = Stream({{"input", "Hi"}});
  EXPECT_EQ(events.back().name, "response.failed");
  EXPECT_EQ(events.back().data["response"]["status"], "failed");
  EXPECT_THAT(events.back().data["response"]["error"]["message"].get<std::string>(),
              HasSubstr("logit nan"));
  EXPECT_EQ(Post(kPath, {{"input", "Hi"}}).status, 500);

  fake_.generator.context = 5;
  events = Stream({{"input", "Hi"}});
  EXPECT_EQ(Names(events), (std::vector<std::string>{"response.created", "response.in_progress",
                                                     "response.failed"}));
  EXPECT_EQ(events.back().data["response"]["error"]["code"], "context_length_exceeded");
  const HttpResponse whole = Post(kPath, {{"input", "Hi"}});
  EXPECT_EQ(whole.status, 400);
  EXPECT_THAT(whole.body, HasSubstr("context_length_exceeded"));
}

TEST_F(ResponsesApiTest, TheInputIsCounted) {
  const Json body = {{"input", "Hi"}, {"tools", Tools()}};
  const Json count = PostJson("/v1/responses/input_tokens", body);
  EXPECT_EQ(count["object"], "response.input_tokens");
  EXPECT_TRUE(fake_.generator.requests().empty());
  PostJson(kPath, body);
  EXPECT_EQ(count["input_tokens"], fake_.generator.last_request().prompt.size());
}

TEST_F(ResponsesApiTest, LeadingDeveloperMessagesAreOneSystemPrompt) {
  PostJson(kPath, {{"instructions", "A"},
                   {"input", Json::array({{{"role", "developer"}, {"content", "B"}},
                                          {{"role", "user"}, {"content", "C"}}})}});
  EXPECT_THAT(PromptText(),
              StartsWith("<|im_start|>system\nA\n\nB<|im_end|>\n<|im_start|>user\nC"));
}

TEST_F(ResponsesApiTest, WrongFieldsAreNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"input", R"({})"},
      {"input", R"({"input":[]})"},
      {"input", R"({"input":5})"},
      {"input[0]", R"({"input":[5]})"},
      {"input[0].role", R"({"input":[{"role":"tool","content":"a"}]})"},
      {"input[0].content", R"({"input":[{"role":"user"}]})"},
      {"input[0].content[0].type",
       R"({"input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]})"},
      {"input[0].type", R"({"input":[{"type":"item_reference","id":"x"}]})"},
      {"input[0].arguments", R"({"input":[{"type":"function_call","call_id":"c","name":"f"}]})"},
      {"input[0].call_id", R"({"input":[{"type":"function_call_output","output":"x"}]})"},
      {"input[0].output", R"({"input":[{"type":"function_call_output","call_id":"x"}]})"},
      {"input[0].summary", R"({"input":[{"type":"reasoning","summary":"x"}]})"},
      {"tools", R"({"input":"a","tools":{}})"},
      {"tools[0]", R"({"input":"a","tools":[5]})"},
      {"tools[0].name", R"({"input":"a","tools":[{"type":"function"}]})"},
      {"tools[0].parameters",
       R"({"input":"a","tools":[{"type":"function","name":"f","parameters":[]}]})"},
      {"tools[0].tools", R"({"input":"a","tools":[{"type":"namespace","name":"n"}]})"},
      {"tool_choice", R"({"input":"a","tool_choice":"sometimes"})"},
      {"reasoning", R"({"input":"a","reasoning":{"effort":"huge"}})"},
      {"max_output_tokens", R"({"input":"a","max_output_tokens":0})"},
      {"background", R"({"input":"a","background":true})"},
      {"conversation", R"({"input":"a","conversation":"c"})"},
      {"prompt", R"({"input":"a","prompt":{"id":"pmpt_1"}})"},
      {"moderation", R"({"input":"a","moderation":{}})"},
      {"top_logprobs", R"({"input":"a","top_logprobs":2})"},
      {"temperature", R"({"input":"a","temperature":"hot"})"},
      {"text.format.type", R"({"input":"a","text":{"format":{"type":"xml"}}})"},
  };
  for (const auto& [param, body] : cases) ExpectRefused(body, param);
  EXPECT_TRUE(fake_.generator.requests().empty());
}

TEST(SealedReasoningTest, ComesBackAndAnythingElseIsNothing) {
  for (const std::string text : {"", "a", "ab", "abc", "Grüße, 世界!"}) {
    EXPECT_EQ(UnsealReasoning(SealReasoning(text)), text);
  }
  for (const char* other : {"", "gAAAAABo", "holdfast1:", "holdfast1:!",
                            "holdfast1:====", "holdfast1:YQ", "holdfast1:=", "holdfast1:A==="}) {
    UnsealReasoning(other);  // whatever it gives, it ends
  }
  EXPECT_EQ(UnsealReasoning("gAAAAABo"), "");
}

TEST(ResponseStoreTest, KeepsTheNewestWithinItsBytes) {
  ResponseStore store(1000);
  const auto add = [&](const std::string& id, size_t n) {
    store.Add(id, {Json(std::string(n, 'x')), {Json::array(), Json::array()}});
  };
  add("a", 400);
  add("b", 400);
  EXPECT_NE(store.Find("a"), nullptr);  // now the newest
  add("c", 400);
  EXPECT_EQ(store.Find("b"), nullptr);
  EXPECT_NE(store.Find("a"), nullptr);
  EXPECT_NE(store.Find("c"), nullptr);
  add("d", 2000);
  EXPECT_EQ(store.Find("d"), nullptr);
  EXPECT_NE(store.Find("c"), nullptr);
}

}  // namespace
}  // namespace holdfast

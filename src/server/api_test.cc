#include "server/api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "server/api_fixture.h"
#include "server/running_generations.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class ApiTest : public ::testing::Test {
 protected:
  ApiTest() : handler_(MakeApi(&state_)) { state_.Set(fake_.service); }

  HttpResponse Call(const std::string& method, const std::string& path, std::string body = "") {
    HttpRequest request;
    request.method = method;
    request.path = path;
    request.body = std::move(body);
    return Collect(handler_(request));
  }
  HttpResponse Chat(const Json& body) { return Call("POST", "/v1/chat/completions", ToText(body)); }
  Json ChatJson(const Json& body) {
    const HttpResponse response = Chat(body);
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::parse(response.body);
  }
  // The events of a stream; the last must be [DONE] and is left out.
  static std::vector<Json> Events(const HttpResponse& response) {
    EXPECT_THAT(response.content_type, StartsWith("text/event-stream"));
    std::vector<Json> events;
    size_t begin = 0;
    bool done = false;
    while (begin < response.body.size()) {
      const size_t end = response.body.find("\n\n", begin);
      const std::string event = response.body.substr(begin, end - begin);
      begin = end + 2;
      EXPECT_THAT(event, StartsWith("data: "));
      EXPECT_FALSE(done);
      if (event == "data: [DONE]") {
        done = true;
      } else {
        events.push_back(Json::parse(event.substr(6)));
      }
    }
    EXPECT_TRUE(done);
    return events;
  }
  std::string PromptText() {
    return fake_.tokenizer().Decode(fake_.generator.last_request().prompt, true);
  }
  static Json Hello() {
    return {{"messages", Json::array({{{"role", "user"}, {"content", "Hi"}}})}};
  }
  static Json With(Json body, const std::string& key, Json value) {
    body[key] = std::move(value);
    return body;
  }
  static Json WeatherTools() {
    return Json::parse(R"([{"type":"function","function":{"name":"get_weather",
      "description":"Get the weather of a city","parameters":{"type":"object","properties":
      {"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"]}}}])");
  }

  RunningGenerations running_;  // outlives the threads of fake_
  FakeService fake_;
  ModelState state_;
  HttpHandler handler_;
};

TEST_F(ApiTest, AnswersWithOneObject) {
  fake_.generator.reuse.tokens_reused = 4;
  fake_.generator.reuse.source = ReuseSource::kRam;
  const Json reply = ChatJson(With(Hello(), "seed", 7));
  EXPECT_EQ(reply["object"], "chat.completion");
  EXPECT_THAT(reply["id"].get<std::string>(), StartsWith("chatcmpl-"));
  EXPECT_EQ(reply["model"], "holdfast-demo");
  const Json& choice = reply["choices"][0];
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["message"]["content"], "Hello there.");
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_TRUE(choice["logprobs"].is_null());
  const int n_prompt = static_cast<int>(fake_.generator.last_request().prompt.size());
  EXPECT_EQ(reply["usage"]["prompt_tokens"], n_prompt);
  EXPECT_EQ(reply["usage"]["total_tokens"],
            n_prompt + reply["usage"]["completion_tokens"].get<int>());
  EXPECT_EQ(reply["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
  EXPECT_EQ(reply["seed"], 7);
  EXPECT_EQ(reply["timings"]["cache_n"], 4);
  EXPECT_EQ(reply["timings"]["prompt_n"], n_prompt - 4);
  EXPECT_EQ(reply["timings"]["prompt_ms"], 10.0);
  EXPECT_EQ(reply["reuse"]["source"], "ram");
  // Greedy unless the request or the model file says otherwise.
  EXPECT_EQ(fake_.generator.last_request().sampling.temperature, 0.0f);
  EXPECT_EQ(PromptText(),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
}

TEST_F(ApiTest, StreamsTheSameText) {
  fake_.reply = "Grüße, 世界! 👋🏽 Zoë — naïve.";
  Json body = With(Hello(), "stream", true);
  body["stream_options"]["include_usage"] = true;
  const std::vector<Json> events = Events(Chat(body));
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events[0]["choices"][0]["delta"]["role"], "assistant");
  std::string text;
  std::string finish_reason;
  for (const Json& event : events) {
    EXPECT_EQ(event["object"], "chat.completion.chunk");
    EXPECT_EQ(event["id"], events[0]["id"]);
    if (event["choices"].empty()) continue;
    const Json& choice = event["choices"][0];
    text += choice["delta"].value("content", "");
    if (!choice["finish_reason"].is_null()) finish_reason = choice["finish_reason"];
  }
  EXPECT_EQ(text, fake_.reply);
  EXPECT_EQ(finish_reason, "stop");
  EXPECT_TRUE(events.back()["choices"].empty());
  EXPECT_GT(events.back()["usage"]["completion_tokens"], 0);
  const Json& last = events[events.size() - 2];
  EXPECT_FALSE(last.contains("usage"));
  EXPECT_TRUE(last.contains("timings"));
}

TEST_F(ApiTest, WithoutIncludeUsageTheStreamHasNoUsage) {
  const HttpResponse response = Chat(With(Hello(), "stream", true));
  EXPECT_THAT(response.body, ::testing::Not(HasSubstr("usage")));
}

TEST_F(ApiTest, ThinkingIsReasoningContentAndSwitchable) {
  fake_.reply = "Two and two.\n</think>\n\nFour.";
  Json body = Hello();
  body["chat_template_kwargs"]["enable_thinking"] = true;
  const Json reply = ChatJson(body);
  EXPECT_THAT(PromptText(), ::testing::EndsWith("<|im_start|>assistant\n<think>\n"));
  EXPECT_EQ(reply["choices"][0]["message"]["content"], "Four.");
  EXPECT_THAT(reply["choices"][0]["message"]["reasoning_content"].get<std::string>(),
              HasSubstr("Two and two."));
  EXPECT_GT(reply["usage"]["completion_tokens_details"]["reasoning_tokens"], 3);

  std::string reasoning, content;
  for (const Json& event : Events(Chat(With(body, "stream", true)))) {
    const Json& delta = event["choices"][0]["delta"];
    reasoning += delta.value("reasoning_content", "");
    content += delta.value("content", "");
  }
  EXPECT_EQ(content, "Four.");
  EXPECT_EQ(reasoning, reply["choices"][0]["message"]["reasoning_content"]);
}

TEST_F(ApiTest, ReasoningEffortIsMapped) {
  const auto thinks = [&](const Json& body) {
    ChatJson(body);
    return PromptText().ends_with("<think>\n");
  };
  for (const char* off : {"none", "off"}) {
    EXPECT_FALSE(thinks(With(Hello(), "reasoning_effort", off))) << off;
  }
  for (const char* on : {"minimal", "low", "medium", "high", "xhigh", "max"}) {
    EXPECT_TRUE(thinks(With(Hello(), "reasoning_effort", on))) << on;
  }
  EXPECT_FALSE(thinks(Hello()));  // as this model's template says
  Json both = With(Hello(), "reasoning_effort", "high");
  both["chat_template_kwargs"]["enable_thinking"] = false;
  EXPECT_FALSE(thinks(both));
  const HttpResponse bad = Chat(With(Hello(), "reasoning_effort", "enormous"));
  EXPECT_EQ(bad.status, 400);
  EXPECT_EQ(Json::parse(bad.body)["error"]["param"], "reasoning_effort");
  EXPECT_THAT(bad.body, HasSubstr("enormous"));
}

TEST_F(ApiTest, ToolCallsComeBackAsToolCalls) {
  fake_.reply =
      "I will look.\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n"
      "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n"
      "<function=get_weather>\n<parameter=city>\nBergen\n</parameter>\n</function>\n</tool_call>";
  const Json body = With(Hello(), "tools", WeatherTools());
  const Json reply = ChatJson(body);
  EXPECT_THAT(PromptText(), HasSubstr("# Tools"));
  const Json& choice = reply["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  const Json& calls = choice["message"]["tool_calls"];
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0]["type"], "function");
  EXPECT_EQ(calls[0]["function"]["name"], "get_weather");
  EXPECT_EQ(Json::parse(calls[0]["function"]["arguments"].get<std::string>()),
            Json::parse(R"({"city":"Oslo","days":3})"));
  EXPECT_EQ(Json::parse(calls[1]["function"]["arguments"].get<std::string>()),
            Json::parse(R"({"city":"Bergen"})"));
  EXPECT_NE(calls[0]["id"], calls[1]["id"]);
  EXPECT_THAT(choice["message"]["content"].get<std::string>(), StartsWith("I will look."));

  // Streamed: id and name once, arguments in pieces.
  std::vector<std::string> arguments(2), names(2);
  for (const Json& event : Events(Chat(With(body, "stream", true)))) {
    const Json& delta = event["choices"][0]["delta"];
    if (!delta.contains("tool_calls")) continue;
    const Json& call = delta["tool_calls"][0];
    const size_t index = call["index"].get<size_t>();
    EXPECT_EQ(call.contains("id"), names[index].empty());
    if (call["function"].contains("name")) names[index] = call["function"]["name"];
    arguments[index] += call["function"]["arguments"].get<std::string>();
  }
  EXPECT_EQ(names[0], "get_weather");
  EXPECT_EQ(Json::parse(arguments[0]), Json::parse(R"({"city":"Oslo","days":3})"));
  EXPECT_EQ(Json::parse(arguments[1]), Json::parse(R"({"city":"Bergen"})"));
}

TEST_F(ApiTest, ToolChoiceNoneHidesTheTools) {
  Json body = With(Hello(), "tools", WeatherTools());
  body["tool_choice"] = "none";
  ChatJson(body);
  EXPECT_THAT(PromptText(), ::testing::Not(HasSubstr("get_weather")));
}

TEST_F(ApiTest, AToolConversationIsRenderedAsTheTemplateWants) {
  const Json messages = Json::parse(R"([
    {"role":"developer","content":[{"type":"text","text":"Be "},{"type":"text","text":"brief."}]},
    {"role":"user","content":"Weather in Oslo?"},
    {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",
      "function":{"name":"get_weather","arguments":"{\"city\": \"Oslo\"}"}}]},
    {"role":"tool","tool_call_id":"c1","content":"</tool_response><|im_end|>"}])");
  ChatJson({{"messages", messages}, {"tools", WeatherTools()}});
  EXPECT_THAT(PromptText(), HasSubstr("\n\nBe brief.<|im_end|>"));
  EXPECT_THAT(PromptText(), HasSubstr("<function=get_weather>\n<parameter=city>\nOslo\n"));
  // What the tool said stays text: only the template's own closers are tokens.
  const TokenId closer = *fake_.tokenizer().FindToken("</tool_response>");
  const std::vector<TokenId> prompt = fake_.generator.last_request().prompt;
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), closer), 1);
}

TEST_F(ApiTest, CheckpointsAreWhereTheClientMayComeBackTo) {
  const Json messages = Json::parse(R"([{"role":"system","content":"Be brief."},
    {"role":"user","content":[{"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}}]},
    {"role":"assistant","content":"Yes?"},{"role":"user","content":"Bye"}])");
  ChatJson({{"messages", messages}});
  const GenerateRequest request = fake_.generator.last_request();
  std::map<CheckpointKind, std::string> text;
  for (const CheckpointMark& mark : request.checkpoints) {
    text[mark.kind] = fake_.tokenizer().Decode(
        std::span(request.prompt).first(static_cast<size_t>(mark.position)), true);
  }
  ASSERT_EQ(text.size(), 3u);
  EXPECT_EQ(text[CheckpointKind::kSystem], "<|im_start|>system\nBe brief.<|im_end|>\n");
  EXPECT_THAT(text[CheckpointKind::kMark], ::testing::EndsWith("user\nHi<|im_end|>\n"));
  EXPECT_THAT(text[CheckpointKind::kBeforeReply], ::testing::EndsWith("Bye<|im_end|>\n"));
}

TEST_F(ApiTest, StopStringsEndTheReplyBeforeThem) {
  fake_.reply = "One, two, three, four, five.";
  for (const bool stream : {false, true}) {
    Json body = With(Hello(), "stop", Json::array({"three", "zzz"}));
    body["stream"] = stream;
    const int before = fake_.generator.n_tokens_given();
    const HttpResponse response = Chat(body);
    EXPECT_THAT(response.body, ::testing::Not(HasSubstr("thr")));
    EXPECT_THAT(response.body, HasSubstr("\"finish_reason\":\"stop\""));
    // The engine is stopped at that token and not later.
    EXPECT_LT(fake_.generator.n_tokens_given() - before,
              static_cast<int>(fake_.tokenizer().Encode(fake_.reply, AddedTokens::kAll).size()));
  }
}

TEST_F(ApiTest, MaxTokensEndsWithLength) {
  Json body = With(Hello(), "max_tokens", 9);
  body["max_completion_tokens"] = 2;
  const Json reply = ChatJson(body);
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(reply["usage"]["completion_tokens"], 2);
}

TEST_F(ApiTest, LogprobsCoverEveryToken) {
  Json body = With(Hello(), "logprobs", true);
  body["top_logprobs"] = 2;
  const Json reply = ChatJson(body);
  const Json& content = reply["choices"][0]["logprobs"]["content"];
  std::string text;
  for (const Json& entry : content) {
    text += entry["token"].get<std::string>();
    EXPECT_EQ(entry["logprob"], -0.25f);
    EXPECT_EQ(entry["top_logprobs"].size(), 2u);
    EXPECT_EQ(entry["bytes"].size(), entry["token"].get<std::string>().size());
  }
  EXPECT_EQ(text, "Hello there.");
  size_t n = 0;
  for (const Json& event : Events(Chat(With(body, "stream", true)))) {
    const Json& logprobs = event["choices"][0]["logprobs"];
    if (!logprobs.is_null()) n += logprobs["content"].size();
  }
  EXPECT_EQ(n, content.size());
}

TEST_F(ApiTest, SamplingFieldsReachTheEngine) {
  const Json body = Json::parse(R"({"messages":[{"role":"user","content":"Hi"}],
    "temperature":0.7,"top_k":-1,"top_p":0,"min_p":0.05,"repeat_penalty":1.1,
    "frequency_penalty":0.5,"presence_penalty":-0.5,"repeat_last_n":32,"seed":18446744073709551615,
    "logit_bias":{"5":-100,"6":false},"max_tokens":3,"ignore_eos":true,
    "user":"u","store":false,"metadata":{"a":1},"unknown":[1,2]})");
  ChatJson(body);
  const GenerateRequest request = fake_.generator.last_request();
  const SamplingParams& p = request.sampling;
  EXPECT_EQ(p.temperature, 0.7f);
  EXPECT_EQ(p.top_k, 0);
  EXPECT_GT(p.top_p, 0.0f);
  EXPECT_EQ(p.min_p, 0.05f);
  EXPECT_EQ(p.repeat_penalty, 1.1f);
  EXPECT_EQ(p.frequency_penalty, 0.5f);
  EXPECT_EQ(p.presence_penalty, -0.5f);
  EXPECT_EQ(p.penalty_last_n, 32);
  EXPECT_EQ(p.seed, 18446744073709551615u);
  ASSERT_EQ(p.logit_bias.size(), 2u);
  EXPECT_EQ(p.logit_bias[0], (std::pair<TokenId, float>(5, -100.0f)));
  EXPECT_EQ(p.logit_bias[1].second, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(request.max_tokens, 3);
  EXPECT_TRUE(request.ignore_eos);
}

TEST_F(ApiTest, ARandomSeedIsReturnedAndExactInJavaScript) {
  const Json first = ChatJson(Hello()), second = ChatJson(With(Hello(), "seed", -1));
  EXPECT_EQ(first["seed"], *fake_.generator.requests()[0].sampling.seed);
  EXPECT_LE(first["seed"].get<uint64_t>(), uint64_t{1} << 53);
  EXPECT_NE(first["seed"], second["seed"]);
}

TEST_F(ApiTest, AReplyThatIsFailedFromOutsideEndsAtOnce) {
  fake_.generator.Hold();
  auto service = std::make_shared<ModelService>(*fake_.service);
  service->running = &running_;
  state_.Set(service);
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/chat/completions";
  request.body = ToText(Hello());
  HttpReply reply = handler_(request);
  EXPECT_EQ(running_.count(), 1);
  EXPECT_FALSE(RunningGenerations().silence());
  EXPECT_TRUE(running_.silence());
  EXPECT_EQ(running_.FailAll(DeadlineExceededError("the step hangs")), 1);
  EXPECT_FALSE(running_.silence());  // it has ended
  const HttpResponse response = Collect(std::move(reply));
  EXPECT_EQ(response.status, 504);
  EXPECT_THAT(response.body, HasSubstr("the step hangs"));
  fake_.generator.Release();  // what the engine says now is nobody's
}

TEST_F(ApiTest, AnErrorOfTheModelIsA500OrAnEventOfTheStream) {
  fake_.generator.error_after = 2;
  const HttpResponse whole = Chat(Hello());
  EXPECT_EQ(whole.status, 500);
  EXPECT_EQ(Json::parse(whole.body)["error"]["type"], "server_error");
  const std::vector<Json> events = Events(Chat(With(Hello(), "stream", true)));
  EXPECT_THAT(events.back()["error"]["message"].get<std::string>(), HasSubstr("logit nan"));
}

TEST_F(ApiTest, APromptThatIsTooLongIsRefusedWithBothNumbers) {
  fake_.generator.context = 5;
  const HttpResponse response = Chat(Hello());
  EXPECT_EQ(response.status, 400);
  const Json error = Json::parse(response.body)["error"];
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("5"));
}

TEST_F(ApiTest, AFullQueueIs503WithRetryAfter) {
  fake_.generator.submit_status = UnavailableError("256 requests are waiting already");
  const HttpResponse response = Chat(Hello());
  EXPECT_EQ(response.status, 503);
  ASSERT_EQ(response.headers.size(), 1u);
  EXPECT_EQ(response.headers[0].first, "Retry-After");
}

TEST_F(ApiTest, FieldsThatAskForNothingAreNoErrors) {
  Json body = Hello();
  body["modalities"] = {"text"};
  body["functions"] = Json::array();
  body["function_call"] = "none";
  body["audio"] = nullptr;
  body["prediction"] = {{"type", "content"}, {"content", "x"}};
  body["prompt_cache_retention"] = "24h";
  body["stream_options"] = {{"include_obfuscation", false}};
  EXPECT_EQ(Chat(body).status, 200);
}

TEST_F(ApiTest, NoTokensAtMostReadsThePromptAndSaysNothing) {
  const HttpResponse response = Chat(With(Hello(), "max_tokens", 0));
  ASSERT_EQ(response.status, 200) << response.body;
  const Json choice = Json::parse(response.body)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(fake_.generator.last_request().max_tokens, 0);
}

// What evaluation harnesses send: how likely is this text?
TEST_F(ApiTest, CompletionsEchoThePromptWithItsLogprobs) {
  const std::string prompt = "Once upon a d\xc3\xa9j\xc3\xa0 vu";
  const std::vector<TokenId> ids = fake_.tokenizer().Encode(prompt, AddedTokens::kAll);
  const Json body = {{"prompt", prompt}, {"echo", true}, {"logprobs", 1}, {"max_tokens", 0}};
  const HttpResponse response = Call("POST", "/v1/completions", ToText(body));
  ASSERT_EQ(response.status, 200) << response.body;
  const Json choice = Json::parse(response.body)["choices"][0];
  EXPECT_TRUE(fake_.generator.last_request().prompt_logprobs);
  EXPECT_EQ(fake_.generator.last_request().max_tokens, 0);
  EXPECT_EQ(choice["text"], prompt);
  EXPECT_EQ(choice["finish_reason"], "length");
  const Json& logprobs = choice["logprobs"];
  ASSERT_EQ(logprobs["tokens"].size(), ids.size());
  ASSERT_EQ(logprobs["token_logprobs"].size(), ids.size());
  ASSERT_EQ(logprobs["top_logprobs"].size(), ids.size());
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
  for (size_t i = 1; i < ids.size(); ++i) {
    EXPECT_EQ(logprobs["token_logprobs"][i], -1.0);
    // The best one and the token itself; parts of one character have one name.
    const Json& top = logprobs["top_logprobs"][i];
    EXPECT_LE(top.size(), 2u);
    EXPECT_TRUE(top.contains(logprobs["tokens"][i].get<std::string>())) << top;
  }
  // Streamed it is the same, in pieces, with the reply behind it.
  std::string text;
  size_t n_logprobs = 0;
  Json streamed = body;
  streamed["stream"] = true;
  streamed["max_tokens"] = 50;
  for (const Json& event : Events(Call("POST", "/v1/completions", ToText(streamed)))) {
    text += event["choices"][0]["text"].get<std::string>();
    const Json& piece = event["choices"][0]["logprobs"];
    if (!piece.is_null()) n_logprobs += piece["tokens"].size();
  }
  EXPECT_EQ(text, prompt + "Hello there.");
  EXPECT_EQ(n_logprobs,
            ids.size() + fake_.tokenizer().Encode(fake_.reply, AddedTokens::kAll).size());
}

TEST_F(ApiTest, CompletionsTakeTextOrTokens) {
  const std::vector<TokenId> ids = fake_.tokenizer().Encode("Once upon", AddedTokens::kAll);
  for (const Json& prompt :
       {Json("Once upon"), Json(ids), Json::array({"Once upon"}), Json::array({Json(ids)})}) {
    const HttpResponse response =
        Call("POST", "/v1/completions", ToText({{"prompt", prompt}, {"logprobs", 1}}));
    ASSERT_EQ(response.status, 200) << response.body;
    const Json reply = Json::parse(response.body);
    EXPECT_EQ(reply["object"], "text_completion");
    EXPECT_EQ(reply["choices"][0]["text"], "Hello there.");
    EXPECT_EQ(reply["choices"][0]["finish_reason"], "stop");
    const Json& logprobs = reply["choices"][0]["logprobs"];
    EXPECT_EQ(logprobs["tokens"].size(), logprobs["token_logprobs"].size());
    EXPECT_EQ(logprobs["text_offset"][1], logprobs["tokens"][0].get<std::string>().size());
    EXPECT_EQ(fake_.generator.last_request().prompt, ids);
  }
  std::string text;
  for (const Json& event :
       Events(Call("POST", "/v1/completions", R"({"prompt":"Once upon","stream":true})"))) {
    text += event["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(text, "Hello there.");
}

TEST_F(ApiTest, ModelsAndHealth) {
  const Json models = Json::parse(Call("GET", "/v1/models").body);
  EXPECT_EQ(models["object"], "list");
  EXPECT_EQ(models["data"][0]["id"], "holdfast-demo");
  EXPECT_EQ(models["data"][0]["context_length"], 4096);
  EXPECT_EQ(Call("GET", "/v1/models/holdfast-demo").status, 200);
  EXPECT_EQ(Call("GET", "/v1/models/other").status, 404);
  EXPECT_EQ(Call("GET", "/health").status, 200);
  EXPECT_EQ(Call("GET", "/nothing").status, 404);
  const HttpResponse wrong = Call("GET", "/v1/chat/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers[0], (std::pair<std::string, std::string>("Allow", "POST")));
}

TEST_F(ApiTest, WhileLoadingEverythingIs503WithProgress) {
  ModelState loading;
  handler_ = MakeApi(&loading);
  loading.SetProgress({"reading weights", 0.25});
  const HttpResponse health = Call("GET", "/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(Json::parse(health.body)["progress"], 0.25);
  const HttpResponse chat = Chat(Hello());
  EXPECT_EQ(chat.status, 503);
  EXPECT_THAT(chat.body, HasSubstr("reading weights, 25%"));
  loading.SetFailure(DataLossError("model.gguf: the file is cut"));
  EXPECT_THAT(Chat(Hello()).body, HasSubstr("the file is cut"));
  EXPECT_THAT(Call("GET", "/health").body, HasSubstr("failed"));
}

TEST_F(ApiTest, AnAbandonedReplyIsCancelled) {
  fake_.generator.Hold();
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/chat/completions";
  request.body = ToText(Hello());
  HttpReply reply = handler_(request);
  ASSERT_NE(reply.source, nullptr);
  reply.source.reset();
  EXPECT_TRUE(fake_.generator.WaitForCancelled(1));
}

TEST_F(ApiTest, ACancelledStreamEndsWithTheReason) {
  fake_.generator.Hold();
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/chat/completions";
  request.body = ToText(With(Hello(), "stream", true));
  HttpReply reply = handler_(request);
  reply.source->Cancel(UnavailableError("the server is shutting down"));
  const std::vector<Json> events = Events(Collect(std::move(reply)));
  EXPECT_EQ(events.back()["error"]["message"], "the server is shutting down");
}

TEST_F(ApiTest, AClientThatDoesNotReadIsCutOffAtTheLimit) {
  fake_.generator.script = [](const GenerateRequest&) { return std::vector<TokenId>(200000, 300); };
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/chat/completions";
  request.body = ToText(With(Hello(), "stream", true));
  HttpReply reply = handler_(request);
  ASSERT_TRUE(fake_.generator.WaitForCancelled(1));  // although nobody took anything
  EXPECT_LT(fake_.generator.n_tokens_given(), 100000);
  EXPECT_THAT(Events(Collect(std::move(reply))).back()["error"]["message"].get<std::string>(),
              HasSubstr("too slowly"));
}

}  // namespace
}  // namespace holdfast

// Bodies no client should send: each must give a 4xx that says something, and never reach the
// engine with a value outside its range.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>
#include <tuple>

#include "server/api.h"
#include "server/fake_generator.h"
#include "server/json.h"

namespace holdfast {
namespace {

class MalformedRequestTest : public ::testing::Test {
 protected:
  MalformedRequestTest() : handler_(MakeApi(&state_)) { state_.Set(fake_.service); }

  HttpResponse Post(const std::string& path, const std::string& body) {
    HttpRequest request;
    request.method = "POST";
    request.path = path;
    request.body = body;
    HttpReply reply = handler_(request);
    EXPECT_EQ(reply.source, nullptr) << "accepted: " << body.substr(0, 200);
    return reply.source ? HttpResponse{.status = 200} : reply.response;
  }
  void ExpectRefused(const std::string& path, const std::string& body,
                     const std::string& param = "") {
    const HttpResponse response = Post(path, body);
    EXPECT_GE(response.status, 400) << body.substr(0, 200);
    EXPECT_LT(response.status, 500) << body.substr(0, 200);
    const Json error = Json::parse(response.body, nullptr, false);
    ASSERT_TRUE(error.is_object() && error.contains("error")) << response.body;
    EXPECT_GT(error["error"]["message"].get<std::string>().size(), 10u);
    EXPECT_LT(error["error"]["message"].get<std::string>().size(), 500u);
    if (!param.empty()) {
      EXPECT_EQ(error["error"]["param"], param) << response.body;
    }
    ++n_cases_;
  }
  ~MalformedRequestTest() override { RecordProperty("cases", n_cases_); }

  FakeService fake_;
  ModelState state_;
  HttpHandler handler_;
  int n_cases_ = 0;
};

TEST_F(MalformedRequestTest, EveryFieldWithEveryWrongType) {
  // Per field the kinds of JSON it takes: b(ool) i(nteger) n(umber) s(tring) a(rray) o(bject).
  const std::vector<std::pair<std::string, std::string>> fields = {{"temperature", "in"},
                                                                   {"top_k", "i"},
                                                                   {"top_p", "in"},
                                                                   {"min_p", "in"},
                                                                   {"repeat_penalty", "in"},
                                                                   {"repetition_penalty", "in"},
                                                                   {"frequency_penalty", "in"},
                                                                   {"presence_penalty", "in"},
                                                                   {"repeat_last_n", "i"},
                                                                   {"penalty_last_n", "i"},
                                                                   {"seed", "i"},
                                                                   {"logit_bias", "oa"},
                                                                   {"max_tokens", "i"},
                                                                   {"max_completion_tokens", "i"},
                                                                   {"n_predict", "i"},
                                                                   {"ignore_eos", "b"},
                                                                   {"stop", "sa"},
                                                                   {"n", "i"},
                                                                   {"stream", "b"},
                                                                   {"stream_options", "o"},
                                                                   {"return_progress", "b"}};
  const std::vector<std::pair<char, std::string>> values = {{'b', "true"},
                                                            {'n', "0.5"},
                                                            {'s', "\"x\""},
                                                            {'a', "[[]]"},
                                                            {'o', "{\"a\":{}}"},
                                                            {'i', "1"},
                                                            {'n', "-1e300"},
                                                            {'n', "1e300"},
                                                            {'i', "-9223372036854775808"},
                                                            {'i', "18446744073709551615"}};
  for (const auto& [field, kinds] : fields) {
    for (const auto& [kind, value] : values) {
      const bool takes = kinds.find(kind) != std::string::npos;
      const bool extreme = value.size() > 5 && kind != 'o' && kind != 's';
      // An extreme number is out of every range (but a seed may be any integer); other values of a
      // right type may be fine.
      if (takes && !(extreme && field != "seed")) continue;
      const std::string member = "\"" + field + "\":" + value;
      ExpectRefused("/v1/chat/completions",
                    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]," + member + "}",
                    field);
      ExpectRefused("/v1/completions", "{\"prompt\":\"Hi\"," + member + "}", field);
    }
  }
  EXPECT_GT(n_cases_, 200);
}

TEST_F(MalformedRequestTest, OnlyInChat) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"messages", "\"Hi\""},
      {"messages", "[]"},
      {"messages", "{}"},
      {"messages[0]", "[\"Hi\"]"},
      {"messages[0].role", "[{\"content\":\"Hi\"}]"},
      {"messages[0].role", "[{\"role\":1,\"content\":\"Hi\"}]"},
      {"messages[0].role", "[{\"role\":\"robot\",\"content\":\"Hi\"}]"},
      {"messages[0].content", "[{\"role\":\"user\"}]"},
      {"messages[0].content", "[{\"role\":\"user\",\"content\":null}]"},
      {"messages[0].content", "[{\"role\":\"user\",\"content\":7}]"},
      {"messages[0].content", "[{\"role\":\"user\",\"content\":{}}]"},
      {"messages[0].content[0]", "[{\"role\":\"user\",\"content\":[\"Hi\"]}]"},
      {"messages[0].content[0].type", "[{\"role\":\"user\",\"content\":[{}]}]"},
      {"messages[0].content[0].type", "[{\"role\":\"user\",\"content\":[{\"type\":7}]}]"},
      {"messages[0].content[0].text", "[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]"},
      {"messages[0].content[0].text",
       "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":[]}]}]"},
      {"messages[0].content[1].type",
       "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
       "{\"type\":\"image_url\",\"image_url\":{\"url\":\"http://x/y.png\"}}]}]"},
      {"messages[0].content[0].type",
       "[{\"role\":\"user\",\"content\":[{\"type\":\"input_audio\",\"input_audio\":{}}]}]"},
      {"messages[0].tool_calls", "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":{}}]"},
      {"messages[0].tool_calls[0]",
       "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{}]}]"},
      {"messages[0].tool_calls[0]",
       "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":1}}]}]"},
      {"messages[0].tool_calls[0].function.arguments",
       "[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":7}}]}"
       "]"},
      {"messages[0].reasoning_content",
       "[{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":[]}]"},
      {"messages[0].name", "[{\"role\":\"user\",\"content\":\"a\",\"name\":1}]"},
      {"messages[1].tool_call_id",
       "[{\"role\":\"user\",\"content\":\"a\"},"
       "{\"role\":\"tool\",\"content\":\"a\",\"tool_call_id\":1}]"}};
  for (const auto& [param, messages] : cases) {
    ExpectRefused("/v1/chat/completions", "{\"messages\":" + messages + "}", param);
  }
  const std::vector<std::pair<std::string, std::string>> members = {
      {"tools[0]", "\"tools\":[1]"},
      {"tools", "\"tools\":{}"},
      {"tools[0]", "\"tools\":[{\"type\":\"web_search\"}]"},
      {"tools[0]", "\"tools\":[{\"type\":\"function\",\"function\":{}}]"},
      {"tools[0]", "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":null}}]"},
      {"tool_choice", "\"tool_choice\":\"required\""},
      {"tool_choice", "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}"},
      {"tool_choice", "\"tool_choice\":\"sometimes\""},
      {"tool_choice", "\"tool_choice\":1"},
      {"reasoning_effort", "\"reasoning_effort\":\"\""},
      {"reasoning_effort", "\"reasoning_effort\":true"},
      {"chat_template_kwargs", "\"chat_template_kwargs\":[]"},
      {"chat_template_kwargs.enable_thinking",
       "\"chat_template_kwargs\":{\"enable_thinking\":\"yes\"}"},
      {"chat_template_kwargs.reasoning_effort",
       "\"chat_template_kwargs\":{\"reasoning_effort\":\"huge\"}"},
      {"response_format.schema", "\"response_format\":{\"type\":\"json_object\",\"schema\":3}"},
      {"response_format.json_schema.schema",
       "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{}}"},
      {"response_format.json_schema.schema.not",
       "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"not\":{}}}}"},
      {"response_format.type", "\"response_format\":{\"type\":\"xml\"}"},
      {"response_format", "\"response_format\":\"json\""},
      {"logprobs", "\"logprobs\":1"},
      {"top_logprobs", "\"logprobs\":true,\"top_logprobs\":21"},
      {"top_logprobs", "\"top_logprobs\":3"},
      {"functions", "\"functions\":[{\"name\":\"f\"}]"},
      {"function_call", "\"function_call\":{\"name\":\"f\"}"},
      {"modalities", "\"modalities\":[\"text\",\"audio\"]"},
      {"audio", "\"audio\":{\"voice\":\"alloy\"}"},
      {"web_search_options", "\"web_search_options\":{}"},
      {"moderation", "\"moderation\":{\"model\":\"m\"}"},
      {"n", "\"n\":2"},
      {"n", "\"n\":0"},
      {"max_tokens", "\"max_tokens\":0.5"},
      {"max_tokens", "\"max_tokens\":-2"},
      {"temperature", "\"temperature\":-0.1"},
      {"top_p", "\"top_p\":1.1"},
      {"top_k", "\"top_k\":-2"},
      {"stop", "\"stop\":[\"\"]"},
      {"stop", "\"stop\":[1]"},
      {"logit_bias", "\"logit_bias\":{\"x\":1}"},
      {"logit_bias", "\"logit_bias\":{\"-1\":1}"},
      {"logit_bias", "\"logit_bias\":{\"99999999\":1}"},
      {"logit_bias", "\"logit_bias\":{\"5\":\"1\"}"},
      {"logit_bias", "\"logit_bias\":{\"5\":true}"},
      {"logit_bias", "\"logit_bias\":{\"5\":1e30}"},
      {"logit_bias", "\"logit_bias\":{\"5\":1e300}"},
      {"logit_bias", "\"logit_bias\":[[5]]"},
      {"logit_bias", "\"logit_bias\":[5]"},
      {"stream_options", "\"stream_options\":{\"include_usage\":1}"}};
  for (const auto& [param, member] : members) {
    ExpectRefused("/v1/chat/completions",
                  "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]," + member + "}", param);
  }
}

TEST_F(MalformedRequestTest, PromptsOfCompletions) {
  for (const std::string prompt :
       {"7", "true", "{}", "[]", "\"\"", "[\"a\",\"b\"]", "[1,\"a\"]", "[1.5]", "[-1]",
        "[99999999999]", "[[1],[2]]", "[null]", "[{}]", "[[\"a\"]]"}) {
    ExpectRefused("/v1/completions", "{\"prompt\":" + prompt + "}", "prompt");
  }
  ExpectRefused("/v1/completions", "{}", "prompt");
  std::string many = "7";
  for (int i = 0; i < 3999; ++i) many += ",7";
  fake_.generator.context = 1 << 20;
  std::string more = many;
  for (int i = 0; i < 15; ++i) more += "," + many;
  ExpectRefused("/v1/completions", "{\"echo\":true,\"logprobs\":20,\"prompt\":[" + more + "]}",
                "logprobs");
  ExpectRefused("/v1/completions", R"({"prompt":"a","suffix":"b"})", "suffix");
  ExpectRefused("/v1/completions", R"({"prompt":"a","best_of":2})", "best_of");
  ExpectRefused("/v1/completions", R"({"prompt":"a","logprobs":21})", "logprobs");
}

TEST_F(MalformedRequestTest, BodiesThatAreNotAnObject) {
  for (const char* path : {"/v1/chat/completions", "/v1/completions"}) {
    for (const std::string& body :
         {std::string(), std::string("null"), std::string("[]"), std::string("7"),
          std::string("\"x\""), std::string("{"), std::string("{\"messages\":"),
          std::string("\xff\xfe"), std::string("{\"a\":\"\xc0\x80\"}"), std::string(1, '\0'),
          std::string(1'000'000, '['), std::string("{\"a\":") + std::string(500, '{'),
          std::string("temperature=1&prompt=Hi")}) {
      ExpectRefused(path, body);
    }
  }
}

// A route and a body that it takes.
struct GoodBody {
  const char* path;
  const char* body;
};
constexpr GoodBody kGoodBodies[] = {
    {"/v1/chat/completions",
     R"({"messages":[{"role":"user","content":[{"type":"text","text":"H\u00e9"}]}],"stop":["a"],)"
     R"("tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"max_tokens":5})"},
    {"/v1/completions", R"({"prompt":"Once upon","max_tokens":5,"logit_bias":{"5":-1.5}})"},
    {"/v1/messages",
     R"({"max_tokens":5,"system":[{"type":"text","text":"S"}],"messages":[{"role":"user",)"
     R"("content":[{"type":"tool_result","tool_use_id":"t","content":"r"}]}],"tools":[{"name":)"
     R"("f","input_schema":{}}],"thinking":{"type":"enabled","budget_tokens":5}})"},
    {"/v1/messages/count_tokens", R"({"messages":[{"role":"user","content":"H\u00e9"}]})"},
    {"/v1/responses",
     R"({"input":[{"role":"user","content":"Hi"},{"type":"function_call","call_id":"c","name":"f",)"
     R"("arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"x"}],)"
     R"("max_output_tokens":5,"tools":[{"type":"function","name":"f"}]})"},
    {"/v1/responses/input_tokens", R"({"input":"Hi","instructions":"Be brief."})"},
    {"/tokenize", R"({"content":"Hi","with_pieces":true})"},
    {"/detokenize", R"({"tokens":[1,2,3]})"},
    {"/apply-template", R"({"messages":[{"role":"user","content":"Hi"}]})"}};

TEST_F(MalformedRequestTest, GoodBodiesAreTaken) {
  for (const auto& [path, body] : kGoodBodies) {
    HttpRequest request;
    request.method = "POST";
    request.path = path;
    request.body = body;
    const HttpReply reply = handler_(request);
    EXPECT_TRUE(reply.source != nullptr || reply.response.status == 200)
        << path << reply.response.body;
  }
}

TEST_F(MalformedRequestTest, EveryTruncationOfAGoodBody) {
  for (const auto& [path, body] : kGoodBodies) {
    const std::string text = body;
    for (size_t n = 0; n < text.size(); ++n) ExpectRefused(path, text.substr(0, n));
  }
}

TEST_F(MalformedRequestTest, EveryPlaceForABrokenByte) {
  for (const auto& [path, body] : kGoodBodies) {
    const std::string text = body;
    for (size_t n = 1; n < text.size(); n += 3) {
      // Bytes that no UTF-8 text has, and a control character, which no JSON string has.
      for (const char byte : {'\xff', '\xc0', '\x01'}) {
        std::string broken = text;
        broken.insert(n, 1, byte);
        ExpectRefused(path, broken);
      }
    }
  }
}

TEST_F(MalformedRequestTest, NumbersThatAreNone) {
  for (const auto& [path, body] : kGoodBodies) {
    const std::string text = body;
    for (const char* number :
         {"NaN", "Infinity", "-Infinity", "1e999", "-1e999", "0x10", "01", "+1", "1.", ".5", "--1",
          "1e", "undefined", "'a'", "1,", ",1", "True", "nul"}) {
      // As one more member, whatever its name.
      ExpectRefused(path, text.substr(0, text.size() - 1) + ",\"temperature\":" + number + "}");
    }
  }
}

TEST_F(MalformedRequestTest, DeepAndWideBodies) {
  for (const auto& [path, body] : kGoodBodies) {
    const std::string open = std::string(body).substr(0, std::string(body).size() - 1);
    for (const auto& [begin, end] : {std::pair("[", "]"), std::pair("{\"a\":", "}")}) {
      std::string deep = open + ",\"x\":";
      for (int i = 0; i < 2000; ++i) deep += begin;
      deep += "1";
      for (int i = 0; i < 2000; ++i) deep += end;
      ExpectRefused(path, deep + "}");
    }
    ExpectRefused(path, open + ",\"x\":[" + std::string(2'100'000, ',') + "]}");
  }
}

TEST_F(MalformedRequestTest, EveryMemberWithEveryOtherType) {
  // Members that are read, by route, with the kinds of JSON they take (as above; null is absent).
  const std::vector<std::tuple<const char*, const char*, const char*>> members = {
      {"/v1/messages", "messages", "a"},
      {"/v1/messages", "system", "sa"},
      {"/v1/messages", "max_tokens", "i"},
      {"/v1/messages", "tools", "a"},
      {"/v1/messages", "tool_choice", "o"},
      {"/v1/messages", "thinking", "o"},
      {"/v1/messages", "output_config", "o"},
      {"/v1/messages", "stop_sequences", "as"},
      {"/v1/messages", "stream", "b"},
      {"/v1/messages", "temperature", "in"},
      {"/v1/messages", "top_k", "i"},
      {"/v1/messages", "answer_room", "b"},
      {"/v1/messages", "cache_control", "o"},
      {"/v1/messages/count_tokens", "messages", "a"},
      {"/v1/messages/count_tokens", "system", "sa"},
      {"/v1/messages/count_tokens", "tools", "a"},
      {"/v1/responses", "input", "sa"},
      {"/v1/responses", "instructions", "s"},
      {"/v1/responses", "previous_response_id", "s"},
      {"/v1/responses", "store", "b"},
      {"/v1/responses", "stream", "b"},
      {"/v1/responses", "tools", "a"},
      {"/v1/responses", "tool_choice", "so"},
      {"/v1/responses", "parallel_tool_calls", "b"},
      {"/v1/responses", "reasoning", "o"},
      {"/v1/responses", "include", "as"},
      {"/v1/responses", "max_output_tokens", "i"},
      {"/v1/responses", "text", "o"},
      {"/v1/responses", "background", "b"},
      {"/v1/responses", "thinking_budget", "i"},
      {"/v1/chat/completions", "reasoning_effort", "si"},
      {"/v1/chat/completions", "thinking_budget", "i"},
      {"/v1/chat/completions", "answer_room", "b"},
      {"/v1/chat/completions", "parallel_tool_calls", "b"},
      {"/tokenize", "content", "s"},
      {"/tokenize", "add_special", "b"},
      {"/detokenize", "tokens", "a"},
      {"/apply-template", "messages", "a"}};
  const std::vector<std::pair<char, const char*>> values = {
      {'b', "true"}, {'n', "0.5"},  {'s', "\"x\""}, {'o', "{\"a\":{}}"},
      {'i', "7"},    {'a', "[[]]"}, {'n', "-1e300"}};
  for (const auto& [path, member, kinds] : members) {
    std::string body;
    for (const auto& [good_path, good_body] : kGoodBodies) {
      if (std::string_view(good_path) == path) body = good_body;
    }
    Json good = Json::parse(body);
    for (const auto& [kind, value] : values) {
      if (std::string_view(kinds).find(kind) != std::string_view::npos) continue;
      good[member] = Json::parse(value);
      ExpectRefused(path, ToText(good));
    }
  }
}

TEST_F(MalformedRequestTest, PathsAndMethodsThatAreNone) {
  const auto status = [&](const std::string& method, const std::string& path) {
    HttpRequest request;
    request.method = method;
    request.path = path;
    return handler_(request).response.status;
  };
  for (const std::string path : {"", "*", "/v1", "/v1/", "//v1/models", "/v1/models/../chat",
                                 "/v1/../etc/passwd", "/v1/chat/completions/", "/v1/Messages",
                                 "/v1/responses/a/b/c", "/v1/files/x", "/v2/chat/completions"}) {
    for (const char* method : {"GET", "POST", "PUT", "BREW", ""}) {
      EXPECT_GE(status(method, path), 400) << method << ' ' << path;
      EXPECT_LT(status(method, path), 500) << method << ' ' << path;
    }
  }
  for (const auto& good : kGoodBodies) {
    for (const char* method : {"GET", "PUT", "PATCH", "TRACE"}) {
      // GET /v1/responses/input_tokens asks for a response of that name.
      EXPECT_THAT(status(method, good.path), ::testing::AnyOf(404, 405)) << method << good.path;
    }
  }
}

}  // namespace
}  // namespace holdfast

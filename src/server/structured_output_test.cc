// Formats that replies must have, by every API. What the engine does with a grammar is its own
// test; here it is that the right one is asked for, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "grammar/token_grammar.h"
#include "server/api_fixture.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

class StructuredOutputTest : public ApiFixture {
 protected:
  // Whether the reply to `body`, which must be taken, may be `text`.
  bool MayBe(std::string_view path, const Json& body, std::string_view text) {
    const HttpResponse response = Collect(Send("POST", std::string(path), body.dump()));
    EXPECT_EQ(response.status, 200) << response.body;
    if (response.status != 200) return false;
    const auto grammar = fake_.generator.last_request().grammar;
    EXPECT_NE(grammar, nullptr);
    if (grammar == nullptr) return false;
    Constraint constraint(grammar, /*in_thought=*/false);
    for (const TokenId id : fake_.tokenizer().Encode(text, AddedTokens::kAll)) {
      if (!(*constraint.Mask())->Has(id)) return false;
      EXPECT_TRUE(constraint.Advance(id));
    }
    return (*constraint.Mask())->Has(*fake_.tokenizer().eos());
  }

  void ExpectRefused(std::string_view path, const Json& body, std::string_view param,
                     std::string_view word) {
    const HttpResponse response = Collect(Send("POST", std::string(path), body.dump()));
    EXPECT_EQ(response.status, 400) << response.body;
    const Json error = Json::parse(response.body)["error"];
    if (path != "/v1/messages") {
      EXPECT_EQ(error["param"], param);
    }
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(std::string(word)));
  }
};

const Json kSchema =
    Json::parse(R"({"type":"object","properties":{"city":{"type":"string"}},"required":["city"]})");
constexpr std::string_view kText = R"({"city":"Oslo"})";
constexpr std::string_view kCall =
    "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n"
    "</tool_call>";

Json Body(const char* extra) {
  Json body = {{"max_tokens", 50},
               {"messages", Json::array({{{"role", "user"}, {"content", "Weather in Oslo?"}}})}};
  body.update(Json::parse(extra));
  return body;
}
Json OpenAiTools() {
  return Json::array(
      {{{"type", "function"}, {"function", {{"name", "get_weather"}, {"parameters", kSchema}}}},
       {{"type", "function"}, {"function", {{"name", "wait"}}}}});
}

TEST_F(StructuredOutputTest, OpenAiResponseFormats) {
  constexpr std::string_view kPath = "/v1/chat/completions";
  Json body = Body(R"({"response_format":{"type":"json_object"}})");
  EXPECT_TRUE(MayBe(kPath, body, R"({"any": [1]})"));
  EXPECT_FALSE(MayBe(kPath, body, "[1]"));
  body["response_format"] = {
      {"type", "json_schema"},
      {"json_schema", {{"name", "n"}, {"strict", true}, {"schema", kSchema}}}};
  EXPECT_TRUE(MayBe(kPath, body, kText));
  EXPECT_FALSE(MayBe(kPath, body, "{}"));
  EXPECT_FALSE(MayBe(kPath, body, kCall));
  // A tool may be called instead.
  body["tools"] = OpenAiTools();
  EXPECT_TRUE(MayBe(kPath, body, kText));
  EXPECT_TRUE(MayBe(kPath, body, kCall));
  EXPECT_FALSE(MayBe(kPath, body, "Hello."));
  body["response_format"] = {{"type", "text"}};
  Collect(Send("POST", std::string(kPath), body.dump()));
  EXPECT_EQ(fake_.generator.last_request().grammar, nullptr);
}

TEST_F(StructuredOutputTest, OpenAiToolChoices) {
  constexpr std::string_view kPath = "/v1/chat/completions";
  Json body = Body(R"({"tool_choice":"required"})");
  body["tools"] = OpenAiTools();
  EXPECT_TRUE(MayBe(kPath, body, kCall));
  EXPECT_TRUE(MayBe(kPath, body, std::string(kCall) + "\n" + std::string(kCall)));
  EXPECT_TRUE(MayBe(kPath, body, "<tool_call>\n<function=wait>\n</function>\n</tool_call>"));
  EXPECT_FALSE(MayBe(kPath, body, "Hello."));
  body["parallel_tool_calls"] = false;
  EXPECT_FALSE(MayBe(kPath, body, std::string(kCall) + "\n" + std::string(kCall)));
  body["tool_choice"] = Json::parse(R"({"type":"function","function":{"name":"get_weather"}})");
  EXPECT_TRUE(MayBe(kPath, body, kCall));
  EXPECT_FALSE(MayBe(kPath, body, "<tool_call>\n<function=wait>\n</function>\n</tool_call>"));
  body["tool_choice"]["function"]["name"] = "nobody";
  ExpectRefused(kPath, body, "tool_choice", "nobody");
  body["tool_choice"] = Json::parse(R"({"type":"allowed_tools"})");
  ExpectRefused(kPath, body, "tool_choice", "a function with its name");
  ExpectRefused(kPath, Body(R"({"tool_choice":"required"})"), "tool_choice", "no tools");
  body["tool_choice"] = "required";
  body["tools"][0]["function"]["parameters"]["properties"]["city"]["not"] = Json::object();
  ExpectRefused(kPath, body, "tools[0].function.parameters.properties.city.not", "not supported");
  // Nobody has asked for valid arguments here.
  body["tool_choice"] = "auto";
  EXPECT_EQ(Collect(Send("POST", std::string(kPath), body.dump())).status, 200);
}

TEST_F(StructuredOutputTest, Responses) {
  constexpr std::string_view kPath = "/v1/responses";
  Json body = {{"input", "Weather in Oslo?"}};
  body["text"]["format"] = {{"type", "json_schema"}, {"name", "n"}, {"schema", kSchema}};
  EXPECT_TRUE(MayBe(kPath, body, kText));
  EXPECT_FALSE(MayBe(kPath, body, "Hello."));
  body["text"]["format"]["schema"]["minProperties"] = 1;
  ExpectRefused(kPath, body, "text.format.schema.minProperties", "not supported");
  body.erase("text");
  body["tools"] =
      Json::array({{{"type", "function"}, {"name", "get_weather"}, {"parameters", kSchema}}});
  body["tool_choice"] = "required";
  EXPECT_TRUE(MayBe(kPath, body, kCall));
  body["tool_choice"] = {{"type", "function"}, {"name", "get_weather"}};
  EXPECT_TRUE(MayBe(kPath, body, kCall));
  EXPECT_FALSE(MayBe(kPath, body, "Hello."));
}

TEST_F(StructuredOutputTest, Anthropic) {
  constexpr std::string_view kPath = "/v1/messages";
  Json body = Body(R"({"tool_choice":{"type":"any"}})");
  body["tools"] = Json::array({{{"name", "get_weather"}, {"input_schema", kSchema}},
                               {{"name", "wait"}, {"input_schema", {{"type", "object"}}}}});
  EXPECT_TRUE(MayBe(kPath, body, kCall));
  EXPECT_TRUE(MayBe(kPath, body, "<tool_call>\n<function=wait>\n</function>\n</tool_call>"));
  EXPECT_FALSE(MayBe(kPath, body, "Hello."));
  body["tool_choice"] = {{"type", "tool"}, {"name", "wait"}};
  EXPECT_FALSE(MayBe(kPath, body, kCall));
  ExpectRefused(kPath, Body(R"({"tool_choice":{"type":"any"}})"), "tool_choice", "no tools");
  body["tool_choice"] = {{"type", "tool"}};
  ExpectRefused(kPath, body, "tool_choice.name", "tool_choice.name");
  body["tool_choice"] = {{"type", "any"}};
  body["messages"].push_back({{"role", "assistant"}, {"content", "I"}});
  ExpectRefused(kPath, body, "messages", "cannot begin");
  body = Body(R"({"output_config":{"format":{"type":"json_schema"}}})");
  body["output_config"]["format"]["schema"] = kSchema;
  EXPECT_TRUE(MayBe(kPath, body, kText));
  EXPECT_FALSE(MayBe(kPath, body, "Hello."));
}

}  // namespace
}  // namespace holdfast

#include "server/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/field_reader.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

TEST(JsonTest, KeepsKeyOrderAndUnicode) {
  const Result<Json> json = ParseJson(R"({"z":1,"a":"\u00e9 ü","m":[true,null]})");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(ToText(*json), R"({"z":1,"a":"é ü","m":[true,null]})");
}

TEST(JsonTest, RefusesWhatIsNotJson) {
  for (const std::string& text : std::initializer_list<std::string>{"",
                                                                    " ",
                                                                    "{",
                                                                    "}",
                                                                    "[1,",
                                                                    "{\"a\":}",
                                                                    "{\"a\" 1}",
                                                                    "nul",
                                                                    "NaN",
                                                                    "[NaN]",
                                                                    "[Infinity]",
                                                                    "[1e999]",
                                                                    "\"\xff\"",
                                                                    "\"\xc3\"",
                                                                    "\"\xed\xa0\x80\"",
                                                                    "\"\\ud800\"",
                                                                    "\"a",
                                                                    "\"\x01\"",
                                                                    "{'a':1}",
                                                                    "[1]]",
                                                                    "\xef\xbb",
                                                                    "{\"a\":1}x",
                                                                    "[01]",
                                                                    "[+1]",
                                                                    "[.5]",
                                                                    "// c\n1",
                                                                    std::string("{}\0x", 4)}) {
    const Result<Json> json = ParseJson(text);
    ASSERT_FALSE(json.ok()) << text;
    EXPECT_EQ(json.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(json.status().message(), HasSubstr("not valid JSON")) << text;
    // The message itself can always be sent.
    EXPECT_NO_THROW(ToText(Json(json.status().message())));
  }
}

TEST(JsonTest, DepthAndNumberOfValuesAreLimitedBeforeParsing) {
  const std::string open(101, '['), close(101, ']');
  EXPECT_FALSE(ParseJson(open + close).ok());
  EXPECT_TRUE(ParseJson(open.substr(1) + close.substr(1)).ok());
  EXPECT_FALSE(ParseJson(std::string(10'000'000, '[')).ok());
  EXPECT_FALSE(ParseJson(std::string(10'000'000, '{')).ok());
  std::string wide = "[0";
  for (int i = 0; i < 10; ++i) wide += ",0";
  wide += "]";
  EXPECT_TRUE(ParseJson(wide, {.max_values = 12}).ok());
  EXPECT_FALSE(ParseJson(wide, {.max_values = 11}).ok());
  // Brackets and commas in strings do not count.
  EXPECT_TRUE(ParseJson("\"" + std::string(1000, '[') + "\\\"[\"", {.max_depth = 0}).ok());
}

TEST(FieldReaderTest, ReadsWhatIsThereAndLeavesTheRest) {
  const Json body = Json::parse(R"({"b":true,"i":7,"w":5.0,"f":0.5,"s":"x","n":null,
                                    "l":["p","q"],"one":"r"})");
  FieldReader in(body);
  bool b = false;
  int64_t i = 0, w = 0, n = 42;
  float f = 0;
  std::string s;
  std::vector<std::string> l, one;
  in.Read("b", &b);
  in.Read("i", &i, 0, 10);
  in.Read("w", &w, 0, 10);
  in.Read("f", &f, 0.0, 1.0);
  in.Read("s", &s);
  in.Read("n", &n, 0, 1);
  in.Read("missing", &n, 0, 1);
  in.Read("l", &l);
  in.Read("one", &one);
  ASSERT_TRUE(in.ok()) << in.error().status.ToString();
  EXPECT_TRUE(b);
  EXPECT_EQ(i, 7);
  EXPECT_EQ(w, 5);
  EXPECT_EQ(f, 0.5f);
  EXPECT_EQ(s, "x");
  EXPECT_EQ(n, 42);
  EXPECT_EQ(l, (std::vector<std::string>{"p", "q"}));
  EXPECT_EQ(one, (std::vector<std::string>{"r"}));
}

TEST(FieldReaderTest, TheFirstErrorNamesFieldValueAndRange) {
  const auto error_of = [](const char* text) {
    const Json body = Json::parse(text);
    FieldReader in(body, "options.");
    int64_t value = 0;
    in.Read("value", &value, -1, 10);
    std::string later;
    in.Read("later", &later);
    EXPECT_FALSE(in.ok()) << text;
    EXPECT_EQ(in.error().status.code(), StatusCode::kInvalidArgument);
    return in.error().status.message() + "|" + in.error().param;
  };
  EXPECT_EQ(error_of(R"({"value":11,"later":3})"),
            "options.value is 11, must be an integer from -1 to 10|options.value");
  for (const char* value : {"-2", "1.5", "\"1\"", "true", "[]", "{}", "1e300", "-1e300",
                            "18446744073709551615", "-9223372036854775808", "9007199254740993"}) {
    EXPECT_THAT(error_of(("{\"value\":" + std::string(value) + "}").c_str()),
                HasSubstr("must be an integer"));
  }
  EXPECT_EQ(error_of(R"({"later":3})"), "options.later is 3, must be a string|options.later");
  EXPECT_EQ(error_of("[]"), "options is an array of 0, must be a JSON object|options");
}

TEST(FieldReaderTest, LongValuesAreCutInMessages) {
  const Json body = {{"temperature", std::string(100000, 'x')}};
  FieldReader in(body);
  float temperature = 0;
  in.Read("temperature", &temperature, 0, 2);
  EXPECT_LT(in.error().status.message().size(), 200u);
}

}  // namespace
}  // namespace holdfast

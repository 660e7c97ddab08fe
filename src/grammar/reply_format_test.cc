#include "grammar/reply_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "grammar/test_support.h"
#include "grammar/token_grammar.h"
#include "tests/support/slow_build.h"
#include "token/reply_parser.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;
using Json = ReplyFormat::Json;

ReplyFormat Calling(ReplyFormat::Calls calls, std::string_view schema) {
  return {.text = ReplyFormat::Text::kNone,
          .calls = calls,
          .tools = {{.name = "f", .where = "tools[0]", .parameters = Json::parse(schema)},
                    {.name = "g", .where = "tools[1]", .parameters = nullptr}}};
}

constexpr std::string_view kSchema =
    R"({"type":"object","properties":{"s":{"type":"string"},"n":{"type":"integer"},
        "m":{"type":["string","integer","null"]},"a":{"type":"array","items":{"type":"string"}}},
        "required":["s"]})";

std::string CallOf(std::string_view parameters) {
  return "<tool_call>\n<function=f>\n" + std::string(parameters) + "</function>\n</tool_call>";
}
std::string Parameter(std::string_view key, std::string_view value) {
  return "<parameter=" + std::string(key) + ">\n" + std::string(value) + "\n</parameter>\n";
}

TEST(ReplyFormatTest, ACallHasItsRequiredParametersInTheirTypes) {
  TriedFormat one(Calling(ReplyFormat::Calls::kOne, kSchema));
  ASSERT_TRUE(one.status().ok()) << one.status().ToString();
  const std::string s = Parameter("s", "any \"text\"\n\nof two lines < > </p>");
  EXPECT_TRUE(one.Accepts(CallOf(s)));
  EXPECT_TRUE(one.Accepts(CallOf(Parameter("s", "") + Parameter("n", "-5"))));
  EXPECT_TRUE(one.Accepts(CallOf(s + Parameter("a", R"(["x", "<y>"])"))));
  EXPECT_TRUE(one.Accepts("<tool_call>\n<function=g>\n</function>\n</tool_call>"));
  EXPECT_FALSE(one.Accepts(CallOf("")));
  EXPECT_FALSE(one.Accepts(CallOf(Parameter("n", "1") + s)));
  EXPECT_FALSE(one.Accepts(CallOf(s + Parameter("n", "x"))));
  EXPECT_FALSE(one.Accepts(CallOf(s + Parameter("z", "x"))));
  EXPECT_FALSE(one.Accepts("hello"));
  EXPECT_FALSE(one.Accepts(CallOf(s) + "\n" + CallOf(s)));
  EXPECT_FALSE(one.Accepts(""));
}

TEST(ReplyFormatTest, NoValueHoldsWhatWouldEndIt) {
  TriedFormat one(Calling(ReplyFormat::Calls::kOne, kSchema));
  for (const char* marker : {"</parameter>", "<parameter=n>", "</function>"}) {
    EXPECT_FALSE(
        one.AcceptsBeginning("<tool_call>\n<function=f>\n<parameter=s>\nx" + std::string(marker)));
    EXPECT_FALSE(one.AcceptsBeginning(CallOf(Parameter("s", "x")).substr(0, 60) +
                                      "<parameter=a>\n[\"" + std::string(marker)));
  }
}

TEST(ReplyFormatTest, WhereStringsAndOthersMayStandAStringDoesNotLookLikeAnother) {
  TriedFormat one(Calling(ReplyFormat::Calls::kOne, kSchema));
  const auto accepts = [&](std::string_view value) {
    return one.Accepts(CallOf(Parameter("s", "x") + Parameter("m", value)));
  };
  for (const char* value :
       {"12", "null", "text", "", "nullify", "true story", "\"quoted\"", "x 1"}) {
    EXPECT_TRUE(accepts(value)) << value;
  }
  for (const char* value : {"1.5", "true", "false ", "[1]", "{}", "-0.5e3"}) {
    EXPECT_FALSE(accepts(value)) << value;
  }
}

TEST(ReplyFormatTest, SeveralCallsAreLinesOfTheirOwn) {
  TriedFormat several(Calling(ReplyFormat::Calls::kSeveral, kSchema));
  const std::string call = CallOf(Parameter("s", "x"));
  EXPECT_TRUE(several.Accepts(call));
  EXPECT_TRUE(several.Accepts(call + "\n" + call));
  EXPECT_FALSE(several.Accepts(call + call));
  EXPECT_FALSE(several.Accepts(call + "\n"));
}

TEST(ReplyFormatTest, ATextMayGiveWayToCalls) {
  ReplyFormat format = JsonFormat(R"({"type":"null"})");
  format.calls = ReplyFormat::Calls::kFree;
  TriedFormat either(format);
  EXPECT_TRUE(either.Accepts("null"));
  EXPECT_TRUE(either.Accepts("<tool_call>whatever</tool_call>\n<tool_call></tool_call>"));
  EXPECT_FALSE(either.Accepts("null<tool_call></tool_call>"));
  EXPECT_FALSE(either.Accepts("<tool_call>"));
}

TEST(ReplyFormatTest, ErrorsNameTheirPlace) {
  TriedFormat keyword(
      Calling(ReplyFormat::Calls::kOne, R"({"properties":{"x":{"type":"array","contains":{}}}})"));
  EXPECT_EQ(keyword.where(), "tools[0].properties.x.contains");
  EXPECT_EQ(keyword.status().code(), StatusCode::kUnimplemented);
  TriedFormat of_string(
      Calling(ReplyFormat::Calls::kOne, R"({"properties":{"x":{"type":"string","not":{}}}})"));
  EXPECT_EQ(of_string.where(), "tools[0].properties.x.not");
  TriedFormat overlapping(Calling(
      ReplyFormat::Calls::kOne,
      R"({"properties":{"x":{"oneOf":[{"type":"string"},{"type":"string","maxLength":3}]}}})"));
  EXPECT_EQ(overlapping.where(), "tools[0].properties.x.oneOf");
  TriedFormat no_object(Calling(ReplyFormat::Calls::kOne, R"({"type":"string"})"));
  EXPECT_EQ(no_object.where(), "tools[0].type");
  TriedFormat name(Calling(ReplyFormat::Calls::kOne, R"({"properties":{"a b":{}}})"));
  EXPECT_EQ(name.where(), "tools[0].properties.a b");
}

bool IsValid(const Json& arguments) {
  if (!arguments.is_object() || !arguments.contains("s")) return false;
  for (const auto& [key, value] : arguments.items()) {
    const bool fits =
        key == "s"   ? value.is_string()
        : key == "n" ? value.is_number_integer()
        : key == "m" ? value.is_string() || value.is_number_integer() || value.is_null()
        : key == "a" ? value.is_array() &&
                           std::ranges::all_of(value, [](const Json& v) { return v.is_string(); })
                     : false;
    if (!fits) return false;
  }
  return true;
}

// The parser of replies and the grammar must agree on what a call says.
TEST(ReplyFormatTest, WhateverTheGrammarAllowsIsReadAsAValidCall) {
  const ReplyFormat format = Calling(ReplyFormat::Calls::kOne, kSchema);
  std::string where;
  const auto grammar = std::make_shared<TokenGrammar>(
      *CompileFormat(format, &where), std::make_shared<const TokenTrie>(&DemoTokenizer()));
  Json tool;
  tool["type"] = "function";
  tool["function"] = {{"name", "f"}, {"parameters", format.tools[0].parameters}};
  std::mt19937_64 rng(20261130);
  int n_calls = 0;
  const TokenId vocab_size = static_cast<TokenId>(DemoTokenizer().vocab_size());
  const int n_runs = kSlowBuild && !CheckAll() ? 60 : 300;
  for (int run = 0; run < n_runs; ++run) {
    Constraint constraint(grammar, /*in_thought=*/false);
    ReplyParser parser(&DemoTokenizer(), {.tools = Json::array({tool})});
    std::vector<ReplyEvent> events;
    std::string text;
    bool ended = false;
    // Short texts that look like markers come often: that is where a parser errs.
    const std::vector<TokenId> likely = DemoTokenizer().Encode(
        "<parameter=n>\n</parameter>\n</function>\n12 null \"[", AddedTokens::kNone);
    for (int i = 0; i < 2000 && !ended; ++i) {
      const TokenMask& mask = **constraint.Mask();
      TokenId token = static_cast<TokenId>(rng() % vocab_size);
      for (TokenId i = 0; i < vocab_size && !mask.Has(token); ++i) token = (token + 1) % vocab_size;
      ASSERT_TRUE(mask.Has(token)) << text;
      for (int tries = 0; tries < 4 && rng() % 8 != 0; ++tries) {
        const TokenId wish = likely[rng() % likely.size()];
        if (mask.Has(wish)) token = wish;
      }
      ended = DemoTokenizer().IsEndOfGeneration(token);
      ASSERT_TRUE(constraint.Advance(token));
      text += DemoTokenizer().TokenBytes(token, true);
      for (ReplyEvent& event : parser.Push(token)) events.push_back(std::move(event));
    }
    if (!ended) continue;
    for (ReplyEvent& event : parser.Finish()) events.push_back(std::move(event));
    std::string name, arguments;
    for (const ReplyEvent& event : events) {
      ASSERT_NE(event.kind, ReplyEvent::Kind::kContent) << text;
      if (event.kind == ReplyEvent::Kind::kToolCallBegin) name += event.name;
      if (event.kind == ReplyEvent::Kind::kToolCallArguments) arguments += event.text;
    }
    ++n_calls;
    if (name == "g") continue;
    ASSERT_EQ(name, "f") << text;
    EXPECT_TRUE(IsValid(Json::parse(arguments))) << arguments << " from\n" << text;
  }
  EXPECT_GT(n_calls, n_runs / 6);
}

}  // namespace
}  // namespace holdfast

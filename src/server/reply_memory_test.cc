#include "server/reply_memory.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

Hash128 NameOf(const std::vector<Json>& messages, const Json& tools = nullptr) {
  HistoryName name(tools);
  for (const Json& message : messages) name.Add(message);
  return name.value();
}

Json Parse(const char* text) { return *ParseJson(text); }

TEST(ReplyMemoryTest, SpacingOfArgumentsAndFieldsThatSayNothingDoNotMatter) {
  const Json ours = Parse(R"({"role":"assistant","content":"","tool_calls":[
      {"function":{"name":"f","arguments":"{\"a\": 1,  \"b\": [2]}"}}]})");
  const Json theirs = Parse(R"({"role":"assistant","content":null,"refusal":null,"tool_calls":[
      {"id":"x","type":"function","function":{"name":"f","arguments":{"a":1,"b":[2]}}}]})");
  EXPECT_EQ(NameOf({ours}), NameOf({theirs}));
}

TEST(ReplyMemoryTest, RolesTextsToolsAndTheBordersOfMessagesDo) {
  const Json a = Parse(R"({"role":"user","content":"ab"})");
  EXPECT_NE(NameOf({a}), NameOf({Parse(R"({"role":"assistant","content":"ab"})")}));
  EXPECT_NE(NameOf({a}), NameOf({Parse(R"({"role":"user","content":"a"})")}));
  EXPECT_NE(NameOf({a}), NameOf({a}, Parse(R"([{"type":"function"}])")));
  EXPECT_NE(NameOf({Parse(R"({"role":"user","content":"a"})"),
                    Parse(R"({"role":"user","content":"b"})")}),
            NameOf({a}));
  EXPECT_NE(NameOf({Parse(R"({"role":"assistant","content":"x","reasoning_content":"y"})")}),
            NameOf({Parse(R"({"role":"assistant","content":"x"})")}));
}

GivenReply Given(const Json& message, std::vector<TokenId> tokens) {
  return {.message = message,
          .n_prompt = 1,
          .tokens = std::make_shared<const std::vector<TokenId>>(std::move(tokens))};
}

TEST(ReplyMemoryTest, TheLeastRecentlyUsedIsForgotten) {
  ReplyMemory memory(nullptr, /*max_tokens=*/10);
  const Hash128 a{1, 1}, b{2, 2}, c{3, 3};
  const Json reply = Parse(R"({"role":"assistant","content":"x"})");
  memory.Remember(a, Given(reply, {1, 2, 3, 4}));
  memory.Remember(b, Given(reply, {5, 6, 7, 8}));
  ASSERT_TRUE(memory.Match(a, reply));
  memory.Remember(c, Given(reply, {9, 10, 11}));
  EXPECT_FALSE(memory.Match(b, reply));
  ASSERT_TRUE(memory.Match(a, reply));
  EXPECT_EQ(**memory.TokensOf(*memory.Match(a, reply)), (std::vector<TokenId>{1, 2, 3, 4}));
  memory.Remember(a, Given(reply, {1}));  // the same again replaces
  EXPECT_EQ(memory.Match(a, reply)->n_tokens, 1);
  memory.Remember(b, Given(reply, std::vector<TokenId>(11)));  // more than fits at all
  EXPECT_FALSE(memory.Match(b, reply));
  EXPECT_TRUE(memory.Match(c, reply));
}

TEST(ReplyMemoryTest, OneOfSeveralRepliesToAHistoryIsFoundByWhatItSays) {
  ReplyMemory memory;
  const Hash128 history{1, 1};
  const Json yes = Parse(R"({"role":"assistant","content":"Yes."})"),
             no = Parse(R"({"role":"assistant","content":"No."})");
  memory.Remember(history, Given(yes, {1, 2}));
  memory.Remember(history, Given(no, {1, 3}));
  EXPECT_EQ(**memory.TokensOf(*memory.Match(history, yes)), (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(**memory.TokensOf(*memory.Match(history, no)), (std::vector<TokenId>{1, 3}));
  EXPECT_FALSE(memory.Match(history, Parse(R"({"role":"assistant","content":"Maybe."})")));
}

TEST(ReplyMemoryTest, AToolCallIsFoundByItsIdWhateverCameBefore) {
  ReplyMemory memory;
  const Json given = Parse(R"({"role":"assistant","content":"","tool_calls":[
      {"id":"call_7","function":{"name":"f","arguments":"{\"a\":1}"}}]})");
  memory.Remember({1, 1}, Given(given, {1, 2}));
  EXPECT_TRUE(memory.Match({9, 9}, given));
  Json edited = given;
  edited["tool_calls"][0]["function"]["arguments"] = "{\"a\":2}";
  EXPECT_FALSE(memory.Match({9, 9}, edited));
}

TEST(ReplyMemoryTest, ARecordedReplyIsNamedLikeTheMessageThatComesBack) {
  ReplyRecorder recorder;
  recorder.AddReasoning("hm");
  recorder.AddContent("Let me ");
  recorder.AddContent("look.");
  recorder.BeginToolCall("call_1", "read_file");
  recorder.AddArguments("{\"path\": ");
  recorder.AddArguments("\"/x\"}");
  const Json back = Parse(R"({"role":"assistant","reasoning_content":"hm","content":"Let me look.",
      "tool_calls":[{"id":"other","type":"function",
                     "function":{"name":"read_file","arguments":"{\"path\":\"/x\"}"}}]})");
  EXPECT_EQ(NameOf({recorder.Message()}), NameOf({back}));
}

}  // namespace
}  // namespace holdfast

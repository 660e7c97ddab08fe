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

TEST(ReplyMemoryTest, TheLeastRecentlyUsedIsForgotten) {
  ReplyMemory memory(/*max_tokens=*/10);
  const Hash128 a = NameOf({Parse(R"({"content":"a"})")}),
                b = NameOf({Parse(R"({"content":"b"})")}),
                c = NameOf({Parse(R"({"content":"c"})")});
  memory.Remember(a, {1, 2, 3, 4});
  memory.Remember(b, {5, 6, 7, 8});
  ASSERT_NE(memory.Find(a), nullptr);
  memory.Remember(c, {9, 10, 11});
  EXPECT_EQ(memory.Find(b), nullptr);
  EXPECT_EQ(*memory.Find(a), (std::vector<TokenId>{1, 2, 3, 4}));
  memory.Remember(a, {1});
  EXPECT_EQ(memory.Find(a)->size(), 1u);
  memory.Remember(b, std::vector<TokenId>(11));  // more than fits at all
  EXPECT_EQ(memory.Find(b), nullptr);
  EXPECT_NE(memory.Find(c), nullptr);
}

TEST(ReplyMemoryTest, ARecordedReplyIsNamedLikeTheMessageThatComesBack) {
  ReplyRecorder recorder;
  recorder.AddReasoning("hm");
  recorder.AddContent("Let me ");
  recorder.AddContent("look.");
  recorder.BeginToolCall("read_file");
  recorder.AddArguments("{\"path\": ");
  recorder.AddArguments("\"/x\"}");
  const Json back = Parse(R"({"role":"assistant","reasoning_content":"hm","content":"Let me look.",
      "tool_calls":[{"id":"call_1","type":"function",
                     "function":{"name":"read_file","arguments":"{\"path\":\"/x\"}"}}]})");
  EXPECT_EQ(NameOf({recorder.Message()}), NameOf({back}));
}

}  // namespace
}  // namespace holdfast

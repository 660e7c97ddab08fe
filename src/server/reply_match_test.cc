#include "server/reply_match.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

Json Parse(const char* text) { return *ParseJson(text); }

const Json kGiven = Parse(R"({"role":"assistant","content":"Here it is:\n  x = 1 \nDone. ",
    "reasoning_content":"think first\n","tool_calls":[
    {"id":"call_1","function":{"name":"write","arguments":"{\"path\": \"/a\", \"n\": [1, 2]}"}}]})");

// `kGiven` with other members.
Json Received(const char* members) {
  Json message = kGiven;
  message.update(Parse(members));
  return message;
}

TEST(ReplyMatchTest, WhatClientsDoToAReplyDoesNotMatter) {
  EXPECT_TRUE(IsSameReply(kGiven, kGiven));
  for (const char* members :
       {R"({"reasoning_content":null})", R"({"reasoning_content":"think first"})",
        R"({"content":"Here it is:\r\n  x = 1\r\nDone."})",
        R"({"content":"<think>\nthink first\n</think>\n\nHere it is:\n  x = 1\nDone.",
               "reasoning_content":null})",
        R"({"content":""})", R"({"content":null})",
        R"({"content":"\"Here it is:\\n  x = 1 \\nDone. \""})",
        R"({"content":"[{\"type\":\"text\",\"text\":\"Here it is:\\n  x = 1 \\nDone. \"}]"})",
        R"({"tool_calls":[{"id":"mine","type":"function","function":
               {"name":"write","arguments":"{\"n\":[1,2],\"path\":\"/a\"}"}}]})",
        R"({"tool_calls":[{"function":{"name":"write","arguments":{"n":[1,2],"path":"/a"}}}]})",
        R"({"tool_calls":[{"function":{"name":"write",
               "arguments":"\"{\\\"n\\\":[1,2],\\\"path\\\":\\\"/a\\\"}\""}}]})"}) {
    EXPECT_TRUE(IsSameReply(kGiven, Received(members))) << members;
  }
}

TEST(ReplyMatchTest, AnEditedReplyIsAnother) {
  for (const char* members :
       {R"({"content":"Here it is:\n  x = 2\nDone."})",
        R"({"content":"Here it is:\nx = 1\nDone."})",  // the indentation
        R"({"reasoning_content":"think again"})",
        R"({"content":"<think>other</think>Here it is:\n  x = 1\nDone.",
               "reasoning_content":null})",
        R"({"tool_calls":[]})",
        R"({"tool_calls":[{"function":{"name":"read","arguments":{"n":[1,2],"path":"/a"}}}]})",
        R"({"tool_calls":[{"id":"call_1",
               "function":{"name":"write","arguments":{"n":[2,1],"path":"/a"}}}]})",
        // Without its text a call is known by its id only.
        R"({"content":"","tool_calls":[{"id":"mine",
               "function":{"name":"write","arguments":{"n":[1,2],"path":"/a"}}}]})"}) {
    EXPECT_FALSE(IsSameReply(kGiven, Received(members))) << members;
  }
}

TEST(ReplyMatchTest, ShapesThatAreNoMessagesMatchNothingAndHarmNothing) {
  for (const char* text : {"{}", R"({"tool_calls":5})", R"({"tool_calls":[5]})", R"({"content":5})",
                           R"({"tool_calls":[{"function":7}]})"}) {
    EXPECT_FALSE(IsSameReply(kGiven, Parse(text))) << text;
  }
}

TEST(ReplyMatchTest, AReplyAsGivenKeepsTheIdsOfTheClient) {
  const Json received = Parse(R"({"role":"assistant","content":"Here it is:\n  x = 1\nDone.",
      "tool_calls":[{"id":"mine","type":"function",
                     "function":{"name":"write","arguments":"{\"n\":[1,2],\"path\":\"/a\"}"}}]})");
  const Json message = AsGiven(kGiven, received);
  EXPECT_EQ(message["content"], kGiven["content"]);
  EXPECT_EQ(message["reasoning_content"], kGiven["reasoning_content"]);
  EXPECT_EQ(message["tool_calls"][0]["id"], "mine");
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"],
            kGiven["tool_calls"][0]["function"]["arguments"]);
}

}  // namespace
}  // namespace holdfast

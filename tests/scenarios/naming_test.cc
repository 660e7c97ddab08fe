// Conversations and their names: who keeps one, who gets a new one, and what requests may name.

#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "base/temp_folder.h"
#include "tests/support/served_engine.h"

namespace holdfast {
namespace {

constexpr char kHeader[] = "X-Holdfast-Conversation";

class NamingTest : public ::testing::Test {
 protected:
  NamingTest() { Start(); }
  void Start() {
    served_.reset();
    served_.emplace(EngineOptions{
        .ctx = 4096, .store_dir = dir_.path() + "/store", .autosave = Autosave::kTurn});
  }

  struct Answer {
    std::string conversation, reply;
    int64_t reused = 0, read = 0;
  };
  // Texts are user and assistant in turn.
  Answer Ask(const std::vector<std::string>& texts, const std::string& named = "",
             bool stream = false) {
    Json body;
    for (size_t i = 0; i < texts.size(); ++i) {
      body["messages"].push_back({{"role", i % 2 ? "assistant" : "user"}, {"content", texts[i]}});
    }
    body["max_tokens"] = 30;
    body["stream"] = stream;
    ServedEngine::Headers headers;
    if (!named.empty()) headers.emplace_back("x-holdfast-conversation", named);
    const HttpResponse response =
        served_->Send("POST", "/v1/chat/completions", ToText(body), headers);
    EXPECT_EQ(response.status, 200) << response.body;
    Answer answer;
    for (const auto& [name, value] : response.headers) {
      if (name == kHeader) answer.conversation = value;
    }
    if (stream) return answer;
    const Json json = *ParseJson(response.body);
    EXPECT_EQ(json["conversation"], answer.conversation);
    answer.reply = json["choices"][0]["message"]["content"];
    answer.reused = json["reuse"]["tokens_reused"];
    answer.read = json["reuse"]["tokens_read"];
    return answer;
  }
  std::multiset<std::string> Listed() {
    std::multiset<std::string> ids;
    const Json list = served_->Call("GET", "/v1/conversations").second;
    for (const Json& entry : list["data"]) {
      ids.insert(entry["id"].get<std::string>());
    }
    return ids;
  }

  const TempFolder dir_ = TempFolder::Create("scenario").value();
  std::optional<ServedEngine> served_;
  const std::string hello_ = "My name is Marta and I live in Porto.";
};

TEST_F(NamingTest, WhatExtendsAConversationKeepsItsIdAndWhatLeavesItGetsAnother) {
  const Answer first = Ask({hello_});
  EXPECT_TRUE(first.conversation.starts_with("conv_"));
  const Answer second = Ask({hello_, first.reply, "What is my name?"});
  EXPECT_EQ(second.conversation, first.conversation);
  const Answer other = Ask({hello_, first.reply, "Count from 1 to 9."});
  EXPECT_NE(other.conversation, first.conversation);
  EXPECT_GT(other.reused, other.read);

  Start();
  const Answer third =
      Ask({hello_, first.reply, "What is my name?", second.reply, "Where do I live?"});
  EXPECT_EQ(third.conversation, first.conversation);
  // A beginning of what is stored is not the stored conversation, which stays what it was.
  Start();
  const Answer edited = Ask({hello_, first.reply, "Spell the word harbour."});
  EXPECT_NE(edited.conversation, first.conversation);
  EXPECT_NE(edited.conversation, other.conversation);
  EXPECT_EQ(Listed().count(first.conversation), 1u);
  Start();
  const Answer fourth = Ask({hello_, first.reply, "What is my name?", second.reply,
                             "Where do I live?", third.reply, "Thank you."});
  EXPECT_EQ(fourth.conversation, first.conversation);
  EXPECT_LT(fourth.read, 40);
}

TEST_F(NamingTest, AnUnknownNameIsThatOfTheNewConversation) {
  const Answer first = Ask({hello_}, "work:notes-1");
  EXPECT_EQ(first.conversation, "work:notes-1");
  EXPECT_EQ(Ask({hello_, first.reply, "What is my name?"}).conversation, "work:notes-1");
  EXPECT_EQ(Listed(), std::multiset<std::string>{"work:notes-1"});
  // Known again after a restart, by its tokens and by its name.
  Start();
  EXPECT_EQ(Ask({hello_, first.reply, "What is my name?"}, "work:notes-1").conversation,
            "work:notes-1");
  EXPECT_EQ(Ask({hello_}, "work:notes-1", /*stream=*/true).conversation, "work:notes-1");
}

TEST_F(NamingTest, ANameFollowsTheClientAndNothingIsLost) {
  const Answer first = Ask({hello_}, "chat");
  const Answer second = Ask({hello_, first.reply, "What is my name?"}, "chat");
  // An edit: the name goes on with it, what was said before is kept under an id of its own.
  const Answer edited = Ask({hello_, first.reply, "Where do I live?"}, "chat");
  EXPECT_EQ(edited.conversation, "chat");
  EXPECT_EQ(Listed().size(), 2u);
  // Undone: all of it is still there.
  const Answer undone =
      Ask({hello_, first.reply, "What is my name?", second.reply, "Thank you."}, "chat");
  EXPECT_EQ(undone.conversation, "chat");
  EXPECT_LT(undone.read, 40);
  Start();
  const Answer again = Ask({hello_, first.reply, "Where do I live?", edited.reply, "Thank you."});
  EXPECT_LT(again.read, 40);
  EXPECT_NE(again.conversation, "chat");
}

TEST_F(NamingTest, AForkAndItsOriginGoOnUnderTheirOwnNames) {
  const Answer first = Ask({hello_}, "origin");
  ASSERT_EQ(served_->Call("POST", "/v1/conversations/origin/fork", R"({"id":"copy"})").first, 200);
  for (int restarts = 0; restarts < 2; ++restarts) {
    const std::string question = restarts ? "What is my name?" : "Where do I live?";
    const Answer of_copy = Ask({hello_, first.reply, question + " Say it."}, "copy");
    const Answer of_origin = Ask({hello_, first.reply, question}, "origin");
    EXPECT_EQ(of_copy.conversation, "copy");
    EXPECT_EQ(of_origin.conversation, "origin");
    EXPECT_GT(of_origin.reused, of_origin.read);
    const auto listed = Listed();
    EXPECT_EQ(listed.count("copy") + listed.count("origin"), 2u);
    Start();
  }
  EXPECT_EQ(served_->engine()->persistence()->store()->Show("copy")->info.forked_from, "origin");
}

TEST_F(NamingTest, NamesThatAreNoPlainNamesAreRefused) {
  for (const char* name : {"../x", "a/b", ".hidden", "..", "a b", "a\\b", "caf\xc3\xa9"}) {
    const HttpResponse response = served_->Send("POST", "/v1/chat/completions",
                                                R"({"messages":[{"role":"user","content":"Hi"}]})",
                                                {{"x-holdfast-conversation", name}});
    EXPECT_EQ(response.status, 400) << name;
    EXPECT_NE(response.body.find(kHeader), std::string::npos) << response.body;
  }
  EXPECT_EQ(served_
                ->Send("POST", "/v1/chat/completions", "{}",
                       {{"x-holdfast-conversation", std::string(129, 'a')}})
                .status,
            400);
}

}  // namespace
}  // namespace holdfast

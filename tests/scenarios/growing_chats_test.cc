// Chats that grow turn by turn, as clients keep them: only what is new is read, also where a reply
// went on behind its end token.

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/temp_folder.h"
#include "server/reply_match.h"
#include "tests/support/served_engine.h"

namespace holdfast {
namespace {

struct TurnSeen {
  int64_t n_prompt = 0, n_completion = 0;
  Json reuse;
};

// A chat whose client brings every reply back as it got it.
class Chat {
 public:
  explicit Chat(std::string name) : name_(std::move(name)) {}

  TurnSeen Turn(ServedEngine* served, int round) {
    messages_.push_back({{"role", "user"},
                         {"content", name_ + ", part " + std::to_string(round) +
                                         ": what comes next in the story of the fox?"}});
    const Json answer = served->Chat({{"messages", messages_},
                                      {"ignore_eos", true},
                                      {"seed", round},
                                      {"max_tokens", 60 + 50 * (round % 4)}});
    messages_.push_back(answer["choices"][0]["message"]);
    return {answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"],
            answer["reuse"]};
  }

 private:
  const std::string name_;
  Json messages_ = Json::array();
};

// The tokens of the turn before are all there, but for the last of its reply, which was no row yet.
void ExpectOnlyNewTokensWereRead(const std::vector<TurnSeen>& turns) {
  for (size_t i = 1; i < turns.size(); ++i) {
    EXPECT_GE(turns[i].reuse["tokens_reused"].get<int64_t>(),
              turns[i - 1].n_prompt + turns[i - 1].n_completion - 1)
        << "turn " << i << " of " << turns[i].n_prompt << " tokens: " << turns[i].reuse;
  }
}

TEST(GrowingChatsTest, TwoAtOnceReadOnlyWhatIsNew) {
  ServedEngine served({.ctx = 8192});
  std::vector<TurnSeen> turns[2];
  std::vector<std::thread> clients;
  for (int c = 0; c < 2; ++c) {
    clients.emplace_back([&, c] {
      Chat chat(c == 0 ? "Marta" : "Jonas");
      for (int round = 0; round < 12; ++round) turns[c].push_back(chat.Turn(&served, round));
    });
  }
  for (std::thread& client : clients) client.join();
  for (const auto& of_one : turns) ExpectOnlyNewTokensWereRead(of_one);
}

TEST(GrowingChatsTest, AfterARestartToo) {
  const TempFolder dir = TempFolder::Create("scenario").value();
  const EngineOptions options{
      .ctx = 8192, .store_dir = dir.path() + "/store", .autosave = Autosave::kTurn};
  std::vector<TurnSeen> turns;
  Chat chat("Marta");
  for (int run = 0; run < 2; ++run) {
    ServedEngine served(options);
    for (int round = 0; round < 4; ++round) turns.push_back(chat.Turn(&served, 4 * run + round));
  }
  ExpectOnlyNewTokensWereRead(turns);
  EXPECT_EQ(turns[4].reuse["source"], "disk");
}

// A second chat that begins like a long one goes on behind the first question.
TEST(GrowingChatsTest, TheFirstQuestionStaysKnown) {
  ServedEngine served({.ctx = 8192});
  Chat chat("Marta");
  const TurnSeen first = chat.Turn(&served, 0);
  for (int round = 1; round < 8; ++round) chat.Turn(&served, round);
  const TurnSeen again = Chat("Marta").Turn(&served, 0);
  ASSERT_EQ(again.n_prompt, first.n_prompt);
  // Up to the generation prompt: <|im_start|>assistant, a line end, and an empty thought.
  EXPECT_GE(again.reuse["tokens_reused"].get<int64_t>(), first.n_prompt - 8) << again.reuse;
}

}  // namespace
}  // namespace holdfast

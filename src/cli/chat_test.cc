#include "cli/chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <sstream>
#include <thread>

#include "cli/line_reader.h"
#include "server/fake_generator.h"

namespace holdfast::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ChatTest : public ::testing::Test {
 protected:
  // What is printed for these lines of input.
  std::string Talk(const std::string& input, bool interactive = false, ChatOptions options = {}) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    EXPECT_EQ(::write(ends[1], input.data(), input.size()), static_cast<ssize_t>(input.size()));
    ::close(ends[1]);
    std::ostringstream out;
    status_ = ChatLoop(fake_.service, options, ends[0], interactive, out);
    ::close(ends[0]);
    return out.str();
  }
  std::string Prompt(size_t i) {
    return fake_.tokenizer().Decode(fake_.generator.requests().at(i).prompt, true);
  }

  FakeService fake_;
  Status status_;
};

TEST_F(ChatTest, ThroughAPipeOnlyRepliesArePrinted) {
  EXPECT_EQ(Talk("Hi\n\n  \nBye"), "Hello there.\nHello there.\n");
  EXPECT_TRUE(status_.ok());
  ASSERT_EQ(fake_.generator.requests().size(), 2u);
  EXPECT_THAT(Prompt(1), HasSubstr("Hi<|im_end|>"));
  EXPECT_THAT(Prompt(1), HasSubstr("Hello there.<|im_end|>\n<|im_start|>user\nBye"));
}

TEST_F(ChatTest, CommandsChangeTheConversation) {
  ChatOptions options;
  options.system = "Be kind.";
  const std::string text = Talk(
      "One\n/undo\nTwo\n/retry\n/new\nThree\n/system Be brief.\nFour\n/think on\nFive\n/nonsense\n"
      "/stats\n/quit\nnever\n",
      /*interactive=*/true, options);
  const auto requests = fake_.generator.requests();
  ASSERT_EQ(requests.size(), 6u);
  EXPECT_THAT(Prompt(0), HasSubstr("Be kind."));
  EXPECT_THAT(Prompt(1), Not(HasSubstr("One")));  // undone
  EXPECT_EQ(Prompt(2), Prompt(1));                // asked again
  EXPECT_THAT(Prompt(3), Not(HasSubstr("Two")));  // forgotten
  EXPECT_THAT(Prompt(3), HasSubstr("Be kind."));
  EXPECT_THAT(Prompt(4), HasSubstr("Be brief."));
  EXPECT_TRUE(Prompt(5).ends_with("<think>\n"));
  EXPECT_THAT(text, HasSubstr("/help lists the commands"));
  EXPECT_THAT(text, HasSubstr("tokens/s"));
}

TEST_F(ChatTest, AMessageThatCannotBeAnsweredIsNotKept) {
  fake_.generator.context = 40;
  const std::string text = Talk(std::string(500, 'x') + "\nHi\n");
  EXPECT_EQ(text, "Hello there.\n");
  EXPECT_FALSE(status_.ok());  // a script must see it
  EXPECT_THAT(Prompt(0), Not(HasSubstr("xxx")));
}

TEST_F(ChatTest, CtrlCStopsTheReplyAndNotTheChat) {
  fake_.generator.Hold();
  std::thread presser([this] {
    ASSERT_TRUE(fake_.generator.WaitForRequests(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    ::kill(::getpid(), SIGINT);
    ASSERT_TRUE(fake_.generator.WaitForCancelled(1));
    fake_.generator.Release();
  });
  const std::string text = Talk("Hi\nBye\n");
  presser.join();
  EXPECT_EQ(text, "\nHello there.\n");
  EXPECT_TRUE(status_.ok());
}

TEST(LineReaderTest, CutsLinesAndKeepsTheLast) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string input = "one\r\n\ntwo";
  ASSERT_EQ(::write(ends[1], input.data(), input.size()), static_cast<ssize_t>(input.size()));
  ::close(ends[1]);
  LineReader reader(ends[0]);
  std::string line;
  EXPECT_EQ(reader.Next(&line), LineReader::Outcome::kLine);
  EXPECT_EQ(line, "one");
  EXPECT_EQ(reader.Next(&line), LineReader::Outcome::kLine);
  EXPECT_EQ(line, "");
  EXPECT_EQ(reader.Next(&line), LineReader::Outcome::kLine);
  EXPECT_EQ(line, "two");
  EXPECT_EQ(reader.Next(&line), LineReader::Outcome::kEnd);
  ::close(ends[0]);
}

}  // namespace
}  // namespace holdfast::cli

#include "server/billing_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api_fixture.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string Pinned(std::string text) {
  PinBillingLine(&text);
  return text;
}

TEST(BillingLineTest, TheLineAtTheVeryStartIsReplaced) {
  const std::string pinned = "x-anthropic-billing-header: pinned;";
  for (const std::string line :
       {"x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=fa690;",
        "x-anthropic-billing-header: cc_version=2.1.177.01c; cc_entrypoint=sdk-cli; cch=;",
        "x-anthropic-billing-header: cch=00000;", "x-anthropic-billing-header:cch=1;b=2;"}) {
    EXPECT_EQ(Pinned(line), pinned);
    EXPECT_EQ(Pinned(line + "\nYou are a tool."), pinned + "\nYou are a tool.");
    EXPECT_EQ(Pinned(line + "You are a tool."), pinned + "You are a tool.");
    EXPECT_EQ(Pinned(line + "\n" + line), pinned + "\n" + line);
  }
}

TEST(BillingLineTest, NothingElseIsTouched) {
  for (const std::string text :
       {"", "You are a tool.", " x-anthropic-billing-header: cch=1;",
        "\nx-anthropic-billing-header: cch=1;", "You said:\nx-anthropic-billing-header: cch=1;",
        "x-anthropic-billing-header:", "x-anthropic-billing-header: what is that?",
        "x-anthropic-billing-header: cch", "x-anthropic-billing-header: cch=1",
        "x-anthropic-billing-header: cch=1\n;", "X-Anthropic-Billing-Header: cch=1;",
        "x-anthropic-other-header: cch=1;"}) {
    EXPECT_EQ(Pinned(text), text);
  }
  const std::string endless = "x-anthropic-billing-header: cch=" + std::string(5000, '1') + ";";
  EXPECT_EQ(Pinned(endless), endless);
}

class BillingLineApiTest : public ApiFixture {
 protected:
  static Json Body(const std::string& cch) {
    return {{"max_tokens", 10},
            {"system", Json::array({{{"type", "text"},
                                     {"text",
                                      "x-anthropic-billing-header: cc_version=2.1.37.0d9; "
                                      "cc_entrypoint=cli; cch=" +
                                          cch + ";"}},
                                    {{"type", "text"}, {"text", "You are a tool."}}})},
            {"messages", Json::array({{{"role", "user"}, {"content", "Hi"}}})}};
  }
};

TEST_F(BillingLineApiTest, TwoRequestsHaveOnePromptAndItIsSaid) {
  const Json reply = PostJson("/v1/messages", Body("fa690"));
  const std::vector<TokenId> prompt = fake_.generator.last_request().prompt;
  EXPECT_THAT(reply["reuse"]["reason"].get<std::string>(), HasSubstr(kBillingLineNote));
  EXPECT_THAT(PromptText(), StartsWith("<|im_start|>system\nx-anthropic-billing-header: pinned;\n"
                                       "You are a tool.<|im_end|>"));
  PostJson("/v1/messages", Body("01234"));
  EXPECT_EQ(fake_.generator.last_request().prompt, prompt);

  // However it comes.
  const Json system = {{"role", "system"},
                       {"content", "x-anthropic-billing-header: cch=1;\nYou are a tool."}};
  const Json user = {{"role", "user"}, {"content", "Hi"}};
  PostJson("/v1/chat/completions", {{"messages", Json::array({system, user})}});
  EXPECT_EQ(fake_.generator.last_request().prompt, prompt);
  PostJson("/v1/responses", {{"input", "Hi"}, {"instructions", system["content"]}});
  EXPECT_EQ(fake_.generator.last_request().prompt, prompt);
  // But not from a user.
  PostJson("/v1/chat/completions",
           {{"messages", Json::array({{{"role", "user"}, {"content", system["content"]}}})}});
  EXPECT_THAT(PromptText(), HasSubstr("cch=1;"));
}

TEST_F(BillingLineApiTest, ItCanBeSwitchedOff) {
  auto service = std::make_shared<ModelService>(*fake_.service);
  service->pin_billing_line = false;
  state_.Set(service);
  const Json reply = PostJson("/v1/messages", Body("fa690"));
  EXPECT_THAT(PromptText(), HasSubstr("cch=fa690;"));
  EXPECT_THAT(reply["reuse"]["reason"].get<std::string>(), Not(HasSubstr("billing")));
}

}  // namespace
}  // namespace holdfast

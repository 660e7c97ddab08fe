#include "server/llama_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api_fixture.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LlamaApiTest : public ApiFixture {};

TEST_F(LlamaApiTest, PropsTellTheContextAndTheTemplate) {
  const HttpResponse response = Call("GET", "/props");
  ASSERT_EQ(response.status, 200);
  const Json props = Json::parse(response.body);
  EXPECT_EQ(props["default_generation_settings"]["n_ctx"], 4096);
  EXPECT_EQ(props["model_alias"], "holdfast-demo");
  EXPECT_EQ(props["eos_token"], "<|im_end|>");
  EXPECT_THAT(props["chat_template"].get<std::string>(), HasSubstr("add_generation_prompt"));
  EXPECT_EQ(props["modalities"]["vision"], false);
}

TEST_F(LlamaApiTest, TextGoesToTokensAndBack) {
  const std::string text = "Grüße <|im_start|>👋🏽 naïve";
  const Json tokens = PostJson("/tokenize", {{"content", text}})["tokens"];
  EXPECT_EQ(tokens, Json(fake_.tokenizer().Encode(text, AddedTokens::kAll)));
  EXPECT_EQ(PostJson("/detokenize", {{"tokens", tokens}})["content"], text);
  const Json plain = PostJson("/tokenize", {{"content", text}, {"parse_special", false}})["tokens"];
  EXPECT_GT(plain.size(), tokens.size());
  EXPECT_EQ(PostJson("/detokenize", {{"tokens", plain}})["content"], text);

  std::string joined;
  const Json pieces = PostJson("/tokenize", {{"content", text}, {"with_pieces", true}})["tokens"];
  for (const Json& piece : pieces) {
    if (piece["piece"].is_string()) {
      joined += piece["piece"].get<std::string>();
    } else {
      for (const Json& byte : piece["piece"]) joined += static_cast<char>(byte.get<int>());
    }
  }
  EXPECT_EQ(joined, text);
  EXPECT_EQ(pieces.size(), tokens.size());
}

TEST_F(LlamaApiTest, ATemplateIsAppliedWithoutReading) {
  const Json body = {{"messages", Json::array({{{"role", "user"}, {"content", "Hi"}}})}};
  EXPECT_EQ(PostJson("/apply-template", body)["prompt"],
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
  EXPECT_TRUE(fake_.generator.requests().empty());
}

TEST_F(LlamaApiTest, WhatThereIsNotIsSaidClearly) {
  for (const auto& [path, why] : kUnsupportedPaths) {
    const HttpResponse response = Call("POST", path, R"({"input":"a"})");
    EXPECT_EQ(response.status, 400) << path;
    const Json error = Json::parse(response.body)["error"];
    EXPECT_EQ(error["code"], "unsupported");
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(path));
  }
}

TEST_F(LlamaApiTest, WrongFieldsAreNamed) {
  const auto expect = [&](const char* path, const std::string& body, const std::string& param) {
    const HttpResponse response = Call("POST", path, body);
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_EQ(Json::parse(response.body)["error"]["param"], param) << response.body;
  };
  expect("/tokenize", "{}", "content");
  expect("/tokenize", R"({"content":7})", "content");
  expect("/tokenize", R"({"content":"a","with_pieces":1})", "with_pieces");
  expect("/detokenize", "{}", "tokens");
  expect("/detokenize", R"({"tokens":"a"})", "tokens");
  expect("/detokenize", R"({"tokens":[1,-1]})", "tokens[1]");
  expect("/detokenize", R"({"tokens":[99999999999]})", "tokens[0]");
  expect("/apply-template", "{}", "messages");
}

TEST_F(LlamaApiTest, ACompletionMayEchoItsPrompt) {
  const Json whole = PostJson("/v1/completions", {{"prompt", "Once upon"}, {"echo", true}});
  EXPECT_EQ(whole["choices"][0]["text"], "Once uponHello there.");
  const HttpResponse stream =
      Post("/v1/completions", {{"prompt", "Once upon"}, {"echo", true}, {"stream", true}});
  EXPECT_THAT(stream.body, HasSubstr(R"("text":"Once upon")"));
}

}  // namespace
}  // namespace holdfast

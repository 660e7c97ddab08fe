#include "token/vocabulary.h"

#include <functional>

#include "token/byte_symbols.h"
#include "token/test_support.h"
#include "weights/gguf_writer.h"

namespace holdfast {
namespace {

// 256 bytes, "ab", "abc", a control and a user-defined token, one unused.
VocabularyData SmallVocabulary() {
  VocabularyData data;
  for (int byte = 0; byte < 256; ++byte) {
    data.tokens.push_back(ByteSymbol(static_cast<uint8_t>(byte)));
  }
  for (const char* text : {"ab", "abc", "<|im_end|>", "<think>", "[PAD260]"}) {
    data.tokens.emplace_back(text);
  }
  data.types.assign(258, TokenType::kNormal);
  data.types.insert(data.types.end(),
                    {TokenType::kControl, TokenType::kUserDefined, TokenType::kUnused});
  data.merges = {"a b", "ab c"};
  data.pre = "qwen35";
  data.eos = 258;
  return data;
}

TEST(VocabularyTest, TheSmallestVocabularyWorks) {
  const auto tokenizer = Tokenizer::Create(SmallVocabulary());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  EXPECT_EQ((*tokenizer)->Encode("abcab<think>", AddedTokens::kAll),
            (std::vector<TokenId>{257, 256, 259}));
}

TEST(VocabularyTest, RefusesEachKindOfDamageNamingKeyAndValue) {
  struct Case {
    std::function<void(VocabularyData*)> damage;
    std::string message;  // a part of it
  };
  const std::vector<Case> cases = {
      {[](auto* d) { d->tokens.clear(); }, "tokens is empty"},
      {[](auto* d) { d->types.pop_back(); }, "token_type has 260 entries"},
      {[](auto* d) { d->types[3] = static_cast<TokenType>(7); }, "token_type[3] is 7"},
      {[](auto* d) { d->types[3] = static_cast<TokenType>(-1); }, "token_type[3] is -1"},
      {[](auto* d) { d->types[3] = TokenType::kByte; }, "token_type[3] is 6"},
      {[](auto* d) { d->tokens[260] = ""; }, "tokens[260] = \"\": the text is empty"},
      {[](auto* d) { d->tokens[257] = "ab"; }, "token 256 has the same text"},
      {[](auto* d) { d->tokens[257] = "a b"; }, "byte-to-unicode form"},
      {[](auto* d) { d->tokens[258] = "\xFF"; }, "not valid UTF-8"},
      {[](auto* d) { d->tokens[258] = std::string(257, 'x'); }, "the limit is 256"},
      {[](auto* d) { d->tokens[65] = "zz"; }, "no normal token"},
      {[](auto* d) { d->types[65] = TokenType::kControl; }, "for byte 65"},
      {[](auto* d) { d->merges[0] = "ab"; }, "one space between"},
      {[](auto* d) { d->merges[0] = "a b c"; }, "one space between"},
      {[](auto* d) { d->merges[0] = "a q"; }, "the result \"aq\""},
      {[](auto* d) { d->merges[0] = "a xx"; }, "\"xx\" is no normal token"},
      {[](auto* d) { d->merges[0] = " b"; }, "\"\" is no normal token"},
      {[](auto* d) { d->merges[1] = "a b"; }, "the same as merge 0"},
      {[](auto* d) { d->eos = 261; }, "eos_token_id is 261"},
      {[](auto* d) { d->bos = -1; }, "bos_token_id is -1"},
      {[](auto* d) { d->eot = 1 << 30; }, "eot_token_id"},
      {[](auto* d) { d->pad = 5000; }, "padding_token_id is 5000"},
      {[](auto* d) { d->add_bos = true; }, "add_bos_token"},
  };
  for (const Case& test : cases) {
    VocabularyData data = SmallVocabulary();
    test.damage(&data);
    const auto tokenizer = Tokenizer::Create(data);
    ASSERT_FALSE(tokenizer.ok()) << test.message;
    EXPECT_EQ(tokenizer.status().code(), StatusCode::kDataLoss);
    EXPECT_THAT(tokenizer.status().message(), testing::HasSubstr(test.message));
  }
}

TEST(VocabularyTest, OtherPreTokenizersAreNotSupported) {
  VocabularyData data = SmallVocabulary();
  data.pre = "llama-bpe";
  const auto tokenizer = Tokenizer::Create(data);
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().code(), StatusCode::kUnimplemented);
  EXPECT_THAT(tokenizer.status().message(), testing::HasSubstr("llama-bpe"));
}

TEST(VocabularyTest, Qwen2DoesNotJoinMarksToLetters) {
  VocabularyData data = SmallVocabulary();
  data.tokens[256] =
      "bĠ";  // "b" + space never meet inside a piece; a letter and a mark do or do not
  data.tokens[257] = "bÌ";  // b + CC, the first byte of U+0300
  data.merges = {"b Ì"};
  const std::string text = "b\xCC\x80";
  const auto joined = Tokenizer::Create(data, {.normalise = false});
  ASSERT_TRUE(joined.ok()) << joined.status().ToString();
  EXPECT_EQ((*joined)->Encode(text, AddedTokens::kAll).front(), 257);
  data.pre = "qwen2";
  const auto split = Tokenizer::Create(data, {.normalise = false});
  EXPECT_EQ((*split)->Encode(text, AddedTokens::kAll).size(), 3u);
}

TEST(VocabularyTest, ReadsTheKeysOfAFile) {
  const VocabularyData demo = ReadVocabularyOf(kDemoModel);
  EXPECT_EQ(demo.pre, "qwen35");
  EXPECT_FALSE(demo.add_bos);
  EXPECT_NE(demo.chat_template, "");
  EXPECT_EQ(demo.types.size(), demo.tokens.size());
  EXPECT_TRUE(demo.eos.has_value());
}

// A file with `model` as tokenizer.ggml.model and the small vocabulary's tokens.
std::vector<std::byte> FileBytes(const std::string& model, const VocabularyData& data) {
  GgufWriter writer;
  writer.SetString("general.architecture", "qwen4exp");
  if (!model.empty()) writer.SetString("tokenizer.ggml.model", model);
  writer.SetString("tokenizer.ggml.pre", data.pre);
  writer.SetStrings("tokenizer.ggml.tokens", data.tokens);
  writer.SetStrings("tokenizer.ggml.merges", data.merges);
  std::vector<int64_t> types;
  for (const TokenType type : data.types) types.push_back(static_cast<int64_t>(type));
  writer.SetInts("tokenizer.ggml.token_type", GgufType::kI32, types);
  writer.SetU32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(*data.eos));
  return writer.ToBytes();
}

TEST(VocabularyTest, AFileIsReadRefusedOrSaidToHaveNoTokenizer) {
  const auto read = [](const std::string& model, const VocabularyData& data) {
    const std::vector<std::byte> bytes = FileBytes(model, data);
    const auto file = GgufFile::Parse(bytes, "small.gguf");
    EXPECT_TRUE(file.ok()) << file.status().ToString();
    return ReadVocabulary(**file).status();
  };
  const VocabularyData good = SmallVocabulary();
  EXPECT_TRUE(read("gpt2", good).ok()) << read("gpt2", good).ToString();
  EXPECT_EQ(read("", good).code(), StatusCode::kNotFound);
  EXPECT_EQ(read("none", good).code(), StatusCode::kNotFound);
  EXPECT_EQ(read("llama", good).code(), StatusCode::kUnimplemented);
  VocabularyData bad = good;
  bad.eos = 400;
  EXPECT_THAT(read("gpt2", bad).message(), testing::HasSubstr("small.gguf: tokenizer.ggml.eos"));
}

}  // namespace
}  // namespace holdfast

#include "token/detokenizer.h"

#include <random>

#include "token/test_support.h"
#include "token/utf8.h"

namespace holdfast {
namespace {

TEST(DetokenizerTest, NeverSplitsACharacterAndAddsUpToTheWholeText) {
  const Tokenizer& tokenizer = TinyTokenizer();
  const std::string text = "😀 안녕 <think>今天 é\n\xF0\x9F<|im_end|>ok";
  const std::vector<TokenId> ids = tokenizer.Encode(text, AddedTokens::kAll);
  for (const bool include_control : {false, true}) {
    Detokenizer detokenizer(&tokenizer, include_control);
    std::string all;
    size_t n_empty = 0;
    for (const TokenId id : ids) {
      const std::string part = detokenizer.Push(id);
      EXPECT_TRUE(IsValidUtf8(part));
      n_empty += part.empty() ? 1 : 0;
      all += part;
    }
    all += detokenizer.Flush();
    EXPECT_EQ(all, tokenizer.Decode(ids, include_control));
    EXPECT_GT(n_empty, 5u);  // the emoji and the Korean syllables are single bytes here
  }
}

TEST(DetokenizerTest, RandomIdsStreamToWhatDecodeGives) {
  constexpr unsigned kSeed = 11;
  std::mt19937 random(kSeed);
  const Tokenizer& tokenizer = TinyTokenizer();
  for (int round = 0; round < 200; ++round) {
    std::vector<TokenId> ids(random() % 40);
    for (TokenId& id : ids)
      id = static_cast<TokenId>(random() % 2 == 0 ? random() % 256 : random() % 2060);
    Detokenizer detokenizer(&tokenizer, true);
    std::string all;
    for (const TokenId id : ids) {
      const std::string part = detokenizer.Push(id);
      ASSERT_TRUE(IsValidUtf8(part)) << "seed " << kSeed;
      all += part;
    }
    all += detokenizer.Flush();
    ASSERT_EQ(all, tokenizer.Decode(ids, true)) << "seed " << kSeed;
  }
}

TEST(DetokenizerTest, FlushEndsAnUnfinishedCharacterOnce) {
  const Tokenizer& tokenizer = TinyTokenizer();
  Detokenizer detokenizer(&tokenizer);
  const std::vector<TokenId> ids = tokenizer.Encode("안", AddedTokens::kAll);
  ASSERT_EQ(ids.size(), 3u);
  EXPECT_EQ(detokenizer.Push(ids[0]), "");
  EXPECT_EQ(detokenizer.Push(ids[1]), "");
  EXPECT_EQ(detokenizer.Flush(), "\xEF\xBF\xBD");
  EXPECT_EQ(detokenizer.Flush(), "");
}

}  // namespace
}  // namespace holdfast

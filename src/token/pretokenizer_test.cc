#include "token/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "token/utf8.h"

namespace holdfast {
namespace {

using Pieces = std::vector<std::string_view>;

Pieces Split(std::string_view text, std::string_view name = "qwen35") {
  const auto pretokenizer = Pretokenizer::Create(name);
  EXPECT_TRUE(pretokenizer.ok());
  return pretokenizer->Split(text);
}

// Derived by hand from the expression in spec/tokenizer.md, alternative by alternative.
TEST(PretokenizerTest, SplitsAsTheExpressionSays) {
  EXPECT_EQ(Split(""), Pieces{});
  EXPECT_EQ(Split("I'm 12 x"), (Pieces{"I", "'m", " ", "1", "2", " x"}));
  EXPECT_EQ(Split("it'S we'LL o'clock"), (Pieces{"it", "'S", " we", "'LL", " o", "'clock"}));
  EXPECT_EQ(Split("  \n  x\r\n\r\ny"), (Pieces{"  \n", " ", " x", "\r\n\r\n", "y"}));
  EXPECT_EQ(Split("a  "), (Pieces{"a", "  "}));
  EXPECT_EQ(Split("a   b"), (Pieces{"a", "  ", " b"}));
  EXPECT_EQ(Split("x ... !?\n\ny"), (Pieces{"x", " ...", " !?\n\n", "y"}));
  EXPECT_EQ(Split("(abc)"), (Pieces{"(abc", ")"}));
  EXPECT_EQ(Split("\xC2\xA0 x"), (Pieces{"\xC2\xA0", " x"}));  // no-break space is \s
}

TEST(PretokenizerTest, MarksJoinLettersInQwen35Only) {
  EXPECT_EQ(Split("e\xCC\x81t"), (Pieces{"e\xCC\x81t"}));
  EXPECT_EQ(Split("e\xCC\x81t", "qwen2"), (Pieces{"e", "\xCC\x81t"}));
}

TEST(PretokenizerTest, TheMongolianVowelSeparatorIsNoSpace) {
  EXPECT_EQ(Split("\xE1\xA0\x8E!"), (Pieces{"\xE1\xA0\x8E!"}));
}

TEST(PretokenizerTest, PiecesJoinToTheText) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (uint32_t n = random() % 50; n > 0; --n) {
      const uint32_t c = random() % 2 == 0 ? random() % 0x80 : random() % 0x30000;
      AppendUtf8(c >= 0xD800 && c < 0xE000 ? 0xA0 : c, &text);
    }
    std::string joined;
    for (const std::string_view piece : Split(text)) {
      EXPECT_FALSE(piece.empty());
      joined += piece;
    }
    ASSERT_EQ(joined, text);
  }
}

}  // namespace
}  // namespace holdfast

#include "token/utf8.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

constexpr char kR[] = "\xEF\xBF\xBD";

TEST(Utf8Test, WritesAndReadsTheEdgesOfEveryLength) {
  for (const char32_t c :
       {0x00u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xD7FFu, 0xE000u, 0xFFFFu, 0x10000u, 0x10FFFFu}) {
    std::string text;
    AppendUtf8(c, &text);
    const Utf8Char read = ReadUtf8(text);
    EXPECT_EQ(read.kind, Utf8Char::Kind::kValid);
    EXPECT_EQ(read.code_point, c);
    EXPECT_EQ(read.n_bytes, text.size());
    for (size_t n = 1; n < text.size(); ++n) {
      EXPECT_EQ(ReadUtf8(std::string_view(text).substr(0, n)).kind, Utf8Char::Kind::kIncomplete);
    }
  }
}

TEST(Utf8Test, RefusesOverlongSurrogatesAndBeyondTheEnd) {
  for (const char* bad :
       {"\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\x80", "\xFF"}) {
    EXPECT_EQ(ReadUtf8(bad).kind, Utf8Char::Kind::kInvalid) << bad;
    EXPECT_FALSE(IsValidUtf8(bad));
  }
}

TEST(Utf8Test, RepairsOnePerMaximalSequence) {
  // Unicode's own example in chapter 3.9, table 3-8 and 3-11.
  EXPECT_EQ(RepairUtf8("\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            std::string(kR) + kR + kR + "b" + kR + "c" + kR + kR + "d");
  EXPECT_EQ(RepairUtf8("\xE1\x80"), kR);
}

TEST(Utf8Test, KeepsAnIncompleteCharacterForLater) {
  std::string pending = "a\xE2\x82";
  EXPECT_EQ(TakeCompleteUtf8(&pending), "a");
  EXPECT_EQ(pending, "\xE2\x82");
  pending += "\xAC";
  EXPECT_EQ(TakeCompleteUtf8(&pending), "€");
  EXPECT_EQ(pending, "");
}

}  // namespace
}  // namespace holdfast

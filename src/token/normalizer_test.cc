#include "token/normalizer.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <random>

#include "token/utf8.h"

namespace holdfast {
namespace {

// utf8proc's own NFC, which takes quadratic time on long runs of marks.
std::string Reference(const std::string& text) {
  utf8proc_uint8_t* out = utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
  std::string result(reinterpret_cast<const char*>(out));
  std::free(out);
  return result;
}

TEST(NormalizerTest, ComposesAndOrders) {
  EXPECT_EQ(NormalizeNfc("e\xCC\x81"), "é");
  EXPECT_EQ(NormalizeNfc("\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB"), "한");
  EXPECT_EQ(NormalizeNfc("\xE2\x84\xAB"), "Å");  // the Angstrom sign
  // Dot below goes before the acute whatever the order; q composes with neither.
  EXPECT_EQ(NormalizeNfc("q\xCC\x81\xCC\xA3"), "q\xCC\xA3\xCC\x81");
  EXPECT_EQ(NormalizeNfc(""), "");
}

TEST(NormalizerTest, RandomTextsEqualUtf8proc) {
  constexpr unsigned kSeed = 3;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (uint32_t n = random() % 12; n > 0; --n) {
      const uint32_t choice = random() % 5;
      const uint32_t c = choice == 0   ? 0x41 + random() % 26
                         : choice == 1 ? 0x300 + random() % 0x70
                         : choice == 2 ? 0x1100 + random() % 0x100
                         : choice == 3 ? 0xC0 + random() % 0x200
                                       : 1 + random() % 0x1F000;
      AppendUtf8(c >= 0xD800 && c < 0xE000 ? 0x20 : c, &text);
    }
    ASSERT_EQ(NormalizeNfc(text), Reference(text)) << "seed " << kSeed << " round " << round;
    if (IsTriviallyNfc(text)) {
      ASSERT_EQ(text, Reference(text));
    }
  }
}

}  // namespace
}  // namespace holdfast

#include "engine/philox.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

using Block = std::array<uint32_t, 4>;

// The known answers of the authors' Random123 distribution (kat_vectors, philox4x32 10 rounds).
TEST(PhiloxTest, GivesTheKnownAnswersOfRandom123) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, UniformIsTheTop24BitsOfWord0) {
  EXPECT_EQ(UniformAt(0, 0), static_cast<double>(0x6627e8) / 16777216.0);
  // A seed and a position above 32 bits reach the second words.
  EXPECT_NE(UniformAt(uint64_t{1} << 32, 0), UniformAt(0, 0));
  EXPECT_NE(UniformAt(0, int64_t{1} << 32), UniformAt(0, 0));
  const uint32_t word0 = Philox4x32({7, 1, 0, 0}, {5, 9})[0];
  EXPECT_EQ(UniformAt((uint64_t{9} << 32) | 5, (int64_t{1} << 32) | 7), (word0 >> 8) / 16777216.0);
}

}  // namespace
}  // namespace holdfast

#include "base/hash128.h"

#include <gtest/gtest.h>

#include <vector>

namespace holdfast {
namespace {

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(Hash128Test, EmptyInputGivesThePublishedValue) {
  // xxHash's own specification: XXH3-128 of no bytes with seed 0.
  EXPECT_EQ(Hash128Of({}).Hex(), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash128Test, PiecesHashLikeTheWhole) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += static_cast<char>(i * 31);
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{240}, size_t{1024}, text.size()}) {
    Hash128Stream stream;
    stream.Add(Bytes(std::string_view(text).substr(0, cut)));
    stream.Add(Bytes(std::string_view(text).substr(cut)));
    EXPECT_EQ(stream.Value(), Hash128Of(Bytes(text))) << cut;
  }
}

TEST(Hash128Test, TextsDoNotRunIntoEachOther) {
  Hash128Stream a, b;
  a.Add(std::string_view("ab"));
  a.Add(std::string_view("c"));
  b.Add(std::string_view("a"));
  b.Add(std::string_view("bc"));
  EXPECT_NE(a.Value(), b.Value());
}

TEST(Hash128Test, HexRoundTripsAndRefusesAnythingElse) {
  const Hash128 hash = Hash128Of(Bytes("holdfast"));
  EXPECT_EQ(Hash128::FromHex(hash.Hex()), hash);
  EXPECT_FALSE(Hash128::FromHex(hash.Hex().substr(1)));
  EXPECT_FALSE(Hash128::FromHex(hash.Hex() + "0"));
  EXPECT_FALSE(Hash128::FromHex(std::string(31, '0') + "g"));
}

}  // namespace
}  // namespace holdfast

#include "weights/expert_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace holdfast {
namespace {

using testing::HasSubstr;

constexpr float kNever = -std::numeric_limits<float>::infinity();
const ExpertProfileKey kKey = {.trunk = {1, 2}, .draft = {3, 4}, .n_experts = {3, 2}};

ExpertProfile Sample() {
  return {.layers = {{.n_hits = 6, .n_late = 1, .n_misses = 1, .worth = {0.5f, kNever, -20.25f}},
                     {.worth = {kNever, 7.0f}}}};
}

// The checksum of what is there, as somebody who changes the file on purpose would write it.
void Seal(std::vector<std::byte>* bytes) {
  const Hash128 hash = Hash128Of(std::span(*bytes).first(bytes->size() - 16));
  std::memcpy(bytes->data() + bytes->size() - 16, &hash.low, 8);
  std::memcpy(bytes->data() + bytes->size() - 8, &hash.high, 8);
}

TEST(ExpertProfileTest, ComesBackAsItWas) {
  const std::vector<std::byte> bytes = EncodeExpertProfile(Sample(), kKey);
  EXPECT_EQ(bytes.size(), 48 + 2 * 32 + 5 * 4 + 16u);
  const auto profile = DecodeExpertProfile(bytes, kKey, "p");
  ASSERT_TRUE(profile.ok()) << profile.status().ToString();
  ASSERT_EQ(profile->layers.size(), 2u);
  EXPECT_EQ(profile->layers[0].worth, Sample().layers[0].worth);
  EXPECT_EQ(profile->layers[1].worth, Sample().layers[1].worth);
  EXPECT_EQ(profile->layers[0].n_hits, 6u);
  EXPECT_EQ(profile->layers[0].n_late, 1u);
  EXPECT_EQ(profile->layers[0].n_misses, 1u);
  EXPECT_EQ(profile->layers[0].hit_rate(), 0.75);
  EXPECT_EQ(profile->layers[1].hit_rate(), 0.0);
}

TEST(ExpertProfileTest, EveryTruncationIsRefused) {
  const std::vector<std::byte> bytes = EncodeExpertProfile(Sample(), kKey);
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(DecodeExpertProfile(std::span(bytes).first(n), kKey, "p").ok()) << n;
  }
  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(DecodeExpertProfile(longer, kKey, "p").ok());
}

TEST(ExpertProfileTest, EveryFlippedBitIsRefused) {
  const std::vector<std::byte> bytes = EncodeExpertProfile(Sample(), kKey);
  for (size_t i = 0; i < 8 * bytes.size(); ++i) {
    std::vector<std::byte> flipped = bytes;
    flipped[i / 8] ^= std::byte(1 << i % 8);
    EXPECT_FALSE(DecodeExpertProfile(flipped, kKey, "p").ok()) << i;
  }
}

TEST(ExpertProfileTest, SaysWhatIsWrong) {
  const std::vector<std::byte> bytes = EncodeExpertProfile(Sample(), kKey);
  ExpertProfileKey other = kKey;
  other.trunk.low = 9;
  EXPECT_THAT(DecodeExpertProfile(bytes, other, "p").status().message(),
              HasSubstr("of another model"));
  other = kKey;
  other.n_experts = {2, 3};
  EXPECT_THAT(DecodeExpertProfile(bytes, other, "p").status().message(),
              HasSubstr("other numbers of experts"));
  std::vector<std::byte> newer = bytes;
  newer[8] = std::byte{2};
  Seal(&newer);
  EXPECT_THAT(DecodeExpertProfile(newer, kKey, "p").status().message(), HasSubstr("version 2"));
}

TEST(ExpertProfileTest, ValuesThatNoRunCanLearnAreRefusedUnderARightChecksum) {
  for (const float worth :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e30f}) {
    ExpertProfile profile = Sample();
    profile.layers[1].worth[0] = worth;
    const auto decoded = DecodeExpertProfile(EncodeExpertProfile(profile, kKey), kKey, "p");
    EXPECT_EQ(decoded.status().code(), StatusCode::kDataLoss) << worth;
  }
  // A number of experts that is not the model's is no size to allocate.
  std::vector<std::byte> huge = EncodeExpertProfile(Sample(), kKey);
  std::memset(huge.data() + 48, 0xff, 8);
  Seal(&huge);
  EXPECT_FALSE(DecodeExpertProfile(huge, kKey, "p").ok());
}

}  // namespace
}  // namespace holdfast

#include "state/layout.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace holdfast {
namespace {

// The released model (spec: qwen4exp, section 1) with one draft layer.
ModelConfig ReleasedConfig() {
  ModelConfig c;
  c.n_layers = 48;
  c.n_mtp_layers = 1;
  c.hidden_size = 2560;
  for (int l = 0; l < 49; ++l) {
    const bool qsa = l == 48 || (l + 1) % 4 == 0;
    c.layer_kinds.push_back(qsa ? LayerKind::kQsa : LayerKind::kGdn);
    c.block_ratio.push_back(qsa ? 4 : 0);
  }
  c.n_heads = 24, c.n_kv_heads = 2, c.head_dim = 256;
  c.n_index_heads = 4, c.index_dim = 128, c.index_budget = 2048;
  c.gdn_conv_kernel = 4, c.gdn_n_key_heads = 16, c.gdn_n_value_heads = 48, c.gdn_head_dim = 128;
  c.hc_streams = 4;
  c.ple = PleConfig{.layer = 1, .ngram_size = 3, .conv_kernel = 4};
  return c;
}

size_t Sum(const std::vector<Part>& parts) {
  size_t sum = 0;
  for (const Part& part : parts) sum += part.bytes;
  return sum;
}

TEST(StateLayoutTest, ReleasedModelHasTheBytesOfTheSpecification) {
  const ModelConfig config = ReleasedConfig();
  const auto trunk = StateLayout::Create(config, KvFormat::kInt8);
  ASSERT_TRUE(trunk.ok());
  EXPECT_EQ(trunk->bytes_per_token(), 14208);
  // Section 9 without the spare pooled rows (12 x 512 B) and the token context (8 B).
  EXPECT_EQ(Sum(trunk->running_parts()), 118063112u - 12 * 512 - 8);
  EXPECT_EQ(StateLayout::Create(config, KvFormat::kF16)->bytes_per_token(), 24576 + 1536);

  const auto draft = StateLayout::Create(config, KvFormat::kInt8, StateSection::kDraft);
  ASSERT_TRUE(draft.ok());
  EXPECT_EQ(draft->bytes_per_token(), 1056);  // K and V, no pooled keys
  EXPECT_EQ(draft->FindRunning(48, PartKind::kHandover)->bytes, 40960u);
}

TEST(StateLayoutTest, PartsDoNotOverlapAndPagesAreAligned) {
  for (KvFormat format : {KvFormat::kF32, KvFormat::kF16, KvFormat::kInt8}) {
    const auto layout = StateLayout::Create(ReleasedConfig(), format);
    ASSERT_TRUE(layout.ok());
    EXPECT_EQ(layout->page_bytes() % StateLayout::kPageAlignment, 0u);
    for (const auto* parts : {&layout->cell_parts(), &layout->running_parts()}) {
      size_t end = 0;
      for (const Part& part : *parts) {
        EXPECT_GE(part.offset, end);
        EXPECT_EQ(part.offset % 64, 0u);
        end = part.offset + part.bytes;
      }
      EXPECT_LE(end,
                parts == &layout->cell_parts() ? layout->page_bytes() : layout->running_bytes());
    }
  }
}

TEST(StateLayoutTest, KeyChangesWithEverythingThatMovesAByte) {
  const ModelConfig config = ReleasedConfig();
  const uint64_t key = StateLayout::Create(config, KvFormat::kInt8)->key();
  EXPECT_EQ(key, StateLayout::Create(config, KvFormat::kInt8)->key());
  EXPECT_NE(key, StateLayout::Create(config, KvFormat::kF16)->key());
  EXPECT_NE(key, StateLayout::Create(config, KvFormat::kInt8, StateSection::kTrunk, 128)->key());
  ModelConfig other = config;
  other.index_dim = 64;
  EXPECT_NE(key, StateLayout::Create(other, KvFormat::kInt8)->key());
}

TEST(StateLayoutTest, ClearCellsKeepsExactlyTheTokensBefore) {
  const ModelConfig config = ReleasedConfig();
  const auto layout = StateLayout::Create(config, KvFormat::kInt8);
  std::vector<std::byte> page(layout->page_bytes(), std::byte{1});
  layout->ClearCells(page, 6);  // one complete block of four and two tokens
  const auto count = [&](PartKind kind) {
    const Part& part = *layout->FindCell(3, kind);
    return std::count(page.begin() + part.offset, page.begin() + part.offset + part.bytes,
                      std::byte{1});
  };
  EXPECT_EQ(count(PartKind::kKeys), 2 * 6 * 256);
  EXPECT_EQ(count(PartKind::kValueScales), 2 * 6 * 4 * 2);
  EXPECT_EQ(count(PartKind::kPooledKeys), 128 * 1 * 4);
  // Of the second head the first six tokens, no others.
  const Part& keys = *layout->FindCell(3, PartKind::kKeys);
  EXPECT_EQ(page[keys.offset + keys.bytes / 2], std::byte{1});
  EXPECT_EQ(page[keys.offset + keys.bytes / 2 + 6 * 256], std::byte{0});
}

TEST(StateLayoutTest, RefusesPagesThatCutABlock) {
  const auto layout =
      StateLayout::Create(ReleasedConfig(), KvFormat::kInt8, StateSection::kTrunk, 30);
  ASSERT_FALSE(layout.ok());
  EXPECT_EQ(layout.status().message(),
            "page of 30 tokens, wanted a multiple of layer 3's block of 4");
}

}  // namespace
}  // namespace holdfast

#include "bench/bench_rig.h"

#include <gtest/gtest.h>

#include <cstring>

#include "bench/seeded_state.h"
#include "tests/support/fixtures.h"

namespace holdfast {
namespace {

std::unique_ptr<BenchModel> Load(KvFormat kv = KvFormat::kInt8) {
  auto model = BenchModel::Load(
      {.model_path = FixturePath("tinyA-bf16.gguf"), .kv_format = kv, .cpu = {.n_threads = 1}});
  EXPECT_TRUE(model.ok()) << model.status().ToString();
  return *std::move(model);
}

std::unique_ptr<BenchRig> MakeRig(BenchModel* model) {
  auto rig = BenchRig::Create(model, {.ctx = 2048, .n_slots = 2, .state_bytes = uint64_t{1} << 30});
  EXPECT_TRUE(rig.ok()) << rig.status().ToString();
  return *std::move(rig);
}

TEST(BenchRigTest, RunsBeginOnABaseAndLeaveItAsItWas) {
  const auto model = Load();
  const auto rig = MakeRig(model.get());
  Base base = *rig->ReadBase(300, 1, nullptr);
  ASSERT_EQ(base.depth(), 300);
  const int64_t n_kept = static_cast<int64_t>(rig->cache().List().size());
  for (int i = 0; i < 2; ++i) {
    // Prefill() itself fails when another number of tokens than 300 was reused.
    const auto prefill = rig->Prefill(base, 40, 7);
    ASSERT_TRUE(prefill.ok()) << prefill.status().ToString();
    EXPECT_EQ(prefill->n_tokens, 40);
    const std::vector<std::vector<TokenId>> prompts = {base.tokens};
    const auto decode = rig->Decode(prompts, 10, {.top_k = 40, .temperature = 1});
    ASSERT_TRUE(decode.ok()) << decode.status().ToString();
    EXPECT_EQ(decode->n_tokens, 10);
    EXPECT_GT(decode->seconds, 0);
    EXPECT_EQ(base.conversation->n_computed(), 300);
    EXPECT_EQ(static_cast<int64_t>(rig->cache().List().size()), n_kept);
  }
  rig->Drop(&base);
  EXPECT_EQ(rig->cache().stats().n_bound, 0);
}

TEST(BenchRigTest, StreamsAreDecodedTogether) {
  const auto model = Load();
  const auto rig = MakeRig(model.get());
  const Base a = *rig->ReadBase(50, 1, nullptr), b = *rig->ReadBase(50, 2, nullptr);
  EXPECT_NE(a.tokens, b.tokens);
  const auto run = rig->Decode(std::vector<std::vector<TokenId>>{a.tokens, b.tokens}, 10, {});
  ASSERT_TRUE(run.ok()) << run.status().ToString();
  EXPECT_EQ(run->n_tokens, 20);
}

TEST(BenchRigTest, FilledStatesOfEveryFormatGiveFiniteRows) {
  for (const KvFormat kv : {KvFormat::kInt8, KvFormat::kF16, KvFormat::kF32}) {
    const auto model = Load(kv);
    const auto rig = MakeRig(model.get());
    const Base base = *rig->FillBase(700, 1);
    ASSERT_EQ(base.conversation->n_computed(), 700);
    // A row that is not finite ends its request with an error.
    const auto run =
        rig->Decode(std::vector<std::vector<TokenId>>{base.tokens}, 20, SamplingParams());
    ASSERT_TRUE(run.ok()) << KvFormatName(kv) << ": " << run.status().ToString();
    EXPECT_EQ(run->n_tokens, 20);
    EXPECT_TRUE(rig->Prefill(base, 20, 3).ok());
  }
}

TEST(SeededStateTest, FillsEveryPartTheSameForTheSameSeedAndNotTwice) {
  const auto model = Load();
  Backend* const backend = model->model()->backend();
  const StateLayout& layout = model->model()->layout();
  const auto page = [&](SeededState* state) {
    const auto buffer = *backend->Allocate(layout.page_bytes());
    EXPECT_TRUE(state->FillPage(buffer.get()).ok());
    std::vector<std::byte> bytes(layout.page_bytes());
    EXPECT_TRUE(backend->Download({buffer.get(), 0}, bytes).ok());
    return bytes;
  };
  SeededState one(backend, &layout, 5), same(backend, &layout, 5);
  const auto first = page(&one), second = page(&one);
  EXPECT_EQ(first, page(&same));
  EXPECT_NE(first, second);
  const std::vector<std::byte> zero(64);
  for (const Part& part : layout.cell_parts()) {
    EXPECT_NE(
        std::memcmp(first.data() + part.offset, zero.data(), std::min<size_t>(part.bytes, 64)), 0)
        << PartKindName(part.kind);
  }
}

}  // namespace
}  // namespace holdfast

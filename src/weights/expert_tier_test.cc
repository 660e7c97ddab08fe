#include "weights/expert_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "base/temp_folder.h"
#include "weights/model_config.h"
#include "weights/synth_model.h"
#include "weights/testing/unreliable_reader.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

constexpr int kExperts = 16;

class ExpertTierTest : public testing::Test {
 protected:
  void Open(bool fused) {
    SynthSpec spec = TinySynth();
    spec.n_experts = kExperts;
    spec.n_experts_used = 4;
    spec.fused_gate_up = fused;
    path_ = folder_.path() + "/model.gguf";
    ASSERT_TRUE(MakeSynthModel(spec).value().WriteFile(path_).ok());
    file_ = GgufFile::Open(path_).value();
    const ModelConfig config = ReadModelConfig(*file_).value();
    weights_ = BindModelWeights(config, *file_).value();
    layers_.clear();
    for (const LayerWeights& layer : weights_.layers) {
      layers_.push_back({layer.moe.gate, layer.moe.up, layer.moe.down, file_.get()});
    }
  }
  std::unique_ptr<ExpertTier> Make(int n_slots, ExpertTierOptions options = {}) {
    options.arena_bytes = SizesOf(layers_).slot_bytes * static_cast<uint64_t>(n_slots);
    auto tier = ExpertTier::Create(layers_, options);
    EXPECT_TRUE(tier.ok()) << tier.status().ToString();
    return *std::move(tier);
  }
  ExpertTierOptions Unreliable() {
    ExpertTierOptions options;
    options.make_reader = [this](AsyncReader::Done done) -> Result<std::unique_ptr<AsyncReader>> {
      return std::unique_ptr<AsyncReader>(
          std::make_unique<UnreliableReader>(&faults_, std::move(done)));
    };
    return options;
  }
  static bool SameMatrix(const WeightView& stack, int32_t expert, const std::byte* bytes) {
    return std::memcmp(stack.Row(0, expert), bytes, stack.row_bytes * stack.n_rows) == 0;
  }
  // Uses `experts` as a step does, group by group.
  Status Use(ExpertTier* tier, int layer, std::span<const int32_t> experts) {
    while (!experts.empty()) {
      const int64_t n = tier->Pin(layer, experts);
      EXPECT_GE(n, 1);
      const std::span<const int32_t> order = tier->ready_first();
      EXPECT_EQ(std::set<int32_t>(order.begin(), order.end()).size(), static_cast<size_t>(n));
      std::vector<ExpertBytes> bytes(n);
      for (const int32_t i : order) bytes[i] = tier->Wait(i);
      // All of a group stay where they are until its end.
      bool same = true;
      for (int64_t i = 0; i < n; ++i) {
        same = same && SameMatrix(layers_[layer].gate, experts[i], bytes[i].gate) &&
               SameMatrix(layers_[layer].up, experts[i], bytes[i].up) &&
               SameMatrix(layers_[layer].down, experts[i], bytes[i].down);
      }
      HF_RETURN_IF_ERROR(tier->Unpin());
      EXPECT_TRUE(same) << "wrong bytes and no error";
      experts = experts.subspan(n);
    }
    return OkStatus();
  }
  static std::vector<int32_t> AllExperts() {
    std::vector<int32_t> all(kExperts);
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  const TempFolder folder_ = TempFolder::Create("expert_tier_test").value();
  std::string path_;
  std::unique_ptr<GgufFile> file_;
  ModelWeights weights_;
  std::vector<ExpertLayer> layers_;
  UnreliableReader::Faults faults_;
};

TEST_F(ExpertTierTest, GivesTheFilesBytesWhateverTheArena) {
  for (const bool fused : {false, true}) {
    Open(fused);
    for (const int n_slots : {1, 2, 3, 7, kExperts, kExperts + 1, 4 * kExperts}) {
      for (const ReaderKind kind : {ReaderKind::kPread, ReaderKind::kAuto}) {
        const auto tier = Make(n_slots, {.reader = kind});
        std::mt19937 rng(n_slots);
        for (int step = 0; step < 60; ++step) {
          std::vector<int32_t> experts = AllExperts();
          std::shuffle(experts.begin(), experts.end(), rng);
          experts.resize(step % 7 == 0 ? kExperts : 1 + rng() % 6);
          std::sort(experts.begin(), experts.end());
          if (step % 3 == 0) tier->Prefetch((step + 1) % 4, experts);
          ASSERT_TRUE(Use(tier.get(), step % 4, experts).ok());
        }
      }
    }
  }
}

TEST_F(ExpertTierTest, AFusedTensorIsOneRead) {
  Open(true);
  EXPECT_EQ(LayoutOf(layers_[0]).pieces.size(), 2u);
  Open(false);
  EXPECT_EQ(LayoutOf(layers_[0]).pieces.size(), 3u);
}

TEST_F(ExpertTierTest, WhatFitsIsReadOnce) {
  Open(false);
  const auto tier = Make(4 * kExperts);
  for (int round = 0; round < 3; ++round) {
    for (int layer = 0; layer < 4; ++layer) {
      ASSERT_TRUE(Use(tier.get(), layer, AllExperts()).ok());
    }
  }
  const ExpertTierStats stats = tier->stats();
  EXPECT_EQ(stats.n_resident, 4 * kExperts);
  EXPECT_EQ(stats.n_slots, 4 * kExperts);
  for (const auto& layer : stats.layers) {
    EXPECT_EQ(layer.n_misses, kExperts);
    EXPECT_EQ(layer.n_hits + layer.n_late, 2 * kExperts);
    EXPECT_GE(layer.bytes_read, LayoutOf(layers_[0]).expert_bytes * kExperts);
  }
}

TEST_F(ExpertTierTest, EachExpertIsReadOnceWhenALayerNeedsMoreThanThereAreSlots) {
  Open(false);
  const auto tier = Make(6);
  ASSERT_TRUE(Use(tier.get(), 2, AllExperts()).ok());
  const auto layer = tier->stats().layers[2];
  const uint64_t expert_bytes = LayoutOf(layers_[2]).expert_bytes;
  EXPECT_EQ(layer.n_hits + layer.n_late + layer.n_misses, kExperts);
  // At most two blocks more than a piece.
  EXPECT_LE(layer.bytes_read, kExperts * (expert_bytes + 3 * 2 * 4096));
}

TEST_F(ExpertTierTest, WhatIsReadAheadIsThereWhenItIsNeeded) {
  Open(false);
  const auto tier = Make(8);
  const std::vector<int32_t> experts = {1, 5, 9};
  tier->Prefetch(3, experts);
  ASSERT_TRUE(Use(tier.get(), 3, experts).ok());
  const auto layer = tier->stats().layers[3];
  EXPECT_EQ(layer.n_misses, 0);
  EXPECT_EQ(layer.n_hits + layer.n_late, 3);
}

// Reads in what was adopted, as an engine without requests does.
void ReadAllIn(ExpertTier* tier) {
  while (tier->ReadIn(/*idle=*/true)) std::this_thread::yield();
}

TEST_F(ExpertTierTest, WhatWasLearnedIsReadInByTheNextOneAndStillKnownThen) {
  Open(false);
  ExpertProfile learned;
  {
    const auto tier = Make(2 * kExperts);
    for (int step = 0; step < 40; ++step) {
      for (int layer = 0; layer < 4; ++layer) {
        ASSERT_TRUE(Use(tier.get(), layer, std::vector<int32_t>{layer, 10}).ok());
      }
    }
    ASSERT_TRUE(Use(tier.get(), 1, std::vector<int32_t>{3, 4, 5}).ok());
    learned = tier->Learned();
  }
  EXPECT_EQ(learned.layers[0].n_misses, 2u);
  EXPECT_EQ(learned.layers[0].n_hits, 78u);
  EXPECT_TRUE(std::isinf(learned.layers[0].worth[1]));

  const auto tier = Make(9);  // 8 often used ones, 3 used once
  tier->Adopt(learned);
  ReadAllIn(tier.get());
  EXPECT_EQ(tier->stats().n_resident, 9);
  for (int layer = 0; layer < 4; ++layer) {
    ASSERT_TRUE(Use(tier.get(), layer, std::vector<int32_t>{layer, 10}).ok());
    EXPECT_EQ(tier->stats().layers[layer].n_hits, 2);
    EXPECT_EQ(tier->stats().layers[layer].n_misses, 0);
  }
  // One step later everything has faded by one step, and what was used is worth 1 more.
  const ExpertProfile later = tier->Learned();
  EXPECT_NEAR(later.layers[1].worth[4], learned.layers[1].worth[4] - 1.0 / 128, 1e-5);
  EXPECT_GT(later.layers[1].worth[10], learned.layers[1].worth[10]);
}

TEST_F(ExpertTierTest, ReadingInLeavesWhatStepsHaveBroughtInAndIsWorthMore) {
  Open(false);
  ExpertProfile learned{.layers = std::vector<ExpertProfile::Layer>(4)};
  for (auto& layer : learned.layers) layer.worth.assign(kExperts, -30.0f);
  const auto tier = Make(4);
  tier->Adopt(learned);
  // A step before anything was read in.
  ASSERT_TRUE(Use(tier.get(), 0, std::vector<int32_t>{1, 2, 3, 4}).ok());
  ReadAllIn(tier.get());
  ASSERT_TRUE(Use(tier.get(), 0, std::vector<int32_t>{1, 2, 3, 4}).ok());
  EXPECT_EQ(tier->stats().layers[0].n_hits, 4);
}

TEST_F(ExpertTierTest, BesideStepsExpertsAreReadInOneAtATime) {
  Open(false);
  ExpertProfile learned{.layers = std::vector<ExpertProfile::Layer>(4)};
  for (auto& layer : learned.layers) layer.worth.assign(kExperts, 1.0f);
  const auto tier = Make(8, Unreliable());
  tier->Adopt(learned);
  EXPECT_TRUE(tier->ReadIn(/*idle=*/false));
  EXPECT_EQ(tier->stats().n_resident, 1);
  while (tier->ReadIn(/*idle=*/false)) std::this_thread::yield();
  EXPECT_EQ(tier->stats().n_resident, 8);
}

TEST_F(ExpertTierTest, AFailedReadInIsNoError) {
  Open(false);
  faults_.failing = {0, 1, 2, 5, 9};
  ExpertProfile learned{.layers = std::vector<ExpertProfile::Layer>(4)};
  for (auto& layer : learned.layers) layer.worth.assign(kExperts, 1.0f);
  const auto tier = Make(8, Unreliable());
  tier->Adopt(learned);
  ReadAllIn(tier.get());
  for (int layer = 0; layer < 4; ++layer) {
    EXPECT_TRUE(Use(tier.get(), layer, AllExperts()).ok());
  }
}

TEST_F(ExpertTierTest, AReadErrorFailsTheStepWithTheFilesNameAndTheNextOneReadsAgain) {
  Open(false);
  const std::vector<int32_t> experts = {2, 3};
  for (const int64_t failing : {0, 4, 5}) {  // three requests an expert
    faults_.failing = {failing};
    faults_.n_requests = 0;
    const auto tier = Make(8, Unreliable());
    const Status status = Use(tier.get(), 1, experts);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.message(), HasSubstr(path_));
    EXPECT_THAT(status.message(), HasSubstr("blk.1.ffn_down_exps"));
    EXPECT_TRUE(Use(tier.get(), 1, experts).ok());
    EXPECT_EQ(tier->stats().n_resident, 2);
  }
}

TEST_F(ExpertTierTest, ThousandsOfRandomFaultsNeverGiveWrongBytes) {
  Open(true);
  std::mt19937 rng(7);
  for (int64_t i = 0; i < 3000; ++i) {
    if (rng() % 10 == 0) faults_.failing.insert(i);
  }
  const auto tier = Make(5, Unreliable());
  int n_failed = 0;
  for (int step = 0; step < 200; ++step) {
    std::vector<int32_t> experts = AllExperts();
    std::shuffle(experts.begin(), experts.end(), rng);
    experts.resize(1 + rng() % 8);
    std::sort(experts.begin(), experts.end());
    if (step % 2 == 0) tier->Prefetch(static_cast<int>(rng() % 4), experts);
    n_failed += Use(tier.get(), static_cast<int>(rng() % 4), experts).ok() ? 0 : 1;
  }
  EXPECT_GT(n_failed, 20);
  EXPECT_LT(n_failed, 200);
}

TEST_F(ExpertTierTest, AFailedReadAheadIsReadAgainWhenItIsNeeded) {
  Open(false);
  faults_.failing = {0, 1, 2};
  const auto tier = Make(4, Unreliable());
  const std::vector<int32_t> experts = {6};
  tier->Prefetch(0, experts);
  ReadAllIn(tier.get());  // takes notice of the failure
  const Status status = Use(tier.get(), 0, experts);
  EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST_F(ExpertTierTest, AFileThatGetsShorterFailsEveryLaterStep) {
  Open(false);
  const auto tier = Make(8);
  const std::vector<int32_t> experts = {0, 1};
  ASSERT_TRUE(Use(tier.get(), 0, experts).ok());
  const auto size = std::filesystem::file_size(path_);
  std::filesystem::resize_file(path_, size - 5000);
  for (int i = 0; i < 2; ++i) {
    const int64_t n = tier->Pin(3, experts);
    for (int64_t e = 0; e < n; ++e) tier->Wait(e);
    const Status status = tier->Unpin();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.message(), HasSubstr(path_));
    EXPECT_THAT(status.message(), HasSubstr(std::to_string(size)));
  }
}

TEST_F(ExpertTierTest, AFileThatIsWrittenToFailsEveryLaterStepAlsoOneThatReadsNothing) {
  Open(false);
  const auto tier = Make(8);
  const std::vector<int32_t> experts = {0, 1};
  ASSERT_TRUE(Use(tier.get(), 0, experts).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // beyond the clock of mtime
  std::fstream(path_, std::ios::in | std::ios::out | std::ios::binary).write("GGUF", 4);
  EXPECT_TRUE(tier->CheckFiles().ok());
  EXPECT_THAT(Use(tier.get(), 0, experts).message(), HasSubstr("written to"));
  EXPECT_EQ(tier->CheckFiles().code(), StatusCode::kDataLoss);
}

TEST_F(ExpertTierTest, AFileOfTheSameNameThatTakesItsPlaceChangesNothing) {
  Open(false);
  const auto tier = Make(8);
  std::ofstream(folder_.path() + "/other") << "something else";
  std::filesystem::rename(folder_.path() + "/other", path_);
  for (int layer = 0; layer < 4; ++layer) {
    EXPECT_TRUE(Use(tier.get(), layer, AllExperts()).ok());
  }
  // Opened afterwards, it is another one.
  const auto late = ExpertTier::Create(layers_, {.arena_bytes = 1 << 20});
  EXPECT_EQ(late.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(late.status().message(), HasSubstr(path_));
}

TEST_F(ExpertTierTest, RefusesAnArenaWithoutRoomForOneExpert) {
  Open(false);
  const auto tier = ExpertTier::Create(layers_, {.arena_bytes = 100});
  EXPECT_EQ(tier.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(tier.status().message(), HasSubstr("--expert-memory"));
}

TEST_F(ExpertTierTest, RefusesAModelThatIsNotAFile) {
  Open(false);
  std::ifstream in(path_, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const auto parsed = GgufFile::Parse(std::as_bytes(std::span(bytes)), "memory").value();
  layers_[0].file = parsed.get();
  EXPECT_EQ(ExpertTier::Create(layers_, {.arena_bytes = 1 << 20}).status().code(),
            StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace holdfast

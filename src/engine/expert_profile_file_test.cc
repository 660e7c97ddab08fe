#include "engine/expert_profile_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/temp_folder.h"
#include "weights/model_config.h"
#include "weights/model_weights.h"
#include "weights/synth_model.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

class ExpertProfileFileTest : public testing::Test {
 protected:
  void SetUp() override {
    SynthSpec spec = TinySynth();
    spec.n_experts = 16;
    spec.n_experts_used = 4;
    ASSERT_TRUE(MakeSynthModel(spec).value().WriteFile(model_).ok());
    file_ = GgufFile::Open(model_).value();
    const ModelConfig config = ReadModelConfig(*file_).value();
    weights_ = BindModelWeights(config, *file_).value();
    identity_ = ProvisionalIdentity(*file_, nullptr, config);
  }
  std::unique_ptr<ExpertTier> MakeTier() {
    std::vector<ExpertLayer> layers;
    for (const LayerWeights& layer : weights_.layers) {
      layers.push_back({layer.moe.gate, layer.moe.up, layer.moe.down, file_.get()});
    }
    return ExpertTier::Create(layers, {.arena_bytes = 8 * SizesOf(layers).slot_bytes}).value();
  }
  static void Use(ExpertTier* tier, int layer, std::vector<int32_t> experts) {
    const int64_t n = tier->Pin(layer, experts);
    for (int64_t i = 0; i < n; ++i) tier->Wait(i);
    EXPECT_TRUE(tier->Unpin().ok());
  }
  std::string Path() const { return ExpertProfilePath(store_, identity_); }
  void Learn() {
    const auto tier = MakeTier();
    ExpertProfileFile file(PosixFileSystem(), store_, identity_, tier.get());
    EXPECT_EQ(file.Load(), "");
    Use(tier.get(), 2, {3, 7});
  }
  // What Load() says of what is there, and that a tier does not take it.
  std::string Refused() {
    const auto tier = MakeTier();
    ExpertProfileFile file(PosixFileSystem(), store_, identity_, tier.get());
    const std::string note = file.Load();
    EXPECT_FALSE(tier->ReadIn(true));
    return note;
  }

  const TempFolder folder_ = TempFolder::Create("expert_profile_test").value();
  const std::string model_ = folder_.path() + "/model.gguf", store_ = folder_.path() + "/store";
  std::unique_ptr<GgufFile> file_;
  ModelWeights weights_;
  ModelIdentity identity_;
};

TEST_F(ExpertProfileFileTest, TheNextTierBeginsWithWhatWasUsed) {
  Learn();
  EXPECT_FALSE(std::filesystem::exists(Path() + ".tmp"));
  const auto tier = MakeTier();
  ExpertProfileFile file(PosixFileSystem(), store_, identity_, tier.get());
  EXPECT_THAT(file.Load(), HasSubstr("2 are known"));
  while (tier->ReadIn(true)) std::this_thread::yield();
  EXPECT_EQ(tier->stats().n_resident, 2);
  Use(tier.get(), 2, {3, 7});
  EXPECT_EQ(tier->stats().layers[2].n_hits, 2);
}

TEST_F(ExpertProfileFileTest, NothingIsWrittenWhereNothingWasLearned) {
  { ExpertProfileFile(PosixFileSystem(), store_, identity_, MakeTier().get()); }
  EXPECT_FALSE(std::filesystem::exists(store_));
}

TEST_F(ExpertProfileFileTest, DamageIsOneLineAndIgnored) {
  Learn();
  std::fstream(Path(), std::ios::in | std::ios::out | std::ios::binary).seekp(60).write("x", 1);
  EXPECT_THAT(Refused(), HasSubstr("checksum"));
  std::filesystem::resize_file(Path(), 100);
  EXPECT_THAT(Refused(), HasSubstr("100 bytes"));
  std::filesystem::resize_file(Path(), uint64_t{1} << 40);  // a hole; it is not read
  EXPECT_THAT(Refused(), HasSubstr("1099511627776 bytes"));
  std::filesystem::remove(Path());
  std::filesystem::create_directory(Path());
  EXPECT_THAT(Refused(), HasSubstr("ignored"));
}

TEST_F(ExpertProfileFileTest, AnotherModelsIsIgnored) {
  Learn();
  ModelIdentity other = identity_;
  other.provisional.low ^= 1;
  std::filesystem::rename(Path(), ExpertProfilePath(store_, other));
  identity_ = other;
  EXPECT_THAT(Refused(), HasSubstr("another model"));
}

TEST_F(ExpertProfileFileTest, AFolderThatCannotBeWrittenToCostsNothingElse) {
  std::ofstream(store_) << "a file where the folder should be";
  const auto tier = MakeTier();
  ExpertProfileFile file(PosixFileSystem(), store_, identity_, tier.get());
  Use(tier.get(), 0, {1});
  file.Save();
  EXPECT_EQ(std::filesystem::file_size(store_), 33u);
}

}  // namespace
}  // namespace holdfast

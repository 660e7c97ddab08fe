#include "engine/prepare_experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/temp_folder.h"
#include "weights/expert_file.h"
#include "weights/model_config.h"
#include "weights/model_weights.h"
#include "weights/synth_model.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

constexpr int kExperts = 16;

// Stops everything after some syncs, as a kill does, or has little room.
class LimitedFileSystem : public FileSystem {
 public:
  int64_t n_syncs_left = INT64_MAX;
  uint64_t free_bytes = UINT64_MAX;

  Result<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode) override {
    HF_ASSIGN_OR_RETURN(auto file, inner_->Open(path, mode));
    return std::unique_ptr<File>(std::make_unique<LimitedFile>(this, std::move(file)));
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return n_syncs_left < 0 ? InternalError("killed") : inner_->Rename(from, to);
  }
  Status Unlink(const std::string& path) override { return inner_->Unlink(path); }
  Status MakeDir(const std::string& path) override { return inner_->MakeDir(path); }
  Status MakePrivate(const std::string& path) override { return inner_->MakePrivate(path); }
  Result<std::vector<std::string>> List(const std::string& path) override {
    return inner_->List(path);
  }
  Status SyncDir(const std::string& path) override { return inner_->SyncDir(path); }
  Result<bool> Exists(const std::string& path) override { return inner_->Exists(path); }
  Result<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    return inner_->Lock(path);
  }
  Result<uint64_t> FreeBytes(const std::string&) override { return free_bytes; }

 private:
  class LimitedFile : public File {
   public:
    LimitedFile(LimitedFileSystem* fs, std::unique_ptr<File> inner)
        : fs_(fs), inner_(std::move(inner)) {}
    Result<size_t> ReadAt(uint64_t offset, std::span<std::byte> dst) override {
      return inner_->ReadAt(offset, dst);
    }
    Status WriteAt(uint64_t offset, std::span<const std::byte> src) override {
      return fs_->n_syncs_left < 0 ? InternalError("killed") : inner_->WriteAt(offset, src);
    }
    Status Truncate(uint64_t size) override { return inner_->Truncate(size); }
    Status Sync() override {
      return --fs_->n_syncs_left < 0 ? InternalError("killed") : inner_->Sync();
    }
    Result<uint64_t> Size() override { return inner_->Size(); }

   private:
    LimitedFileSystem* const fs_;
    const std::unique_ptr<File> inner_;
  };
  FileSystem* const inner_ = PosixFileSystem();
};

class PrepareExpertsTest : public testing::Test {
 protected:
  void SetUp() override { MakeModel(/*fused=*/false, 1); }
  void MakeModel(bool fused, uint64_t seed) {
    SynthSpec spec = TinySynth();
    spec.n_experts = kExperts;
    spec.n_experts_used = 4;
    spec.fused_gate_up = fused;
    spec.seed = seed;
    ASSERT_TRUE(MakeSynthModel(spec).value().WriteFile(model_).ok());
    OpenModel();
  }
  void OpenModel() {
    file_ = GgufFile::Open(model_).value();
    weights_ = BindModelWeights(ReadModelConfig(*file_).value(), *file_).value();
    layers_.clear();
    for (const LayerWeights& layer : weights_.layers) {
      layers_.push_back({layer.moe.gate, layer.moe.up, layer.moe.down, file_.get()});
    }
  }
  Result<PrepareReport> Prepare() {
    return PrepareExperts(*file_, layers_, {.out_path = out_, .file_system = &fs_});
  }
  Result<std::unique_ptr<ExpertFile>> OpenOut() { return ExpertFile::Open(out_, *file_, layers_); }
  Status Verify(bool mapped = false) {
    HF_ASSIGN_OR_RETURN(const auto opened, OpenOut());
    return opened->Verify(mapped, [](double) {});
  }
  static std::string BytesOf(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void Flip(const std::string& path, uint64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const char byte = static_cast<char>(BytesOf(path).at(offset) ^ 4);
    file.seekp(static_cast<std::streamoff>(offset)).write(&byte, 1);
  }
  // Experts read by a tier from the prepared file, against the model's own bytes.
  void ExpectTierReadsTheSame() {
    const auto opened = OpenOut();
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    std::vector<ExpertLayer> layers = layers_;
    (*opened)->Attach(layers);
    EXPECT_EQ(LayoutOf(layers[0]).pieces.size(), 1u);
    EXPECT_LT(SizesOf(layers).slot_bytes, SizesOf(layers_).slot_bytes);
    const auto tier = ExpertTier::Create(layers, {.arena_bytes = 3 * SizesOf(layers).slot_bytes});
    ASSERT_TRUE(tier.ok()) << tier.status().ToString();
    EXPECT_THAT((*tier)->stats().reader, HasSubstr("prepared"));
    for (int layer = 0; layer < 4; ++layer) {
      for (int32_t expert = 0; expert < kExperts; ++expert) {
        ASSERT_EQ((*tier)->Pin(layer, std::vector<int32_t>{expert}), 1);
        const ExpertBytes bytes = (*tier)->Wait(0);
        const auto same = [&](const WeightView& view, const std::byte* data) {
          return std::memcmp(view.Row(0, expert), data, view.row_bytes * view.n_rows) == 0;
        };
        EXPECT_TRUE(same(layers_[layer].gate, bytes.gate));
        EXPECT_TRUE(same(layers_[layer].up, bytes.up));
        EXPECT_TRUE(same(layers_[layer].down, bytes.down));
        ASSERT_TRUE((*tier)->Unpin().ok());
      }
    }
  }

  const TempFolder folder_ = TempFolder::Create("prepare_experts_test").value();
  const std::string model_ = folder_.path() + "/model.gguf", out_ = model_ + ".experts";
  LimitedFileSystem fs_;
  std::unique_ptr<GgufFile> file_;
  ModelWeights weights_;
  std::vector<ExpertLayer> layers_;
};

TEST_F(PrepareExpertsTest, ATierReadsTheSameBytesInOnePiece) {
  for (const bool fused : {false, true}) {
    MakeModel(fused, fused ? 2 : 1);
    std::filesystem::remove(out_);
    const auto report = Prepare();
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_EQ(report->n_experts, 4 * kExperts);
    EXPECT_EQ(report->file_bytes, std::filesystem::file_size(out_));
    EXPECT_EQ(out_, ExpertFile::PathBeside(model_));
    ExpectTierReadsTheSame();
    EXPECT_TRUE(Verify().ok());
    EXPECT_TRUE(Verify(/*mapped=*/true).ok());
  }
  // Nothing else is left.
  const auto files = std::filesystem::directory_iterator(folder_.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 2);
}

TEST_F(PrepareExpertsTest, AnotherCallFindsNothingToDo) {
  ASSERT_TRUE(Prepare().ok());
  const std::string before = BytesOf(out_);
  const auto again = Prepare();
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_TRUE(again->was_done);
  EXPECT_EQ(BytesOf(out_), before);
}

TEST_F(PrepareExpertsTest, KilledAnywhereItIsGoneOnWithAndGivesTheSameFile) {
  ASSERT_TRUE(Prepare().ok());
  const std::string whole = BytesOf(out_);
  int64_t n_resumed = 0, n_kills = 0;
  for (;; ++n_kills) {
    std::filesystem::remove(out_);
    fs_.n_syncs_left = n_kills;
    const auto killed = Prepare();
    if (killed.ok()) break;
    EXPECT_FALSE(std::filesystem::exists(out_));
    fs_.n_syncs_left = n_kills / 2;  // and once more
    (void)Prepare();
    fs_.n_syncs_left = INT64_MAX;
    const auto report = Prepare();
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    n_resumed = std::max(n_resumed, report->n_layers_resumed);
    ASSERT_TRUE(BytesOf(out_) == whole) << n_kills;
  }
  EXPECT_EQ(n_resumed, 4);
  EXPECT_GE(n_kills, 10);  // data and journal of four layers, the tensors' record, the header
}

TEST_F(PrepareExpertsTest, WhatABeginningAnewHasNotWrittenIsNotTakenFromAnOldJournal) {
  fs_.n_syncs_left = 7;  // three layers
  EXPECT_FALSE(Prepare().ok());
  std::filesystem::remove(out_ + ".part");
  fs_.n_syncs_left = 3;  // the journal's end, and one layer anew
  EXPECT_FALSE(Prepare().ok());
  fs_.n_syncs_left = INT64_MAX;
  const auto report = Prepare();
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->n_layers_resumed, 1);
  EXPECT_TRUE(Verify().ok());
}

TEST_F(PrepareExpertsTest, ADamagedJournalCostsOnlyTime) {
  fs_.n_syncs_left = 7;
  EXPECT_FALSE(Prepare().ok());
  Flip(out_ + ".journal", 16 * (kExperts + 1) + 5);  // of the second layer
  fs_.n_syncs_left = INT64_MAX;
  const auto report = Prepare();
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->n_layers_resumed, 1);
  EXPECT_TRUE(Verify().ok());
}

TEST_F(PrepareExpertsTest, ADiskThatIsTooSmallIsRefusedWithTheArithmetic) {
  fs_.free_bytes = 1000;
  const auto report = Prepare();
  EXPECT_EQ(report.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(report.status().message(), HasSubstr("0.0 MB free"));
  EXPECT_FALSE(std::filesystem::exists(out_ + ".part"));
  EXPECT_FALSE(std::filesystem::exists(out_ + ".journal"));
}

TEST_F(PrepareExpertsTest, SomethingElseUnderItsNameIsLeftAlone) {
  std::ofstream(out_) << "my thesis";
  const auto report = Prepare();
  EXPECT_EQ(report.status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(BytesOf(out_), "my thesis");
}

TEST_F(PrepareExpertsTest, DamageIsFoundAndNamed) {
  ASSERT_TRUE(Prepare().ok());
  const uint64_t size = std::filesystem::file_size(out_);
  Flip(out_, size - 10);
  EXPECT_THAT(Verify().message(), HasSubstr("expert 15 of blk.3.experts"));
  EXPECT_TRUE(Verify(/*mapped=*/true).ok());
  Flip(out_, size - 10);
  EXPECT_TRUE(Verify().ok());
}

TEST_F(PrepareExpertsTest, DamageOfTheModelsTensorsIsFoundAndNamed) {
  ASSERT_TRUE(Prepare().ok());
  const auto modified = std::filesystem::last_write_time(model_);
  const auto flip = [&](const GgufTensor& tensor, uint64_t at) {
    const uint64_t offset = tensor.file_offset + at;
    Flip(model_, offset);
    std::filesystem::last_write_time(model_, modified);  // as a disk does that goes bad
  };
  const GgufTensor& dense = *file_->FindTensor("token_embd.weight");
  flip(dense, 1);
  EXPECT_THAT(Verify().message(), HasSubstr("\"token_embd.weight\""));
  flip(dense, 1);
  const GgufTensor& up = *layers_[2].up.tensor;
  flip(up, up.data.size() / 2);
  EXPECT_TRUE(Verify().ok());
  EXPECT_THAT(Verify(/*mapped=*/true).message(), HasSubstr("expert 8 of blk.2.experts"));
}

TEST_F(PrepareExpertsTest, EveryFlippedBitOfWhatDescribesItIsRefused) {
  ASSERT_TRUE(Prepare().ok());
  const uint64_t n_header = OpenOut().value()->file().tensors()[0].file_offset;
  const std::string whole = BytesOf(out_);
  for (uint64_t at = 0; at < n_header; at += at < 600 ? 1 : 13) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
    std::ofstream(out_, std::ios::binary | std::ios::trunc) << flipped;
    EXPECT_FALSE(OpenOut().ok()) << at;
  }
  for (const size_t n : {size_t{0}, size_t{100}, static_cast<size_t>(n_header), whole.size() - 1}) {
    std::ofstream(out_, std::ios::binary | std::ios::trunc) << whole.substr(0, n);
    EXPECT_FALSE(OpenOut().ok()) << n;
  }
}

TEST_F(PrepareExpertsTest, AnotherModelsAndOneThatWasWrittenSinceAreRefused) {
  ASSERT_TRUE(Prepare().ok());
  const auto modified = std::filesystem::last_write_time(model_);
  std::filesystem::last_write_time(model_, modified + std::chrono::seconds(2));
  OpenModel();
  EXPECT_THAT(OpenOut().status().message(), HasSubstr("written since"));
  MakeModel(/*fused=*/false, /*seed=*/2);
  std::filesystem::last_write_time(model_, modified);
  OpenModel();
  EXPECT_THAT(OpenOut().status().message(), HasSubstr("another file"));
}

}  // namespace
}  // namespace holdfast

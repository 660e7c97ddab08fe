#include "weights/ngram_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#include "base/temp_folder.h"
#include "weights/gguf_writer.h"
#include "weights/testing/unreliable_reader.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

constexpr int64_t kRows = 5000, kMaxRows = 300;

// Notes what is asked of it and, while shut, does not begin.
class NotingReader : public AsyncReader {
 public:
  struct Notes {
    std::mutex mutex;
    std::condition_variable opened;
    bool shut = false;
    std::vector<ReadRequest> requests;
    void Open() {
      const std::lock_guard lock(mutex);
      shut = false;
      opened.notify_all();
    }
  };
  NotingReader(Notes* notes, Done done)
      : notes_(notes),
        inner_(MakePreadReader(2, [notes, done = std::move(done)](uint64_t tag, int e) {
          {
            std::unique_lock lock(notes->mutex);
            notes->opened.wait(lock, [notes] { return !notes->shut; });
          }
          done(tag, e);
        })) {}
  std::string_view name() const override { return "noting"; }
  void Submit(std::span<const ReadRequest> requests) override {
    {
      const std::lock_guard lock(notes_->mutex);
      notes_->requests.insert(notes_->requests.end(), requests.begin(), requests.end());
    }
    inner_->Submit(requests);
  }

 private:
  Notes* const notes_;
  const std::unique_ptr<AsyncReader> inner_;
};

class NgramTierTest : public testing::Test {
 protected:
  // A file with a table of random bytes in the part where `place` says, among other tensors.
  enum class Place { kOnlyFile, kFirstPart, kSecondPart, kAloneInSecondPart };
  void Open(Place place = Place::kOnlyFile, QuantType type = QuantType::kIQ4_NL) {
    table_.reset();
    GgufWriter writer;
    writer.SetString("general.name", "table");
    const std::vector<std::byte> other(3 * 4 * 160, std::byte{1});
    const auto add_other = [&](const char* name) {
      writer.AddTensor(name, QuantType::kF32, {160, 3}, other);
    };
    const auto row_bytes = static_cast<size_t>(RowBytes(type, 160).value());
    bytes_.resize(row_bytes * kRows);
    std::mt19937 rng(3);
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(rng());
    const auto add_table = [&] {
      writer.AddTensor("per_layer_token_embd.weight", type, {160, kRows}, bytes_);
    };
    const std::string prefix = folder_.path() + "/model";
    path_ = prefix + ".gguf";
    if (place == Place::kOnlyFile) {
      add_other("a");
      add_table();
      ASSERT_TRUE(writer.WriteFile(path_).ok());
    } else if (place == Place::kFirstPart) {
      add_table();
      add_other("a");
      path_ = writer.WriteSplitFiles(prefix, std::vector<int>{1, 1}).value();
    } else if (place == Place::kSecondPart) {
      add_other("a");
      add_other("b");
      add_table();
      path_ = writer.WriteSplitFiles(prefix, std::vector<int>{1, 2}).value();
    } else {
      add_other("a");
      add_table();
      path_ = writer.WriteSplitFiles(prefix, std::vector<int>{1, 1}).value();
    }
    file_ = GgufFile::Open(path_).value();
    const GgufTensor* const tensor = file_->FindTensor("per_layer_token_embd.weight");
    table_path_ = file_->part_file(tensor->part)->path();
    WeightView view{.tensor = tensor,
                    .name = tensor->name,
                    .type = type,
                    .n_cols = 160,
                    .n_rows = kRows,
                    .n_mats = 1,
                    .data = tensor->data.data(),
                    .row_bytes = static_cast<int64_t>(row_bytes),
                    .mat_bytes = static_cast<int64_t>(bytes_.size())};
    table_ = NgramTable{view, file_.get(), kMaxRows};
  }
  std::unique_ptr<NgramTier> Make(int64_t n_slots, NgramTierOptions options = {}) {
    const NgramSizes sizes = SizesOf(*table_);
    options.memory_bytes = sizes.buffer_bytes + sizes.slot_bytes * static_cast<uint64_t>(n_slots);
    auto tier = NgramTier::Create(*table_, options);
    EXPECT_TRUE(tier.ok()) << tier.status().ToString();
    return *std::move(tier);
  }
  template <typename Reader, typename Notes>
  static NgramTierOptions By(Notes* notes) {
    NgramTierOptions options;
    options.make_reader = [notes](AsyncReader::Done done) -> Result<std::unique_ptr<AsyncReader>> {
      return std::unique_ptr<AsyncReader>(std::make_unique<Reader>(notes, std::move(done)));
    };
    return options;
  }
  // Uses rows as a step does.
  Status Use(NgramTier* tier, const std::vector<int64_t>& rows) {
    tier->Begin(rows);
    HF_RETURN_IF_ERROR(tier->Wait());
    const auto n_bytes = static_cast<size_t>(table_->view.row_bytes);
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::byte* const want = bytes_.data() + static_cast<size_t>(rows[i]) * n_bytes;
      EXPECT_EQ(std::memcmp(tier->Row(static_cast<int64_t>(i)), want, n_bytes), 0)
          << "row " << rows[i] << ": wrong bytes and no error";
    }
    return OkStatus();
  }
  static std::vector<int64_t> RandomRows(std::mt19937* rng, size_t n) {
    std::vector<int64_t> rows(n);
    for (int64_t& row : rows) row = static_cast<int64_t>((*rng)() % kRows);
    return rows;
  }

  const TempFolder folder_ = TempFolder::Create("ngram_tier_test").value();
  std::string path_, table_path_;
  std::vector<std::byte> bytes_;
  std::unique_ptr<GgufFile> file_;
  std::optional<NgramTable> table_;
};

TEST_F(NgramTierTest, GivesTheFilesBytesWhateverTheMemoryTheReaderAndThePart) {
  for (const Place place :
       {Place::kOnlyFile, Place::kFirstPart, Place::kSecondPart, Place::kAloneInSecondPart}) {
    for (const QuantType type : {QuantType::kIQ4_NL, QuantType::kF32}) {
      Open(place, type);
      for (const int64_t n_slots : {1, 40, 6000}) {
        for (const ReaderKind kind : {ReaderKind::kPread, ReaderKind::kAuto}) {
          for (const bool direct : {false, true}) {
            const auto tier = Make(n_slots, {.reader = kind, .direct = direct});
            std::mt19937 rng(static_cast<unsigned>(n_slots));
            for (int step = 0; step < 20; ++step) {
              const size_t n = step % 5 == 0 ? kMaxRows : 1 + rng() % 32;
              ASSERT_TRUE(Use(tier.get(), RandomRows(&rng, n)).ok());
            }
            EXPECT_LE(tier->stats().n_resident, n_slots);
            EXPECT_LE(tier->stats().memory_bytes,
                      SizesOf(*table_).buffer_bytes +
                          SizesOf(*table_).slot_bytes * static_cast<uint64_t>(n_slots));
          }
        }
      }
    }
  }
}

TEST_F(NgramTierTest, TheFirstAndTheLastRowOfTheFileAreRead) {
  Open(Place::kAloneInSecondPart);
  const auto tier = Make(10);
  EXPECT_TRUE(Use(tier.get(), {0, kRows - 1}).ok());
}

TEST_F(NgramTierTest, ARowIsAskedForOnceAndInOrderOfTheFile) {
  Open();
  NotingReader::Notes notes;
  const auto tier = Make(1000, By<NotingReader>(&notes));
  // 4 KiB hold 45 rows: 100 to 109 are one read, or two where a block ends among them.
  ASSERT_TRUE(Use(tier.get(), {4000, 100, 2000, 109, 4000, 100, 103, 4000}).ok());
  EXPECT_EQ(notes.requests.size(), 3u);
  EXPECT_TRUE(std::ranges::is_sorted(notes.requests, {}, &ReadRequest::offset));
  for (const ReadRequest& request : notes.requests) EXPECT_EQ(request.offset % 4096, 0u);
  NgramTierStats stats = tier->stats();
  EXPECT_EQ(stats.n_asked, 8);
  EXPECT_EQ(stats.n_repeated, 3);
  EXPECT_EQ(stats.n_hits, 0);
  EXPECT_EQ(stats.n_read, 5);
  EXPECT_GE(stats.bytes_read, 3u * 4096);
  EXPECT_LE(stats.bytes_read, 6u * 4096);

  ASSERT_TRUE(Use(tier.get(), {103, 4000, 7}).ok());
  EXPECT_EQ(notes.requests.size(), 4u);
  stats = tier->stats();
  EXPECT_EQ(stats.n_hits, 2);
  EXPECT_EQ(stats.n_read, 6);
  EXPECT_EQ(stats.n_resident, 6);
}

TEST_F(NgramTierTest, AllRowsOfAStepAreOnTheirWayBeforeAnyIsThereAndTheWaitIsCounted) {
  Open();
  NotingReader::Notes notes;
  const auto tier = Make(1000, By<NotingReader>(&notes));
  notes.shut = true;
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < 40; ++i) rows.push_back(i * 100);
  tier->Begin(rows);  // does not wait
  {
    const std::lock_guard lock(notes.mutex);
    EXPECT_EQ(notes.requests.size(), 40u);
  }
  EXPECT_EQ(tier->stats().stall_seconds, 0.0);
  std::thread disk([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    notes.Open();
  });
  EXPECT_TRUE(tier->Wait().ok());
  disk.join();
  EXPECT_GT(tier->stats().stall_seconds, 0.0);
}

TEST_F(NgramTierTest, AStepThatEndsBeforeItWaitsDisturbsNobody) {
  Open();
  const auto tier = Make(100);
  std::mt19937 rng(2);
  for (int step = 0; step < 50; ++step) {
    tier->Begin(RandomRows(&rng, kMaxRows));
    if (step % 3 != 0) continue;
    ASSERT_TRUE(Use(tier.get(), RandomRows(&rng, 50)).ok());
  }
}  // and the last one's reads end with the tier

TEST_F(NgramTierTest, AReadErrorFailsTheStepWithFileAndTensorAndTheNextOneReadsAgain) {
  Open();
  UnreliableReader::Faults faults;
  faults.failing = {1};
  const auto tier = Make(100, By<UnreliableReader>(&faults));
  const std::vector<int64_t> rows = {5, 1000, 3000};
  const Status status = Use(tier.get(), rows);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr(path_));
  EXPECT_THAT(status.message(), HasSubstr("per_layer_token_embd.weight"));
  EXPECT_THAT(status.message(), HasSubstr(std::strerror(EIO)));
  EXPECT_EQ(tier->stats().n_resident, 0);
  EXPECT_TRUE(Use(tier.get(), rows).ok());
  EXPECT_EQ(tier->stats().n_resident, 3);
}

TEST_F(NgramTierTest, ThousandsOfRandomFaultsNeverGiveWrongBytes) {
  Open();
  UnreliableReader::Faults faults;
  std::mt19937 rng(7);
  for (int64_t i = 0; i < 10000; ++i) {
    if (rng() % 60 == 0) faults.failing.insert(i);
  }
  const auto tier = Make(200, By<UnreliableReader>(&faults));
  int n_failed = 0;
  for (int step = 0; step < 200; ++step) {
    n_failed += Use(tier.get(), RandomRows(&rng, 1 + rng() % 40)).ok() ? 0 : 1;
  }
  EXPECT_GT(n_failed, 20);
  EXPECT_LT(n_failed, 150);
}

TEST_F(NgramTierTest, AFileThatGetsShorterFailsEveryLaterStep) {
  Open(Place::kSecondPart);
  const auto tier = Make(100);
  ASSERT_TRUE(Use(tier.get(), {kRows - 1}).ok());
  const auto size = std::filesystem::file_size(table_path_);
  std::filesystem::resize_file(table_path_, size - 20000);
  // One that must be read, one that is in memory, and one whose place is still there.
  for (const int64_t row : {kRows - 2, kRows - 1, int64_t{0}}) {
    const Status status = Use(tier.get(), {row});
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.message(), HasSubstr(table_path_));
    EXPECT_THAT(status.message(), HasSubstr("per_layer_token_embd.weight"));
    EXPECT_THAT(status.message(), HasSubstr(std::to_string(size)));
  }
}

TEST_F(NgramTierTest, AFileThatIsWrittenToFailsEveryLaterStep) {
  Open();
  const auto tier = Make(100);
  ASSERT_TRUE(Use(tier.get(), {1, 2}).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // beyond the clock of mtime
  std::fstream(path_, std::ios::in | std::ios::out | std::ios::binary).write("GGUF", 4);
  EXPECT_TRUE(tier->CheckFile().ok());
  EXPECT_THAT(Use(tier.get(), {1, 2}).message(), HasSubstr("written to"));
  EXPECT_THAT(Use(tier.get(), {3}).message(), HasSubstr("written to"));
  EXPECT_THAT(tier->CheckFile().message(), HasSubstr("written to"));
}

TEST_F(NgramTierTest, AFileOfTheSameNameThatTakesItsPlaceChangesNothing) {
  Open();
  const auto tier = Make(100);
  std::ofstream(folder_.path() + "/other") << "something else";
  std::filesystem::rename(folder_.path() + "/other", path_);
  EXPECT_TRUE(Use(tier.get(), {1, 2000}).ok());
  // Opened afterwards, it is another one.
  const auto late = NgramTier::Create(*table_, {.memory_bytes = 64 << 20});
  EXPECT_EQ(late.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(late.status().message(), HasSubstr(path_));
}

TEST_F(NgramTierTest, ATableBehindASymbolicLinkIsRead) {
  Open(Place::kAloneInSecondPart);
  file_.reset();
  std::filesystem::create_directory(folder_.path() + "/elsewhere");
  const std::string real = folder_.path() + "/elsewhere/table.gguf";
  std::filesystem::rename(table_path_, real);
  std::filesystem::create_symlink(real, table_path_);
  file_ = GgufFile::Open(path_).value();
  table_->file = file_.get();
  table_->view.tensor = file_->FindTensor("per_layer_token_embd.weight");
  table_->view.name = table_->view.tensor->name;
  table_->view.data = table_->view.tensor->data.data();
  EXPECT_TRUE(Use(Make(100).get(), {1, 2000}).ok());
}

TEST_F(NgramTierTest, RefusesTooLittleMemoryWithWhatItWants) {
  Open();
  const NgramSizes sizes = SizesOf(*table_);
  const auto tier = NgramTier::Create(*table_, {.memory_bytes = sizes.least_bytes() - 1});
  EXPECT_EQ(tier.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(tier.status().message(), HasSubstr("--ngram-memory"));
  EXPECT_THAT(tier.status().message(), HasSubstr(std::to_string(sizes.least_bytes())));
  EXPECT_TRUE(NgramTier::Create(*table_, {.memory_bytes = sizes.least_bytes()}).ok());
}

TEST_F(NgramTierTest, NeverTakesMoreThanAllRowsWant) {
  Open();
  const auto tier = NgramTier::Create(*table_, {.memory_bytes = uint64_t{1} << 40});
  ASSERT_TRUE(tier.ok()) << tier.status().ToString();
  EXPECT_LE((*tier)->stats().memory_bytes, SizesOf(*table_).most_bytes());
}

TEST_F(NgramTierTest, RefusesATableThatIsNotAFile) {
  Open();
  std::ifstream in(path_, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const auto parsed = GgufFile::Parse(std::as_bytes(std::span(bytes)), "memory").value();
  table_->file = parsed.get();
  EXPECT_EQ(NgramTier::Create(*table_, {.memory_bytes = 64 << 20}).status().code(),
            StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace holdfast

// Session files that arrive in pieces: refused as soon as it shows, and gone afterwards.

#include "store/session_upload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/store.h"
#include "store/store_testing.h"

namespace holdfast {
namespace {

using namespace holdfast::testing;  // NOLINT: the helpers of this folder's tests
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Bytes = std::vector<std::byte>;

constexpr char kIncoming[] = "/store/incoming";

class SessionUploadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    FaultyFileSystem other;
    auto store = *Store::Open(TestOptions(&other), TestKeys());
    ASSERT_TRUE(store->Save(Request("talk", tokens_, 10, {4, 10})).ok());
    ASSERT_TRUE(store->Export("talk", "/talk.hfs").ok());
    session_ = *other.Contents("/talk.hfs");
    Open(TestKeys());
  }
  void Open(const StoreKeys& keys, uint64_t disk_budget_bytes = 0) {
    store_.reset();
    StoreOptions options = TestOptions(&fs_);
    options.disk_budget_bytes = disk_budget_bytes;
    store_ = *Store::Open(options, keys);
  }

  struct Outcome {
    Status status;
    size_t n_taken = 0;  // bytes before the refusal
    std::string conversation;
  };
  // Sends `bytes`, a few at a time, and imports them.
  Outcome Send(const Bytes& bytes, size_t piece = 7, ImportOptions options = {}) {
    auto upload = *store_->BeginUpload();
    for (size_t n = 0; n < bytes.size(); n += piece) {
      const Status status =
          upload->Write(std::span(bytes).subspan(n, std::min(piece, bytes.size() - n)));
      if (!status.ok()) return {status, n};
    }
    const auto report = upload->Import(options);
    return {report.status(), bytes.size(), report.ok() ? report->conversation : ""};
  }
  void ExpectNothingLeft() {
    EXPECT_THAT(*fs_.List(kIncoming), IsEmpty());
    EXPECT_THAT(*store_->List(), IsEmpty());
    EXPECT_THAT(*fs_.List("/store/segments"), IsEmpty());
  }

  const std::vector<int32_t> tokens_ = Tokens(11);
  Bytes session_;
  FaultyFileSystem fs_;
  std::unique_ptr<Store> store_;
};

TEST_F(SessionUploadTest, PiecesOfAnySizeGiveTheConversation) {
  for (const size_t piece : {size_t{1}, size_t{63}, size_t{64}, session_.size()}) {
    const Outcome outcome = Send(session_, piece);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
    EXPECT_EQ(outcome.conversation, "talk");
    EXPECT_EQ(StoredPosition(store_.get(), TestKeys(), tokens_), 10);
    EXPECT_THAT(*fs_.List(kIncoming), IsEmpty());
    ASSERT_TRUE(store_->Remove("talk").ok());
  }
}

TEST_F(SessionUploadTest, TheIdIsKnownOnceTheManifestIsThere) {
  auto upload = *store_->BeginUpload();
  ASSERT_TRUE(upload->Write(std::span(session_).first(200)).ok());
  EXPECT_EQ(upload->conversation(), "");
  ASSERT_TRUE(upload->Write(std::span(session_).subspan(200)).ok());
  EXPECT_EQ(upload->conversation(), "talk");
  EXPECT_EQ(upload->bytes(), session_.size());
}

TEST_F(SessionUploadTest, AnIdThatIsInUseElsewhereIsLeftAlone) {
  const Outcome outcome = Send(session_, 100, {.id_in_use = true});
  ASSERT_TRUE(outcome.status.ok());
  EXPECT_TRUE(outcome.conversation.starts_with("talk-")) << outcome.conversation;
}

TEST_F(SessionUploadTest, WhatIsNoSessionIsRefusedAfterItsHeader) {
  const Outcome outcome = Send(Bytes(100'000, std::byte{'x'}));
  EXPECT_EQ(outcome.status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(outcome.status.message(), "the session file: is not a holdfast session file");
  EXPECT_LE(outcome.n_taken, 128u);
  Bytes newer = session_;
  newer[8] = std::byte{2};
  const Outcome version = Send(newer);
  EXPECT_EQ(version.status.code(), StatusCode::kUnimplemented);
  EXPECT_LE(version.n_taken, 128u);
  ExpectNothingLeft();
}

TEST_F(SessionUploadTest, WhatDoesNotFitThisEngineIsRefusedAfterItsManifest) {
  const auto refused = [&](auto change) {
    StoreKeys keys = TestKeys();
    change(&keys);
    Open(keys);
    const Outcome outcome = Send(session_);
    EXPECT_LT(outcome.n_taken, session_.size() - 700) << "pages and states were taken";
    ExpectNothingLeft();
    EXPECT_THAT(outcome.status.message(), Not(HasSubstr("/store")));
    return outcome.status.message();
  };
  EXPECT_THAT(refused([](StoreKeys* k) { k->model.config = NamedHash("x"); }),
              HasSubstr("the session file: session of another model"));
  EXPECT_THAT(refused([](StoreKeys* k) { k->model.vocabulary = NamedHash("x"); }),
              HasSubstr("another vocabulary"));
  EXPECT_THAT(refused([](StoreKeys* k) { k->kv_format = "f16"; }), HasSubstr("another KV format"));
  EXPECT_THAT(refused([](StoreKeys* k) { k->trunk_layout_key = 1; }), HasSubstr("another layout"));
  EXPECT_THAT(refused([](StoreKeys* k) { k->max_tokens = 10; }),
              HasSubstr("larger than this server's context of 10"));
}

TEST_F(SessionUploadTest, EveryTruncationIsRefused) {
  for (size_t n = 0; n < session_.size(); ++n) {
    const Outcome outcome = Send(Bytes(session_.begin(), session_.begin() + n), 1000);
    ASSERT_EQ(outcome.status.code(), n < 8 ? StatusCode::kInvalidArgument : StatusCode::kDataLoss)
        << n;
  }
  ExpectNothingLeft();
}

TEST_F(SessionUploadTest, EveryFlippedByteIsRefused) {
  Bytes bytes = session_;
  for (std::byte& byte : bytes) {
    byte ^= std::byte{0x10};
    ASSERT_FALSE(Send(bytes, 1000).status.ok()) << &byte - bytes.data();
    byte ^= std::byte{0x10};
  }
  ExpectNothingLeft();
}

TEST_F(SessionUploadTest, NoMoreBytesAreTakenThanTheManifestSays) {
  Bytes longer = session_;
  longer.resize(session_.size() + 100'000);
  const Outcome outcome = Send(longer);
  EXPECT_EQ(outcome.status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(outcome.status.message(),
              HasSubstr("its manifest says " + std::to_string(session_.size())));
  EXPECT_LE(outcome.n_taken, session_.size());
  ExpectNothingLeft();
}

TEST_F(SessionUploadTest, WhatTheDiskOrTheBudgetCannotHoldIsRefusedAtOnce) {
  fs_.SetFreeBytes(2 * session_.size() - 2000);
  const Outcome full = Send(session_);
  EXPECT_EQ(full.status.code(), StatusCode::kResourceExhausted);
  EXPECT_LT(full.n_taken, session_.size() / 2 + 1000);
  fs_.SetFreeBytes(2 * session_.size());
  Open(TestKeys(), session_.size() - 1);
  const Outcome budget = Send(session_);
  EXPECT_EQ(budget.status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(budget.status.message(), HasSubstr("--cache-disk"));
  ExpectNothingLeft();
}

TEST_F(SessionUploadTest, WhateverOperationFailsNothingIsHalfThere) {
  for (const Fault fault : {Fault::kIoError, Fault::kNoSpace}) {
    for (int64_t k = 1;; ++k) {
      ASSERT_LT(k, 1000);
      store_->Remove("talk").ok();
      fs_.FailAt(k, fault);
      auto upload = store_->BeginUpload();
      Status status = upload.status();
      if (status.ok()) status = (*upload)->Write(session_);
      if (status.ok()) status = (*upload)->Import({}).status();
      const bool happened = fs_.fault_happened();
      if (upload.ok()) upload->reset();
      fs_.FailAt(0, fault);
      if (status.ok()) {
        EXPECT_EQ(StoredPosition(store_.get(), TestKeys(), tokens_), 10);
      } else {
        EXPECT_THAT(*store_->List(), IsEmpty()) << k;
      }
      if (!happened) break;
    }
  }
}

TEST_F(SessionUploadTest, WhatAKilledProcessLeftIsRemovedByTheNext) {
  auto upload = *store_->BeginUpload();
  ASSERT_TRUE(upload->Write(std::span(session_).first(300)).ok());
  EXPECT_THAT(*fs_.List(kIncoming), SizeIs(1));
  fs_.Crash(CrashKeeps::kPageCache, 1);
  upload.reset();
  fs_.SetContents(std::string(kIncoming) + "/0.hfs", session_);
  Open(TestKeys());
  EXPECT_THAT(*fs_.List(kIncoming), IsEmpty());
}

}  // namespace
}  // namespace holdfast

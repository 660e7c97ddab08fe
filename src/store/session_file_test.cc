// Session files: what is in them, to the byte, and every reason to refuse one.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <functional>

#include "store/part_file.h"
#include "store/session_manifest.h"
#include "store/store.h"
#include "store/store_testing.h"

namespace holdfast {
namespace {

using namespace holdfast::testing;  // NOLINT: the helpers of this folder's tests
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Bytes = std::vector<std::byte>;

constexpr char kPath[] = "/a.session";

class SessionFileTest : public ::testing::Test {
 protected:
  // A small session: three pages with draft parts, two states, two messages.
  void SetUp() override {
    FaultyFileSystem fs;
    auto store = Store::Open(TestOptions(&fs), TestKeys());
    ASSERT_TRUE(store.ok());
    SaveRequest request = Request("talk", tokens_, 10, {4, 10});
    request.messages =
        std::vector<StoredMessage>{{"user", R"({"text":"hé"})", {}, NamedHash("m0"), 0, 4},
                                   {"assistant", R"("ok")", {"call_1"}, NamedHash("m1"), 4, 11}};
    request.title = "a talk";
    request.tags = {"work"};
    ASSERT_TRUE((*store)->Save(request).ok());
    const Status exported = (*store)->Export("talk", kPath);
    ASSERT_TRUE(exported.ok()) << exported.ToString();
    session_ = *fs.Contents(kPath);
  }

  // Imports `bytes` into an empty store of an engine with `keys`.
  Result<ImportReport> Import(const Bytes& bytes, const std::optional<StoreKeys>& keys = TestKeys(),
                              const std::function<void(Store*)>& then = nullptr) {
    FaultyFileSystem fs;
    fs.SetContents(kPath, bytes);
    auto store = Store::Open(TestOptions(&fs), keys);
    EXPECT_TRUE(store.ok());
    auto report = (*store)->Import(kPath, {});
    if (!report.ok()) {
      EXPECT_THAT(*(*store)->List(), SizeIs(0)) << "refused, yet stored";
      EXPECT_THAT(*fs.List("/store/segments"), SizeIs(0));
    }
    if (then) then(store->get());
    return report;
  }

  // The file with another manifest in its place, everything else as it was.
  Bytes WithManifest(const std::function<void(SessionManifest*)>& change) {
    FaultyFileSystem fs;
    fs.SetContents("/in", session_);
    auto reader = *PartFileReader::Open(&fs, "/in", PartFileKind::kSession);
    std::vector<std::pair<PartInfo, Bytes>> parts;
    for (;;) {
      const auto info = *reader->Next();
      if (!info) break;
      Bytes payload(info->bytes);
      EXPECT_TRUE(reader->Read(*info, payload).ok());
      parts.emplace_back(*info, payload);
    }
    SessionManifest manifest = *ParseSessionManifest(parts[0].second);
    change(&manifest);
    const std::string text = SessionManifestToText(manifest);
    const auto bytes = std::as_bytes(std::span(text));
    parts[0].second.assign(bytes.begin(), bytes.end());
    auto writer = *PartFileWriter::Create(&fs, "/tmp", "/out", PartFileKind::kSession,
                                          Hash128Of(bytes).low, 0);
    for (const auto& [info, payload] : parts) {
      EXPECT_TRUE(writer->Add(info.type, info.index, payload).ok());
    }
    EXPECT_TRUE(writer->Finish().ok());
    return *fs.Contents("/out");
  }

  const std::vector<int32_t> tokens_ = Tokens(11);
  Bytes session_;
};

TEST_F(SessionFileTest, ImportGivesTheConversationBack) {
  const auto report = Import(session_, TestKeys(), [this](Store* store) {
    EXPECT_EQ(StoredPosition(store, TestKeys(), tokens_), 10);
    const auto found = store->Find(tokens_);
    EXPECT_TRUE(found->prefix->has_draft);
    EXPECT_EQ(found->prefix->proof, ProofAt(tokens_, 10));
    const auto detail = store->Show("talk");
    EXPECT_EQ(detail->tokens, tokens_);
    EXPECT_EQ(detail->info.title, "a talk");
    EXPECT_THAT(detail->info.tags, ::testing::ElementsAre("work"));
    EXPECT_THAT(detail->states, SizeIs(2));
    ASSERT_THAT(detail->messages, SizeIs(2));
    EXPECT_EQ(detail->messages[0].content, R"({"text":"hé"})");
    EXPECT_EQ(detail->messages[1].tool_call_ids, std::vector<std::string>{"call_1"});
    EXPECT_THAT(*store->FindMessages(NamedHash("m1")), SizeIs(1));
    // Twice under the same name is a mistake; under another name it costs nothing.
    EXPECT_EQ(store->Import(kPath, {}).status().code(), StatusCode::kAlreadyExists);
    const auto again = store->Import(kPath, {"copy"});
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->bytes_written, 0u);
  });
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->conversation, "talk");
  EXPECT_EQ(report->n_tokens, 11);
  EXPECT_THAT(report->notes, SizeIs(0));
}

TEST_F(SessionFileTest, ExportOfAnImportHoldsTheSamePayloads) {
  FaultyFileSystem fs;
  fs.SetContents(kPath, session_);
  auto store = Store::Open(TestOptions(&fs), TestKeys());
  ASSERT_TRUE((*store)->Import(kPath, {}).ok());
  ASSERT_TRUE((*store)->Export("talk", "/b.session").ok());
  auto a = *PartFileReader::Open(&fs, kPath, PartFileKind::kSession);
  auto b = *PartFileReader::Open(&fs, "/b.session", PartFileKind::kSession);
  int n_parts = 0;
  for (;; ++n_parts) {
    const auto info_a = *a->Next(), info_b = *b->Next();
    ASSERT_EQ(info_a.has_value(), info_b.has_value());
    if (!info_a) break;
    EXPECT_EQ(info_a->type, info_b->type);
    EXPECT_EQ(info_a->index, info_b->index);
    // The manifest has another time of creation.
    if (info_a->type != PartType::kManifest) {
      EXPECT_EQ(info_a->hash, info_b->hash);
    }
  }
  EXPECT_EQ(n_parts, 2 + 3 + 3 + 4);
}

TEST_F(SessionFileTest, AStreamedExportHasTheBytesOfTheFileAndEndsWithItsReader) {
  FaultyFileSystem fs;
  fs.SetContents(kPath, session_);
  auto store = *Store::Open(TestOptions(&fs), TestKeys());
  ASSERT_TRUE(store->Import(kPath, {}).ok());
  Bytes streamed;
  const auto take = [&](std::span<const std::byte> bytes) {
    streamed.insert(streamed.end(), bytes.begin(), bytes.end());
    return OkStatus();
  };
  ASSERT_TRUE(store->ExportTo("talk", take).ok());
  ASSERT_TRUE(store->Export("talk", "/file").ok());
  EXPECT_EQ(streamed, *fs.Contents("/file"));
  int n_calls = 0;
  const auto refuse = [&](std::span<const std::byte>) {
    ++n_calls;
    return CancelledError("gone");
  };
  EXPECT_EQ(store->ExportTo("talk", refuse).code(), StatusCode::kCancelled);
  EXPECT_EQ(n_calls, 1);
  EXPECT_EQ(store->ExportTo("nobody", take).code(), StatusCode::kNotFound);
}

TEST_F(SessionFileTest, BesideOthersTheSameIsThereAlreadyAndAnotherGetsAnIdOfItsOwn) {
  FaultyFileSystem fs;
  fs.SetContents(kPath, session_);
  auto store = *Store::Open(TestOptions(&fs), TestKeys());
  const ImportOptions beside{.beside_others = true};
  EXPECT_EQ(store->Import(kPath, beside)->conversation, "talk");
  const auto again = store->Import(kPath, beside);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->conversation, "talk");
  EXPECT_EQ(again->bytes_written, 0u);
  EXPECT_EQ(again->n_live, 10);
  EXPECT_EQ(store->List()->size(), 1u);
  // The conversation has gone on since.
  const auto longer = Tokens(14);
  ASSERT_TRUE(store->Save(Request("talk", longer, 14, {14})).ok());
  const auto older = store->Import(kPath, beside);
  ASSERT_TRUE(older.ok());
  EXPECT_TRUE(older->conversation.starts_with("talk-")) << older->conversation;
  EXPECT_EQ(store->Show("talk")->info.n_tokens, 14);
  EXPECT_EQ(store->Show(older->conversation)->info.n_tokens, 11);
  EXPECT_EQ(store->Import(kPath, {}).status().code(), StatusCode::kAlreadyExists);
}

TEST_F(SessionFileTest, GoldenBytes) {
  // tests/fixtures/session_v1.hfs is the file this holdfast's first version wrote; see
  // docs/session_format.md. A change here is a change of the format: raise its version, keep a
  // reader for this one, and add another golden file.
  std::ifstream file(std::string(HOLDFAST_SOURCE_DIR) + "/tests/fixtures/session_v1.hfs",
                     std::ios::binary);
  std::string golden((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto golden_bytes = std::as_bytes(std::span(golden));
  EXPECT_EQ(session_, Bytes(golden_bytes.begin(), golden_bytes.end()));
  const auto report = Import(Bytes(golden_bytes.begin(), golden_bytes.end()));
  EXPECT_TRUE(report.ok()) << report.status().ToString();
}

TEST_F(SessionFileTest, HeaderFieldsLieWhereTheDocumentSays) {
  const auto at = [this](size_t offset, size_t n) {
    return std::string(reinterpret_cast<const char*>(session_.data()) + offset, n);
  };
  EXPECT_EQ(at(0, 8), "HFSESS\r\n");
  EXPECT_EQ(at(8, 4), std::string("\1\0\0\0", 4));     // version
  EXPECT_EQ(at(12, 4), std::string("\x40\0\0\0", 4));  // alignment
  EXPECT_EQ(at(64, 4), "PART");
  EXPECT_EQ(at(68, 2), std::string("\1\0", 2));  // manifest
  EXPECT_EQ(at(128, 17), "{\"conversation\":\"");
}

TEST_F(SessionFileTest, EveryTruncationIsRefused) {
  FaultyFileSystem fs;
  auto store = Store::Open(TestOptions(&fs), TestKeys());
  ASSERT_TRUE(store.ok());
  for (size_t n = 0; n < session_.size(); ++n) {
    fs.SetContents(kPath, Bytes(session_.begin(), session_.begin() + static_cast<long>(n)));
    const auto report = (*store)->Import(kPath, {});
    const StatusCode wanted = n < 8 ? StatusCode::kInvalidArgument : StatusCode::kDataLoss;
    ASSERT_EQ(report.status().code(), wanted) << n;
  }
  EXPECT_THAT(*(*store)->List(), SizeIs(0));
}

TEST_F(SessionFileTest, EveryFlippedBitIsRefused) {
  // One file system and store for all: what is refused leaves no trace.
  FaultyFileSystem fs;
  auto store = Store::Open(TestOptions(&fs), TestKeys());
  ASSERT_TRUE(store.ok());
  Bytes bytes = session_;
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[i] ^= std::byte{1} << bit;
      fs.SetContents(kPath, bytes);
      const auto report = (*store)->Import(kPath, {});
      ASSERT_FALSE(report.ok()) << "byte " << i << " bit " << bit;
      bytes[i] ^= std::byte{1} << bit;
    }
  }
  EXPECT_THAT(*(*store)->List(), SizeIs(0));
  std::printf("[    INFO] %zu flipped bits\n", bytes.size() * 8);
}

TEST_F(SessionFileTest, BytesAfterTheEndAreRefused) {
  Bytes bytes = session_;
  bytes.push_back(std::byte{0});
  EXPECT_THAT(Import(bytes).status().message(), HasSubstr("bytes after the end"));
}

TEST_F(SessionFileTest, WhatIsNoSessionIsCalledThat) {
  const std::string text = "%PDF-1.7 something else altogether";
  const auto bytes = std::as_bytes(std::span(text));
  const auto report = Import(Bytes(bytes.begin(), bytes.end()));
  EXPECT_EQ(report.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(report.status().message(), HasSubstr("is not a holdfast session file"));
  EXPECT_THAT(Import({}).status().message(), HasSubstr("is not a holdfast session file"));
}

TEST_F(SessionFileTest, ANewerVersionIsCalledThat) {
  Bytes bytes = session_;
  bytes[8] = std::byte{2};
  const auto report = Import(bytes);
  EXPECT_EQ(report.status().code(), StatusCode::kUnimplemented);
  EXPECT_THAT(report.status().message(), HasSubstr("version 2, this holdfast reads up to 1"));
}

TEST_F(SessionFileTest, EachMismatchHasItsOwnText) {
  const auto refused = [this](auto change) {
    StoreKeys keys = TestKeys();
    change(&keys);
    const auto report = Import(session_, keys);
    EXPECT_EQ(report.status().code(), StatusCode::kFailedPrecondition);
    return report.status().message();
  };
  EXPECT_THAT(refused([](StoreKeys* k) { k->model.provisional = NamedHash("x"); }),
              HasSubstr("another model"));
  EXPECT_THAT(refused([](StoreKeys* k) { k->model.config = NamedHash("x"); }),
              HasSubstr("another model"));
  EXPECT_THAT(refused([](StoreKeys* k) { k->model.vocabulary = NamedHash("x"); }),
              HasSubstr("another vocabulary"));
  EXPECT_THAT(refused([](StoreKeys* k) { k->kv_format = "f16"; }), HasSubstr("another KV format"));
  EXPECT_THAT(refused([](StoreKeys* k) { k->trunk_layout_key = 1; }), HasSubstr("another layout"));
  EXPECT_THAT(refused([](StoreKeys* k) { k->page_bytes += 64; }), HasSubstr("another layout"));
  EXPECT_THAT(refused([](StoreKeys* k) { k->page_tokens = 8; }), HasSubstr("another layout"));
  EXPECT_THAT(refused([](StoreKeys* k) { k->running_bytes += 64; }), HasSubstr("another layout"));
  EXPECT_THAT(refused([](StoreKeys* k) { k->numerics_key = "2"; }),
              HasSubstr("another numerics key"));
}

TEST_F(SessionFileTest, AnotherFullIdentityIsAnotherModelWhereBothKnowIt) {
  const Bytes with_full =
      WithManifest([](SessionManifest* m) { m->keys.model.full = NamedHash("full"); });
  EXPECT_TRUE(Import(with_full).ok());  // ours is not known yet
  StoreKeys keys = TestKeys();
  keys.model.full = NamedHash("full");
  EXPECT_TRUE(Import(with_full, keys).ok());
  EXPECT_TRUE(Import(session_, keys).ok());
  keys.model.full = NamedHash("another");
  EXPECT_THAT(Import(with_full, keys).status().message(), HasSubstr("another model"));
}

TEST_F(SessionFileTest, LargerThanTheContextIsCalledThat) {
  StoreKeys keys = TestKeys();
  keys.max_tokens = 10;
  const auto report = Import(session_, keys);
  EXPECT_EQ(report.status().code(), StatusCode::kOutOfRange);
  EXPECT_THAT(report.status().message(),
              HasSubstr("session of 11 tokens is larger than this server's context of 10"));
}

TEST_F(SessionFileTest, WithoutADraftLayerHereTheTrunkPartIsUsed) {
  const StoreKeys keys = TestKeys(/*with_draft=*/false);
  const auto report = Import(session_, keys, [&](Store* store) {
    EXPECT_EQ(StoredPosition(store, keys, tokens_), 10);
    EXPECT_EQ(store->Verify()->parts_checked, 5);  // 3 pages, 2 states
  });
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(report->notes, ::testing::ElementsAre(HasSubstr("no draft layer")));
}

TEST_F(SessionFileTest, AnotherDraftLayerLeavesTheDraftPartOutWhole) {
  StoreKeys keys = TestKeys();
  keys.model.draft = NamedHash("another");
  const auto report =
      Import(session_, keys, [&](Store* store) { EXPECT_EQ(store->Verify()->parts_checked, 5); });
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(report->notes, ::testing::ElementsAre(HasSubstr("another draft layer")));
}

TEST_F(SessionFileTest, ASessionWithoutADraftPartIsImportedAndSaidSo) {
  FaultyFileSystem fs;
  auto store = Store::Open(TestOptions(&fs), TestKeys());
  ASSERT_TRUE((*store)->Save(Request("talk", tokens_, 10, {10}, /*draft=*/false)).ok());
  ASSERT_TRUE((*store)->Export("talk", kPath).ok());
  const auto report = Import(*fs.Contents(kPath));
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(report->notes, ::testing::ElementsAre(HasSubstr("no draft part")));
}

TEST_F(SessionFileTest, WithoutAModelItWaitsForAServerThatFits) {
  const auto report = Import(session_, std::nullopt, [&](Store* store) {
    EXPECT_THAT(*store->List(), SizeIs(1));
    EXPECT_EQ(store->Find(tokens_).status().code(), StatusCode::kFailedPrecondition);
  });
  EXPECT_TRUE(report.ok()) << report.status().ToString();
}

TEST_F(SessionFileTest, ASoundContainerWithAnImpossibleManifestIsRefused) {
  const auto refused = [this](const std::function<void(SessionManifest*)>& change) {
    const auto report = Import(WithManifest(change));
    EXPECT_FALSE(report.ok());
  };
  refused([](SessionManifest* m) { m->n_tokens = 2'000'000'000; });
  refused([](SessionManifest* m) { m->n_tokens = 12; });
  refused([](SessionManifest* m) { m->n_live = 5; });
  refused([](SessionManifest* m) { m->has_draft = false; });
  refused([](SessionManifest* m) { m->has_content = true; });
  refused([](SessionManifest* m) { m->states.pop_back(); });
  refused([](SessionManifest* m) { m->states[0].position = 5; });
  refused([](SessionManifest* m) { m->states[0].position = 11; });
  refused([](SessionManifest* m) { m->states[0].proof->next_token = 1000; });
  refused([](SessionManifest* m) { m->conversation = "../../etc/passwd"; });
  refused([](SessionManifest* m) { m->messages[0].token_end = 12; });
  refused([](SessionManifest* m) { m->keys.page_tokens = 1 << 30; });
  refused([](SessionManifest* m) { m->keys.page_bytes = size_t{1} << 62; });
}

TEST_F(SessionFileTest, ManifestFieldsOfOtherTypesAreNamed) {
  const std::string text = SessionManifestToText([this] {
    FaultyFileSystem fs;
    fs.SetContents("/in", session_);
    auto reader = *PartFileReader::Open(&fs, "/in", PartFileKind::kSession);
    const auto info = **reader->Next();
    Bytes payload(info.bytes);
    EXPECT_TRUE(reader->Read(info, payload).ok());
    return *ParseSessionManifest(payload);
  }());
  const auto parse = [](const std::string& json) {
    return ParseSessionManifest(std::as_bytes(std::span(json))).status().message();
  };
  EXPECT_EQ(parse(text), "");
  const auto with = [&text](const std::string& from, const std::string& to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return changed.replace(at, from.size(), to);
  };
  EXPECT_THAT(parse(with("\"n_tokens\":11", "\"n_tokens\":-1")), HasSubstr("n_tokens"));
  EXPECT_THAT(parse(with("\"n_tokens\":11", "\"n_tokens\":1e9")), HasSubstr("n_tokens"));
  EXPECT_THAT(parse(with("\"n_tokens\":11", "\"n_tokens\":18446744073709551615")),
              HasSubstr("n_tokens"));
  EXPECT_THAT(parse(with("\"title\":", "\"tital\":")), HasSubstr("title is missing"));
  EXPECT_THAT(parse(with("\"tags\":[\"work\"]", "\"tags\":[1]")), HasSubstr("tags"));
  EXPECT_THAT(parse(with("\"states\":[", "\"states\":[7,")), HasSubstr("is not an object"));
  EXPECT_THAT(parse("[]"), HasSubstr("is not an object"));
  EXPECT_THAT(parse("{"), HasSubstr("is not JSON"));
  EXPECT_THAT(parse(std::string(100'000, '[')), HasSubstr("is not JSON"));
}

}  // namespace
}  // namespace holdfast

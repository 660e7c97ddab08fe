#include "store/model_identity.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "store/faulty_file_system.h"
#include "store/identity_cache.h"
#include "store/store_testing.h"
#include "weights/gguf.h"
#include "weights/gguf_writer.h"
#include "weights/model_config.h"

namespace holdfast {
namespace {

std::string FixturePath(const std::string& name) {
  return std::string(HOLDFAST_SOURCE_DIR) + "/tests/fixtures/" + name;
}

std::unique_ptr<GgufFile> Open(const std::string& name) {
  auto file = GgufFile::Open(FixturePath(name));
  EXPECT_TRUE(file.ok()) << file.status().ToString();
  return std::move(*file);
}

ModelConfig ConfigOf(const GgufFile& file, const GgufFile* sidecar = nullptr) {
  auto config = ReadModelConfig(file, sidecar);
  EXPECT_TRUE(config.ok()) << config.status().ToString();
  return *config;
}

// The same model in another file: tensors in reverse, another alignment, one thing changed.
struct Copy {
  std::vector<std::vector<std::byte>> data;
  std::vector<std::byte> bytes;
  std::unique_ptr<GgufFile> file;
};
std::unique_ptr<Copy> Rewrite(
    const GgufFile& file,
    const std::function<void(const GgufTensor&, std::vector<std::byte>*)>& change_tensor = nullptr,
    const std::function<bool(const GgufValue&, GgufWriter*)>& change_value = nullptr) {
  auto copy = std::make_unique<Copy>();
  GgufWriter writer(64);
  for (const GgufValue& value : file.values()) {
    if (value.key() == "general.alignment") continue;
    if (!change_value || !change_value(value, &writer)) writer.SetValue(value);
  }
  writer.SetU32("general.alignment", 64);
  copy->data.reserve(file.tensors().size());
  for (auto tensor = file.tensors().rbegin(); tensor != file.tensors().rend(); ++tensor) {
    auto& data = copy->data.emplace_back(tensor->data.begin(), tensor->data.end());
    if (change_tensor) change_tensor(*tensor, &data);
    writer.AddTensor(tensor->name, tensor->type,
                     {tensor->ne.begin(), tensor->ne.begin() + tensor->n_dims}, data);
  }
  copy->bytes = writer.ToBytes();
  auto parsed = GgufFile::Parse(copy->bytes, "copy");
  EXPECT_TRUE(parsed.ok()) << parsed.status().ToString();
  copy->file = std::move(*parsed);
  return copy;
}

ModelIdentity Provisional(const GgufFile& file) {
  return ProvisionalIdentity(file, nullptr, ConfigOf(file));
}

Hash128 Full(const GgufFile& file) {
  const std::atomic<bool> cancel{false};
  auto full = FullIdentity(file, ConfigOf(file), cancel);
  EXPECT_TRUE(full.ok());
  return *full;
}

TEST(ModelIdentityTest, FileLayoutDoesNotCount) {
  const auto file = Open("tinyA-bf16.gguf");
  const auto copy = Rewrite(*file);
  const ModelIdentity a = Provisional(*file), b = Provisional(*copy->file);
  EXPECT_EQ(a.provisional, b.provisional);
  EXPECT_EQ(a.config, b.config);
  EXPECT_EQ(a.vocabulary, b.vocabulary);
  EXPECT_EQ(Full(*file), Full(*copy->file));
}

TEST(ModelIdentityTest, ADifferentModelDiffers) {
  const ModelIdentity a = Provisional(*Open("tinyA-bf16.gguf"));
  const ModelIdentity mix = Provisional(*Open("tinyA-mix.gguf"));
  EXPECT_EQ(a.config, mix.config);  // the same model, quantised
  EXPECT_NE(a.provisional, mix.provisional);
}

TEST(ModelIdentityTest, ByteBetweenTheSamplesShowsInTheFullIdentityOnly) {
  const auto file = Open("tinyA-bf16.gguf");
  const GgufTensor* large = nullptr;
  for (const GgufTensor& tensor : file->tensors()) {
    if (large == nullptr || tensor.data.size() > large->data.size()) large = &tensor;
  }
  ASSERT_GT(large->data.size(), 4 * kIdentitySampleBytes);
  constexpr size_t kPiece = kIdentitySampleBytes / kIdentitySamplePieces;
  for (const auto& [offset, sampled] : {std::pair(kPiece + 5, false), std::pair(size_t{5}, true),
                                        std::pair(large->data.size() - 1, true)}) {
    const size_t at = offset;
    const auto copy = Rewrite(*file, [&](const GgufTensor& tensor, std::vector<std::byte>* data) {
      if (tensor.name == large->name) (*data)[at] ^= std::byte{1};
    });
    EXPECT_EQ(Provisional(*file).provisional != Provisional(*copy->file).provisional, sampled)
        << at;
    EXPECT_NE(Full(*file), Full(*copy->file)) << at;
  }
}

TEST(ModelIdentityTest, ATokenCountsAndTheChatTemplateDoesNot) {
  const auto file = Open("tinyA-bf16.gguf");
  const ModelIdentity a = Provisional(*file);
  const auto with_template =
      Rewrite(*file, nullptr, [](const GgufValue& value, GgufWriter* writer) {
        if (value.key() != "tokenizer.chat_template" && value.key() != "general.name") return false;
        writer->SetString(value.key(), "another");
        return true;
      });
  EXPECT_EQ(a.provisional, Provisional(*with_template->file).provisional);
  bool changed = false;
  const auto other = Rewrite(*file, nullptr, [&](const GgufValue& value, GgufWriter* writer) {
    if (value.key() != "tokenizer.ggml.tokens") return false;
    std::vector<std::string> tokens;
    const auto stored = value.Strings();
    for (const std::string_view token : *stored) tokens.emplace_back(token);
    tokens[7] += "x";
    writer->SetStrings(value.key(), tokens);
    changed = true;
    return true;
  });
  if (!changed) GTEST_SKIP() << "the fixture has no token list";
  EXPECT_NE(a.vocabulary, Provisional(*other->file).vocabulary);
  EXPECT_NE(a.provisional, Provisional(*other->file).provisional);
}

TEST(ModelIdentityTest, TheDraftLayerIsIdentifiedApart) {
  const auto with_mtp = Open("tinyC-mtp-bf16.gguf");
  const ModelConfig config = ConfigOf(*with_mtp);
  ASSERT_EQ(config.n_mtp_layers, 1);
  const ModelIdentity a = ProvisionalIdentity(*with_mtp, nullptr, config);
  EXPECT_NE(a.draft, Hash128{});
  const std::string draft_prefix = "blk." + std::to_string(config.n_layers) + ".";
  const auto copy = Rewrite(*with_mtp, [&](const GgufTensor& tensor, std::vector<std::byte>* data) {
    if (tensor.name.starts_with(draft_prefix)) (*data)[0] ^= std::byte{1};
  });
  const ModelIdentity b = ProvisionalIdentity(*copy->file, nullptr, ConfigOf(*copy->file));
  EXPECT_EQ(a.provisional, b.provisional);
  EXPECT_NE(a.draft, b.draft);
}

TEST(ModelIdentityTest, AStopIsNoticed) {
  const auto file = Open("tinyA-bf16.gguf");
  const std::atomic<bool> cancel{true};
  EXPECT_EQ(FullIdentity(*file, ConfigOf(*file), cancel).status().code(), StatusCode::kCancelled);
}

TEST(ModelIdentityTest, TheCacheIsUsedWhileTheFileIsTheSame) {
  const auto file = Open("tinyA-bf16.gguf");
  const ModelConfig config = ConfigOf(*file);
  FaultyFileSystem fs;
  auto store = Store::Open(testing::TestOptions(&fs), std::nullopt);
  ASSERT_TRUE(store.ok());
  const ModelIdentity first = IdentifyModel(store->get(), *file, nullptr, config);
  EXPECT_EQ(first.provisional, Provisional(*file).provisional);
  const std::string key = IdentityCacheKey(*file, nullptr);
  const Hash128 marked = testing::NamedHash("marked");
  std::string text = **(*store)->CacheGet(key);
  text.replace(64, 32, marked.Hex());
  ASSERT_TRUE((*store)->CachePut(key, text).ok());
  EXPECT_EQ(IdentifyModel(store->get(), *file, nullptr, config).provisional, marked);
  ASSERT_TRUE((*store)->CachePut(key, "nonsense").ok());
  EXPECT_EQ(IdentifyModel(store->get(), *file, nullptr, config).provisional, first.provisional);
  EXPECT_NE(key, IdentityCacheKey(*Open("tinyA-mix.gguf"), nullptr));
}

}  // namespace
}  // namespace holdfast

#include "weights/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "weights/gguf_split.h"
#include "weights/gguf_writer.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

std::string Fixture(const std::string& name) {
  return HOLDFAST_SOURCE_DIR "/tests/fixtures/" + name;
}

// A directory of its own for each test, removed at the end.
class GgufFileTest : public testing::Test {
 protected:
  GgufFileTest()
      : dir_(std::filesystem::path(testing::TempDir()) /
             ("gguf_test_" + std::to_string(getpid()) + "_" +
              testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::create_directories(dir_);
  }
  ~GgufFileTest() override { std::filesystem::remove_all(dir_); }
  std::string Path(const std::string& name) const { return (dir_ / name).string(); }

  std::filesystem::path dir_;
};

TEST_F(GgufFileTest, ReadsAFixtureThatTheConverterWrote) {
  const auto file = GgufFile::Open(Fixture("tinyC-mtp-bf16.gguf"));
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const GgufFile& gguf = **file;
  EXPECT_EQ(gguf.version(), 3);
  EXPECT_EQ(gguf.alignment(), 32);
  EXPECT_EQ(gguf.GetString("general.architecture").value(), "qwen4exp");
  EXPECT_EQ(gguf.GetInt("qwen4exp.block_count", 0, 100).value(), 5);
  EXPECT_EQ(gguf.GetUint64s("qwen4exp.ple.layer_multipliers").value(),
            (std::vector<uint64_t>{4295158889771065, 3929419265628323, 1270917961438207}));
  EXPECT_EQ(gguf.GetStrings("tokenizer.ggml.tokens").value().size(), 2048u);
  EXPECT_EQ(gguf.GetStrings("tokenizer.ggml.tokens").value()[1], "\"");
  const GgufTensor* tensor = gguf.FindTensor("blk.4.ffn_down_exps.weight");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->ShapeText(), "{64, 128, 8}");
  EXPECT_EQ(tensor->type, QuantType::kBF16);
  EXPECT_EQ(tensor->data.size(), 64u * 128 * 8 * 2);
  EXPECT_EQ(gguf.FindTensor("blk.5.attn_q.weight"), nullptr);
  // The offset is that of the data in the file.
  std::ifstream in(Fixture("tinyC-mtp-bf16.gguf"), std::ios::binary);
  in.seekg(static_cast<std::streamoff>(tensor->file_offset));
  std::vector<char> bytes(tensor->data.size());
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  EXPECT_EQ(std::memcmp(bytes.data(), tensor->data.data(), bytes.size()), 0);
}

TEST_F(GgufFileTest, WritesAFixtureAgainByteForByte) {
  const std::string path = Fixture("mtp-tinyC-bf16.gguf");
  const auto file = GgufFile::Open(path).value();
  GgufWriter writer;
  for (const GgufValue& value : file->values()) writer.SetValue(value);
  for (const GgufTensor& tensor : file->tensors()) {
    writer.AddTensor(tensor.name, tensor.type,
                     {tensor.ne.begin(), tensor.ne.begin() + tensor.n_dims}, tensor.data);
  }
  const std::vector<std::byte> bytes = writer.ToBytes();
  const std::span<const std::byte> original = file->part_file(0)->bytes();
  ASSERT_EQ(bytes.size(), original.size());
  EXPECT_EQ(std::memcmp(bytes.data(), original.data(), bytes.size()), 0);
  ASSERT_TRUE(writer.WriteFile(Path("copy.gguf"), 2).ok());
  const MappedFile copy = MappedFile::Open(Path("copy.gguf")).value();
  ASSERT_EQ(copy.size(), original.size());
  EXPECT_EQ(std::memcmp(copy.bytes().data(), original.data(), copy.size()), 0);
}

TEST_F(GgufFileTest, EveryValueTypeReadsBack) {
  GgufWriter writer;
  writer.SetInt("u8", GgufType::kU8, 200);
  writer.SetInt("i8", GgufType::kI8, -100);
  writer.SetInt("u16", GgufType::kU16, 60000);
  writer.SetInt("i16", GgufType::kI16, -30000);
  writer.SetU32("u32", 4000000000u);
  writer.SetI32("i32", -2000000000);
  writer.SetInt("u64", GgufType::kU64, -1);  // all bits: 2^64 - 1
  writer.SetInt("i64", GgufType::kI64, INT64_MIN);
  writer.SetF32("f32", 1.5f);
  writer.SetBool("bool", true);
  writer.SetString("string", "na\xc3\xafve");
  writer.SetInts("i32s", GgufType::kI32, std::vector<int64_t>{-1, 0, 7});
  writer.SetF32s("f32s", std::vector<float>{0.5f, -2.0f});
  writer.SetInts("bools", GgufType::kBool, std::vector<int64_t>{1, 0});
  writer.SetStrings("strings", std::vector<std::string>{"", "b", "cc"});
  const std::vector<std::byte> bytes = writer.ToBytes();
  const auto file = GgufFile::Parse(bytes, "memory").value();
  const auto integer = [&](const char* key) {
    return file->GetInt(key, INT64_MIN, INT64_MAX).value();
  };
  EXPECT_EQ(integer("u8"), 200);
  EXPECT_EQ(integer("i8"), -100);
  EXPECT_EQ(integer("u16"), 60000);
  EXPECT_EQ(integer("i16"), -30000);
  EXPECT_EQ(integer("u32"), 4000000000);
  EXPECT_EQ(integer("i32"), -2000000000);
  EXPECT_EQ(integer("i64"), INT64_MIN);
  EXPECT_EQ(file->Find("u64")->Uint64().value(), UINT64_MAX);
  EXPECT_FALSE(file->GetInt("u64", INT64_MIN, INT64_MAX).ok());
  EXPECT_EQ(file->GetFloat("f32", 0, 2).value(), 1.5);
  EXPECT_EQ(file->GetFloat("i8", -200, 2).value(), -100.0);
  EXPECT_TRUE(file->GetBool("bool").value());
  EXPECT_EQ(file->GetString("string").value(), "na\xc3\xafve");
  EXPECT_EQ(file->GetInts("i32s", -1, 7).value(), (std::vector<int64_t>{-1, 0, 7}));
  EXPECT_EQ(file->Find("f32s")->Floats().value(), (std::vector<double>{0.5, -2.0}));
  EXPECT_EQ(file->Find("bools")->Bools().value(), (std::vector<bool>{true, false}));
  EXPECT_THAT(file->GetStrings("strings").value(), testing::ElementsAre("", "b", "cc"));
  EXPECT_EQ(file->Find("strings")->ToText(2), "[\"\", \"b\", ... 3 string]");
  EXPECT_EQ(file->Find("string")->ToText(), "\"na\\xc3\\xafve\"");
}

TEST_F(GgufFileTest, WrongTypesAndValuesNameKeyFoundAndWanted) {
  GgufWriter writer;
  writer.SetString("text", "seven");
  writer.SetU32("number", 7);
  writer.SetInts("list", GgufType::kI32, std::vector<int64_t>{1, 99});
  writer.SetF32("nan", __builtin_nanf(""));
  const std::vector<std::byte> bytes = writer.ToBytes();
  const auto file = GgufFile::Parse(bytes, "m.gguf").value();
  EXPECT_EQ(file->GetInt("text", 0, 9).status().message(),
            "m.gguf: key \"text\": found string \"seven\", wanted an integer");
  EXPECT_EQ(file->GetInt("number", 0, 6).status().message(),
            "m.gguf: key \"number\": found 7, wanted 0 to 6");
  EXPECT_EQ(file->GetInt("list", 0, 6).status().message(),
            "m.gguf: key \"list\": found an array of 2 i32, wanted an integer");
  EXPECT_EQ(file->GetInts("list", 0, 9).status().message(),
            "m.gguf: key \"list\": element 1 is 99, wanted 0 to 9");
  EXPECT_EQ(file->GetInts("number", 0, 9).status().message(),
            "m.gguf: key \"number\": found u32 7, wanted an array of integers");
  EXPECT_EQ(file->GetString("number").status().message(),
            "m.gguf: key \"number\": found u32 7, wanted a string");
  EXPECT_EQ(file->GetStrings("list").status().message(),
            "m.gguf: key \"list\": found an array of 2 i32, wanted an array of strings");
  EXPECT_EQ(file->GetInt("gone", 0, 9).status().message(), "m.gguf: no key \"gone\"");
  EXPECT_EQ(file->GetInt("gone", 0, 9).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(file->GetIntOr("gone", 0, 9, 4).value(), 4);
  EXPECT_FALSE(file->GetIntOr("text", 0, 9, 4).ok());
  EXPECT_FALSE(file->GetFloat("nan", -1e30, 1e30).ok());
}

GgufWriter ThreeTensors(const std::vector<std::byte>& data) {
  GgufWriter writer;
  writer.SetString("general.name", "split");
  for (const char* name : {"a", "b", "c"}) writer.AddTensor(name, QuantType::kF32, {2, 3}, data);
  return writer;
}

TEST_F(GgufFileTest, SplitFilesReadAsOneAndPartOneMayBeEmpty) {
  const std::vector<std::byte> data(24, std::byte{0x3f});
  const std::vector<int> parts = {0, 1, 2};
  const std::string first = ThreeTensors(data).WriteSplitFiles(Path("m"), parts).value();
  EXPECT_EQ(first, Path("m-00001-of-00003.gguf"));
  const auto file = GgufFile::Open(first);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ((*file)->n_parts(), 3);
  EXPECT_EQ((*file)->tensors().size(), 3u);
  EXPECT_EQ((*file)->FindTensor("a")->part, 1);
  EXPECT_EQ((*file)->FindTensor("c")->part, 2);
  EXPECT_EQ((*file)->FindTensor("c")->data[23], std::byte{0x3f});
  EXPECT_EQ((*file)->part_file(2)->path(), Path("m-00003-of-00003.gguf"));
  EXPECT_EQ((*file)->GetString("general.name").value(), "split");
}

TEST_F(GgufFileTest, SiblingsAreFoundBesideTheLinkNotItsTarget) {
  const std::vector<std::byte> data(24);
  const std::vector<int> parts = {1, 2};
  ASSERT_TRUE(ThreeTensors(data).WriteSplitFiles(Path("m"), parts).ok());
  for (int part = 1; part <= 2; ++part) {
    const std::string name = SplitPath("m", part - 1, 2);
    std::filesystem::rename(Path(name), Path("blob" + std::to_string(part)));
    std::filesystem::create_symlink(Path("blob" + std::to_string(part)), Path(name));
  }
  EXPECT_TRUE(GgufFile::Open(Path("m-00001-of-00002.gguf")).ok());
}

TEST_F(GgufFileTest, MissingMisnamedAndForeignPartsAreRefused) {
  const std::vector<std::byte> data(24);
  const std::vector<int> parts = {1, 2};
  const std::string first = ThreeTensors(data).WriteSplitFiles(Path("m"), parts).value();
  const std::string second = Path("m-00002-of-00002.gguf");
  EXPECT_THAT(GgufFile::Open(second).status().message(), HasSubstr("part 2 of 2; open part 1"));

  std::filesystem::copy_file(first, Path("renamed.gguf"));
  EXPECT_THAT(GgufFile::Open(Path("renamed.gguf")).status().message(),
              HasSubstr("must be named \"<name>-00001-of-00002.gguf\""));

  std::filesystem::rename(second, Path("away"));
  const Status missing = GgufFile::Open(first).status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("part 2 of 2 cannot be opened"));

  // Part 1 again in the place of part 2.
  std::filesystem::copy_file(first, second);
  EXPECT_THAT(GgufFile::Open(first).status().message(),
              HasSubstr("tensor \"a\" is already in part 1"));

  // A part 2 of another model: same tensors in other numbers.
  GgufWriter other;
  for (const char* name : {"b", "c", "d"}) other.AddTensor(name, QuantType::kF32, {2, 3}, data);
  other.SetInt("split.no", GgufType::kU16, 1);
  other.SetInt("split.count", GgufType::kU16, 2);
  other.SetI32("split.tensors.count", 3);
  std::filesystem::remove(second);
  ASSERT_TRUE(other.WriteFile(second).ok());
  EXPECT_THAT(GgufFile::Open(first).status().message(),
              HasSubstr("\"split.tensors.count\": found 3, but the 2 parts hold 4"));
}

TEST_F(GgufFileTest, PartsThatContradictPartOneAreRefused) {
  const std::vector<std::byte> data(24);
  const std::vector<int> parts = {1, 2};
  const std::string first = ThreeTensors(data).WriteSplitFiles(Path("m"), parts).value();
  struct Case {
    int64_t number, count, n_tensors;
    const char* message;
  };
  for (const Case& c : {Case{0, 2, 3, "key \"split.no\": found 0, wanted 1"},
                        Case{1, 3, 3, "key \"split.count\": found 3, part 1 says 2"},
                        Case{1, 2, 9, "key \"split.tensors.count\": found 9, part 1 says 3"},
                        Case{1, 60000, 3, "key \"split.count\": found 60000, wanted 0 to 512"},
                        Case{700, 2, 3, "key \"split.no\": found 700, wanted 0 to 511"}}) {
    GgufWriter part;
    part.SetInt("split.no", GgufType::kU16, c.number);
    part.SetInt("split.count", GgufType::kU16, c.count);
    part.SetI32("split.tensors.count", static_cast<int32_t>(c.n_tensors));
    ASSERT_TRUE(part.WriteFile(Path("m-00002-of-00002.gguf")).ok());
    EXPECT_THAT(GgufFile::Open(first).status().message(), HasSubstr(c.message));
  }
}

TEST_F(GgufFileTest, WhatCannotBeOpenedOrWrittenIsAnErrorWithItsPath) {
  EXPECT_THAT(GgufFile::Open(Path("none.gguf")).status().message(), HasSubstr(Path("none.gguf")));
  EXPECT_THAT(GgufWriter().WriteFile(Path("no/dir.gguf")).message(),
              HasSubstr(Path("no/dir.gguf")));
}

}  // namespace
}  // namespace holdfast

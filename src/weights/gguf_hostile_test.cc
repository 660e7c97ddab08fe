// Files that lie about themselves, one test for each way: every one must be refused with a message
// that names the place, what was found and the limit, before anything is allocated for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "weights/gguf.h"
#include "weights/gguf_writer.h"

namespace holdfast {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Bytes of a file, field by field.
class Raw {
 public:
  // The header of a file with these counts.
  Raw(uint64_t n_tensors, uint64_t n_keys, uint32_t version = 3) {
    Text("GGUF").U32(version).U64(n_tensors).U64(n_keys);
  }
  Raw& U32(uint32_t value) { return Append(&value, sizeof value); }
  Raw& U64(uint64_t value) { return Append(&value, sizeof value); }
  Raw& Text(std::string_view text) { return Append(text.data(), text.size()); }
  Raw& String(std::string_view text) { return U64(text.size()).Text(text); }
  Raw& Key(std::string_view key, uint32_t type) { return String(key).U32(type); }
  Raw& Tensor(std::string_view name, const std::vector<uint64_t>& ne, uint32_t type,
              uint64_t offset) {
    String(name).U32(static_cast<uint32_t>(ne.size()));
    for (uint64_t n : ne) U64(n);
    return U32(type).U64(offset);
  }
  Raw& Zeros(size_t n) {
    bytes_.resize(bytes_.size() + n);
    return *this;
  }
  // To the next multiple of n.
  Raw& Pad(size_t n = 32) { return Zeros((n - bytes_.size() % n) % n); }

  std::string Error() const {
    const auto file = GgufFile::Parse(bytes_, "bad.gguf");
    return file.ok() ? "no error" : file.status().message();
  }

 private:
  Raw& Append(const void* data, size_t n) {
    const auto* p = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), p, p + n);
    return *this;
  }
  std::vector<std::byte> bytes_;
};

constexpr uint32_t kU32 = 4, kI32 = 5, kString = 8, kArray = 9, kU64 = 10;
constexpr uint32_t kF32Tensor = 0, kQ4KTensor = 12;

TEST(GgufHostileTest, AnythingButGgufTwoOrThreeInLittleEndian) {
  EXPECT_EQ(GgufFile::Parse({}, "bad.gguf").status().message(),
            "bad.gguf: magic at offset 0: needs 4 bytes, the file has 0 left");
  const std::string text = "# just a text file, long enough";
  EXPECT_THAT(GgufFile::Parse(std::as_bytes(std::span(text)), "bad.gguf").status().message(),
              HasSubstr("not a GGUF file"));
  EXPECT_EQ(Raw(0, 0, 1).Error(), "bad.gguf: GGUF version 1, wanted 2 or 3");
  EXPECT_EQ(Raw(0, 0, 0x03000000).Error(),
            "bad.gguf: GGUF version 50331648 (a big-endian file), wanted 2 or 3");
  EXPECT_EQ(Raw(0, 0, 2).Error(), "no error");
}

TEST(GgufHostileTest, CountsBeyondLimitOrFile) {
  EXPECT_EQ(Raw(uint64_t{1} << 60, 0).Error(),
            "bad.gguf: tensor count: found 1152921504606846976, the limit is 65536");
  EXPECT_EQ(Raw(UINT64_MAX, 0).Error(),
            "bad.gguf: tensor count: found 18446744073709551615, the limit is 65536");
  EXPECT_EQ(Raw(0, uint64_t{1} << 60).Error(),
            "bad.gguf: key count: found 1152921504606846976, the limit is 65536");
  EXPECT_EQ(Raw(60000, 0).Error(),
            "bad.gguf: tensor count: found 60000, which need 24 bytes each; the file has 0 left");
  EXPECT_EQ(Raw(0, 60000).Zeros(100).Error(),
            "bad.gguf: key count: found 60000, which need 13 bytes each; the file has 100 left");
}

TEST(GgufHostileTest, KeyLengthsBeyondLimitOrFile) {
  EXPECT_EQ(
      Raw(0, 1).U64(UINT64_MAX).Zeros(64).Error(),
      "bad.gguf: name of key 0 at offset 24: 18446744073709551615 bytes long, the limit is 65535");
  EXPECT_EQ(Raw(0, 1).U64(65).Zeros(64).Error(),
            "bad.gguf: name of key 0 at offset 32: needs 65 bytes, the file has 64 left");
  EXPECT_EQ(Raw(0, 1).Key("", kU32).U32(0).Error(), "bad.gguf: key 0 has no name");
}

TEST(GgufHostileTest, DuplicateKeys) {
  EXPECT_EQ(Raw(0, 2).Key("k", kU32).U32(1).Key("k", kU32).U32(2).Error(),
            "bad.gguf: key \"k\" occurs twice");
}

TEST(GgufHostileTest, ValueTypesThatDoNotExist) {
  EXPECT_EQ(Raw(0, 1).Key("k", 13).U64(0).Error(),
            "bad.gguf: key \"k\": value of type 13, wanted u8 to f64");
  EXPECT_EQ(Raw(0, 1).Key("k", 0xffffffff).U64(0).Error(),
            "bad.gguf: key \"k\": value of type -1, wanted u8 to f64");
  EXPECT_EQ(Raw(0, 1).Key("k", kArray).U32(kArray).U64(0).Error(),
            "bad.gguf: key \"k\": array of array, wanted u8 to f64 (arrays do not nest)");
  EXPECT_EQ(
      Raw(0, 1).Key("k", kArray).U32(0x80000000).U64(0).Error(),
      "bad.gguf: key \"k\": array of type -2147483648, wanted u8 to f64 (arrays do not nest)");
}

TEST(GgufHostileTest, ArrayLengthsBeyondLimitOrFile) {
  EXPECT_EQ(
      Raw(0, 1).Key("k", kArray).U32(kI32).U64(uint64_t{1} << 62).Error(),
      "bad.gguf: key \"k\": array length: found 4611686018427387904, the limit is 1073741824");
  EXPECT_EQ(Raw(0, 1).Key("k", kArray).U32(kU64).U64(1 << 30).Zeros(80).Error(),
            "bad.gguf: key \"k\": array length: found 1073741824, which need 8 bytes each; "
            "the file has 80 left");
  EXPECT_EQ(Raw(0, 1).Key("k", kArray).U32(kString).U64(11).Zeros(80).Error(),
            "bad.gguf: key \"k\": array length: found 11, which need 8 bytes each; "
            "the file has 80 left");
  EXPECT_EQ(Raw(0, 1).Key("k", kArray).U32(kString).U64(2).String("a").U64(99).Error(),
            "bad.gguf: key \"k\" at offset 66: needs 99 bytes, the file has 0 left");
  EXPECT_THAT(Raw(0, 1).Key("k", kString).U64(uint64_t{1} << 63).Zeros(80).Error(),
              HasSubstr("9223372036854775808 bytes long, the limit is 1073741824"));
}

TEST(GgufHostileTest, Alignments) {
  const auto with_alignment = [](uint32_t value) {
    return Raw(0, 1).Key("general.alignment", kU32).U32(value).Error();
  };
  EXPECT_EQ(with_alignment(0), "bad.gguf: key \"general.alignment\": found 0, wanted 8 to 65536");
  EXPECT_EQ(with_alignment(3), "bad.gguf: key \"general.alignment\": found 3, wanted 8 to 65536");
  EXPECT_EQ(with_alignment(48),
            "bad.gguf: key \"general.alignment\": found 48, wanted a power of two");
  EXPECT_EQ(with_alignment(1u << 31),
            "bad.gguf: key \"general.alignment\": found 2147483648, wanted 8 to 65536");
  EXPECT_EQ(with_alignment(64), "no error");
  EXPECT_EQ(Raw(0, 1).Key("general.alignment", kI32).U32(0xffffffe0).Error(),
            "bad.gguf: key \"general.alignment\": found -32, wanted 8 to 65536");
  EXPECT_EQ(Raw(0, 1).Key("general.alignment", kString).String("32").Error(),
            "bad.gguf: key \"general.alignment\": found string \"32\", wanted an integer");
}

TEST(GgufHostileTest, TensorNames) {
  EXPECT_EQ(Raw(1, 0).Tensor(std::string(64, 'x'), {1}, kF32Tensor, 0).Error(),
            "bad.gguf: name of tensor 0 at offset 24: 64 bytes long, the limit is 63");
  EXPECT_EQ(Raw(1, 0).Tensor("", {1}, kF32Tensor, 0).Error(), "bad.gguf: tensor 0 has no name");
  EXPECT_EQ(Raw(2, 0).Tensor("t", {1}, kF32Tensor, 0).Tensor("t", {1}, kF32Tensor, 32).Error(),
            "bad.gguf: tensor \"t\" occurs twice");
  EXPECT_THAT(Raw(1, 0).Tensor("\x1b[31m\n", {0}, kF32Tensor, 0).Error(),
              HasSubstr("tensor \"\\x1b[31m\\x0a\""));
}

TEST(GgufHostileTest, TensorShapes) {
  EXPECT_EQ(Raw(1, 0).Tensor("t", {}, kF32Tensor, 0).Error(),
            "bad.gguf: tensor \"t\": 0 dimensions, wanted 1 to 4");
  EXPECT_EQ(Raw(1, 0).Tensor("t", {1, 1, 1, 1, 1}, kF32Tensor, 0).Error(),
            "bad.gguf: tensor \"t\": 5 dimensions, wanted 1 to 4");
  EXPECT_EQ(Raw(1, 0).Tensor("t", {4, 0}, kF32Tensor, 0).Error(),
            "bad.gguf: tensor \"t\": dimension 1 is 0, wanted 1 or more");
  EXPECT_EQ(Raw(1, 0).Tensor("t", {UINT64_MAX}, kF32Tensor, 0).Error(),
            "bad.gguf: tensor \"t\": dimension 0 is -1, wanted 1 or more");
  EXPECT_THAT(Raw(1, 0).Tensor("t", {uint64_t{1} << 32, uint64_t{1} << 32}, kF32Tensor, 0).Error(),
              HasSubstr("dimension 1 is 4294967296: more than 2^63 values"));
  // 2^62 values fit, their bytes do not.
  EXPECT_THAT(Raw(1, 0).Tensor("t", {1, uint64_t{1} << 62}, kF32Tensor, 0).Error(),
              HasSubstr("has more than 2^63 bytes"));
  EXPECT_THAT(Raw(1, 0).Tensor("t", {uint64_t{1} << 62}, kF32Tensor, 0).Error(),
              HasSubstr("does not fit 2^63 bytes"));
  EXPECT_EQ(
      Raw(1, 0).Tensor("t", {640, 2}, kQ4KTensor, 0).Error(),
      "bad.gguf: tensor \"t\": a row of 640 values cannot be Q4_K: it needs a multiple of 256");
}

TEST(GgufHostileTest, TensorTypesThatDoNotExist) {
  for (const uint32_t id : {4u, 31u, 43u, 1000u}) {
    EXPECT_EQ(Raw(1, 0).Tensor("t", {32}, id, 0).Error(),
              "bad.gguf: tensor \"t\": no tensor type has id " + std::to_string(id));
  }
  EXPECT_EQ(Raw(1, 0).Tensor("t", {32}, 0xfffffffe, 0).Error(),
            "bad.gguf: tensor \"t\": no tensor type has id -2");
}

TEST(GgufHostileTest, DataOverlappingOutOfOrderOrOutsideTheFile) {
  EXPECT_EQ(Raw(1, 0).Tensor("t", {8}, kF32Tensor, 0).Pad().Zeros(31).Error(),
            "bad.gguf: tensor \"t\": 32 bytes at file offset 64, but the file has 95");
  EXPECT_EQ(Raw(1, 0).Tensor("t", {8}, kF32Tensor, 0).Pad().Zeros(32).Error(), "no error");
  EXPECT_THAT(Raw(1, 0).Tensor("t", {uint64_t{1} << 60}, kF32Tensor, 0).Pad().Zeros(32).Error(),
              HasSubstr("4611686018427387904 bytes at file offset 64, but the file has 96"));
  EXPECT_THAT(Raw(1, 0).Tensor("t", {8}, kF32Tensor, 32).Pad().Zeros(64).Error(),
              HasSubstr("data at offset 32, wanted 0"));
  EXPECT_THAT(Raw(1, 0).Tensor("t", {8}, kF32Tensor, UINT64_MAX - 31).Pad().Zeros(64).Error(),
              HasSubstr("data at offset 18446744073709551584, wanted 0"));
  const auto two = [](uint64_t offset) {
    return Raw(2, 0)
        .Tensor("a", {9}, kF32Tensor, 0)
        .Tensor("b", {8}, kF32Tensor, offset)
        .Pad()
        .Zeros(128)
        .Error();
  };
  EXPECT_EQ(two(64), "no error");
  EXPECT_THAT(two(32), AllOf(HasSubstr("tensor \"b\": data at offset 32, wanted 64"),
                             HasSubstr("it overlaps")));
  EXPECT_THAT(two(0), HasSubstr("it overlaps"));
  EXPECT_THAT(two(96), HasSubstr("data at offset 96, wanted 64"));
  // No tensors need no data section.
  EXPECT_EQ(Raw(0, 0).Error(), "no error");
}

TEST(GgufHostileTest, ASplitFileInMemory) {
  EXPECT_THAT(Raw(0, 1).Key("split.count", kU32).U32(2).Error(),
              HasSubstr("\"split.count\": found 2, wanted 1"));
  EXPECT_THAT(Raw(0, 1).Key("split.count", kString).String("2").Error(),
              HasSubstr("\"split.count\": found string \"2\", wanted an integer"));
}

TEST(GgufHostileTest, EveryTruncationIsAnErrorOrTheWholeHeader) {
  GgufWriter writer;
  writer.SetString("s", "text");
  writer.SetStrings("list", std::vector<std::string>{"a", "bc"});
  writer.SetInts("ints", GgufType::kI16, std::vector<int64_t>{1, 2, 3});
  writer.SetBool("b", true);
  const std::vector<std::byte> data(34, std::byte{1});
  writer.AddTensor("t", QuantType::kQ8_0, {32}, data);
  const std::vector<std::byte> bytes = writer.ToBytes();
  const size_t whole = bytes.size() - (64 - 34);  // the padding after the data is not needed
  for (size_t n = 0; n < bytes.size(); ++n) {
    // An own buffer of exactly n bytes, so that a sanitizer sees any read beyond it.
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n));
    const auto file = GgufFile::Parse(cut, "cut.gguf");
    ASSERT_EQ(file.ok(), n >= whole) << n;
    if (!file.ok()) {
      ASSERT_THAT(file.status().message(), HasSubstr("cut.gguf: "));
    }
  }
}

}  // namespace
}  // namespace holdfast

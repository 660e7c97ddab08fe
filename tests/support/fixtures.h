#ifndef HOLDFAST_TESTS_SUPPORT_FIXTURES_H_
#define HOLDFAST_TESTS_SUPPORT_FIXTURES_H_

// Reference values: tests/fixtures/README.md says what each name means.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace holdfast {

inline std::string SourcePath(const std::string& relative) {
  return std::string(HOLDFAST_SOURCE_DIR) + "/" + relative;
}
inline std::string FixturePath(const std::string& name) {
  return SourcePath("tests/fixtures/" + name);
}

inline std::string ReadWhole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return std::string(std::istreambuf_iterator<char>(in), {});
}
inline nlohmann::json ReadJson(const std::string& path) {
  return nlohmann::json::parse(ReadWhole(path));
}

// The tensors of one safetensors file (F32 and I32).
class ExpectedTensors {
 public:
  struct Tensor {
    std::vector<int64_t> shape;
    std::vector<float> floats;
    std::vector<int32_t> integers;
    int64_t cols() const { return shape.back(); }
  };

  explicit ExpectedTensors(const std::string& path) : bytes_(ReadWhole(path)) {
    uint64_t header;
    std::memcpy(&header, bytes_.data(), 8);
    header_ = nlohmann::json::parse(bytes_.substr(8, header));
    data_ = 8 + header;
  }
  bool Has(const std::string& name) const { return header_.contains(name); }
  Tensor Get(const std::string& name) const {
    const nlohmann::json& entry = header_.at(name);
    Tensor tensor{.shape = entry["shape"].get<std::vector<int64_t>>()};
    const size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    const bool is_float = entry["dtype"] == "F32";
    if (is_float) tensor.floats.resize((end - begin) / 4);
    if (!is_float) tensor.integers.resize((end - begin) / 4);
    std::memcpy(is_float ? static_cast<void*>(tensor.floats.data()) : tensor.integers.data(),
                bytes_.data() + data_ + begin, end - begin);
    return tensor;
  }

 private:
  std::string bytes_;
  nlohmann::json header_;
  size_t data_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_TESTS_SUPPORT_FIXTURES_H_

#ifndef HOLDFAST_TOKEN_TEST_SUPPORT_H_
#define HOLDFAST_TOKEN_TEST_SUPPORT_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "token/tokenizer.h"
#include "weights/gguf.h"

namespace holdfast {

inline std::string SourcePath(const std::string& path) {
  return std::string(HOLDFAST_SOURCE_DIR) + "/" + path;
}

inline std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline nlohmann::ordered_json ReadJson(const std::string& path) {
  return nlohmann::ordered_json::parse(ReadText(path));
}

inline VocabularyData ReadVocabularyOf(const std::string& path) {
  const auto file = GgufFile::Open(SourcePath(path));
  EXPECT_TRUE(file.ok()) << file.status().ToString();
  auto data = ReadVocabulary(**file);
  EXPECT_TRUE(data.ok()) << data.status().ToString();
  return *std::move(data);
}

inline constexpr char kTinyModel[] = "tests/fixtures/tinyA-bf16.gguf";
inline constexpr char kDemoModel[] = "models/demo/holdfast-demo-Q4_K_M.gguf";

// The tokenizer of a GGUF file of this repository.
inline std::unique_ptr<Tokenizer> TokenizerOf(const std::string& path,
                                              const Tokenizer::Options& options = {}) {
  auto tokenizer = Tokenizer::Create(ReadVocabularyOf(path), options);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return *std::move(tokenizer);
}

inline const Tokenizer& TinyTokenizer() {
  static const std::unique_ptr<Tokenizer> tokenizer = TokenizerOf(kTinyModel);
  return *tokenizer;
}

inline const Tokenizer& DemoTokenizer() {
  static const std::unique_ptr<Tokenizer> tokenizer = TokenizerOf(kDemoModel);
  return *tokenizer;
}

}  // namespace holdfast

#endif  // HOLDFAST_TOKEN_TEST_SUPPORT_H_

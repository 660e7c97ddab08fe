#include "token/placeholder_vocabulary.h"

#include "base/check.h"
#include "token/byte_symbols.h"

namespace holdfast {

VocabularyData PlaceholderVocabulary(int64_t n_tokens) {
  HF_CHECK(n_tokens >= 256);
  VocabularyData data{.pre = "qwen35"};
  for (int byte = 0; byte < 256; ++byte) {
    data.tokens.push_back(ByteSymbol(static_cast<uint8_t>(byte)));
    data.types.push_back(TokenType::kNormal);
  }
  for (int64_t id = 256; id < n_tokens; ++id) {
    data.tokens.push_back("[" + std::to_string(id) + "]");
    data.types.push_back(TokenType::kUserDefined);
  }
  return data;
}

}  // namespace holdfast

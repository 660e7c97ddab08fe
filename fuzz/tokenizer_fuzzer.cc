// Any bytes through the tokenizer and back: nothing may crash, no byte may be lost, streaming gives
// what decoding gives. The first byte chooses how added tokens are read; the rest is the text.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "token/byte_symbols.h"
#include "token/detokenizer.h"
#include "token/tokenizer.h"
#include "token/utf8.h"

namespace {

using namespace holdfast;  // NOLINT: a fuzzer is one file

// All bytes, merges that chain and overlap, added tokens of both kinds with common beginnings.
VocabularyData Vocabulary() {
  VocabularyData data;
  for (int byte = 0; byte < 256; ++byte) {
    data.tokens.push_back(ByteSymbol(static_cast<uint8_t>(byte)));
  }
  for (const char* text : {"aa", "aaa", "aaaa", "ab", "aba", "Ġa", "Ġaa", "ĊĊ"}) {
    data.tokens.emplace_back(text);
  }
  data.types.assign(data.tokens.size(), TokenType::kNormal);
  for (const char* text : {"<|im_end|>", "<|im_start|>", "<t>", "<t>x", "你"}) {
    data.tokens.emplace_back(text);
    data.types.push_back(data.tokens.size() % 2 == 0 ? TokenType::kControl
                                                     : TokenType::kUserDefined);
  }
  data.merges = {"a a", "aa aa", "a b", "ab a", "aa a", "Ġ a", "Ġa a", "Ċ Ċ"};
  data.pre = "qwen35";
  return data;
}

std::unique_ptr<Tokenizer> Make(bool normalise) {
  auto tokenizer = Tokenizer::Create(Vocabulary(), {.normalise = normalise});
  HF_CHECK(tokenizer.ok());
  return *std::move(tokenizer);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::unique_ptr<Tokenizer> plain = Make(false);
  static const std::unique_ptr<Tokenizer> normalising = Make(true);
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::vector<TokenId> ids;
  if (data[0] % 4 == 3) {
    MarkedText marked{std::string(text), {}};
    const auto n = static_cast<int64_t>(text.size());
    if (n > 2) marked.plain = {{n / 3, n / 2}, {n / 2 + 1, n}};
    const TokenizedText out = plain->EncodeWithOffsets(marked);
    HF_CHECK(out.ids.size() == out.begins.size());
    for (const int64_t begin : out.begins) HF_CHECK(begin >= 0 && begin < n);
    ids = out.ids;
  } else {
    ids = plain->Encode(text, static_cast<AddedTokens>(data[0] % 4));
    normalising->Encode(text, static_cast<AddedTokens>(data[0] % 4));
  }
  const std::string decoded = plain->Decode(ids, /*include_control=*/true);
  HF_CHECK(decoded == RepairUtf8(text));
  Detokenizer detokenizer(plain.get(), /*include_control=*/true);
  std::string streamed;
  for (const TokenId id : ids) {
    const std::string part = detokenizer.Push(id);
    HF_CHECK(IsValidUtf8(part));
    streamed += part;
  }
  HF_CHECK(streamed + detokenizer.Flush() == decoded);
  return 0;
}

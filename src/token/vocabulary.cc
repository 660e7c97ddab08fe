#include "token/vocabulary.h"

#include <fmt/format.h>

#include <string_view>
#include <unordered_map>

#include "token/byte_symbols.h"
#include "token/utf8.h"
#include "weights/gguf_value.h"

namespace holdfast {
namespace {

constexpr size_t kMaxTokens = size_t{1} << 24;
constexpr size_t kMaxTokenBytes = 4096;      // the longest text of the released vocabulary has 256
constexpr size_t kMaxAddedTokenBytes = 256;  // bounds the scan for added tokens

using TokenIndex = std::unordered_map<std::string_view, size_t>;

Status BadToken(size_t id, std::string_view text, std::string_view why) {
  return DataLossError(fmt::format("tokenizer.ggml.tokens[{}] = {}: {}", id, Quoted(text), why));
}

Status CheckText(size_t id, std::string_view text, TokenType type) {
  if (text.empty()) return BadToken(id, text, "the text is empty");
  const bool is_normal = type == TokenType::kNormal;
  const size_t limit = is_normal ? kMaxTokenBytes : kMaxAddedTokenBytes;
  if (text.size() > limit) {
    return BadToken(id, text, fmt::format("{} bytes long, the limit is {}", text.size(), limit));
  }
  if (is_normal && !BytesOfSymbols(text)) {
    return BadToken(id, text, "a normal token must be in byte-to-unicode form");
  }
  if (!IsValidUtf8(text)) return BadToken(id, text, "the text is not valid UTF-8");
  return OkStatus();
}

Status CheckType(size_t id, TokenType type) {
  switch (type) {
    case TokenType::kNormal:
    case TokenType::kUnknown:
    case TokenType::kControl:
    case TokenType::kUserDefined:
    case TokenType::kUnused:
      return OkStatus();
    case TokenType::kByte:
      return DataLossError(fmt::format(
          "tokenizer.ggml.token_type[{}] is 6 (byte), which byte-level BPE does not have", id));
  }
  return DataLossError(fmt::format("tokenizer.ggml.token_type[{}] is {}, wanted 1 to 5", id,
                                   static_cast<int32_t>(type)));
}

// Checks every token on its own and fills `index` with the normal ones.
Status CheckTokens(const VocabularyData& data, TokenIndex* index) {
  if (data.tokens.empty()) return DataLossError("tokenizer.ggml.tokens is empty");
  if (data.tokens.size() > kMaxTokens) {
    return DataLossError(fmt::format("tokenizer.ggml.tokens has {} entries, the limit is {}",
                                     data.tokens.size(), kMaxTokens));
  }
  if (data.types.size() != data.tokens.size()) {
    return DataLossError(
        fmt::format("tokenizer.ggml.token_type has {} entries, tokenizer.ggml.tokens {}",
                    data.types.size(), data.tokens.size()));
  }
  std::unordered_map<std::string_view, size_t> seen;
  seen.reserve(data.tokens.size());
  index->reserve(data.tokens.size());
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    HF_RETURN_IF_ERROR(CheckType(id, data.types[id]));
    HF_RETURN_IF_ERROR(CheckText(id, data.tokens[id], data.types[id]));
    const auto [it, is_new] = seen.emplace(data.tokens[id], id);
    if (!is_new) {
      return BadToken(id, data.tokens[id], fmt::format("token {} has the same text", it->second));
    }
    if (data.types[id] == TokenType::kNormal) index->emplace(data.tokens[id], id);
  }
  return OkStatus();
}

Status CheckByteSymbols(const TokenIndex& index) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string symbol = ByteSymbol(static_cast<uint8_t>(byte));
    if (!index.contains(symbol)) {
      return DataLossError(fmt::format("tokenizer.ggml.tokens has no normal token {} for byte {}",
                                       Quoted(symbol), byte));
    }
  }
  return OkStatus();
}

Status CheckMerges(const VocabularyData& data, const TokenIndex& index) {
  std::unordered_map<std::string_view, size_t> seen;
  seen.reserve(data.merges.size());
  for (size_t rank = 0; rank < data.merges.size(); ++rank) {
    const std::string_view merge = data.merges[rank];
    const auto bad = [rank, merge](std::string_view why) {
      return DataLossError(
          fmt::format("tokenizer.ggml.merges[{}] = {}: {}", rank, Quoted(merge), why));
    };
    const size_t space = merge.find(' ');
    if (space == std::string_view::npos || space != merge.rfind(' ')) {
      return bad("wanted two token texts with one space between them");
    }
    const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    for (const std::string_view text : {left, right}) {
      if (!index.contains(text)) return bad(fmt::format("{} is no normal token", Quoted(text)));
    }
    if (const std::string both = std::string(left).append(right); !index.contains(both)) {
      return bad(fmt::format("the result {} is no normal token", Quoted(both)));
    }
    const auto [it, is_new] = seen.emplace(merge, rank);
    if (!is_new) return bad(fmt::format("the same as merge {}", it->second));
  }
  return OkStatus();
}

Status CheckId(std::string_view key, const std::optional<TokenId>& id, size_t n_tokens) {
  if (!id || (*id >= 0 && static_cast<size_t>(*id) < n_tokens)) return OkStatus();
  return DataLossError(fmt::format("{} is {}, the vocabulary has {} tokens", key, *id, n_tokens));
}

}  // namespace

Status ValidateVocabulary(const VocabularyData& data) {
  TokenIndex index;
  HF_RETURN_IF_ERROR(CheckTokens(data, &index));
  HF_RETURN_IF_ERROR(CheckByteSymbols(index));
  HF_RETURN_IF_ERROR(CheckMerges(data, index));
  const size_t n = data.tokens.size();
  HF_RETURN_IF_ERROR(CheckId("tokenizer.ggml.bos_token_id", data.bos, n));
  HF_RETURN_IF_ERROR(CheckId("tokenizer.ggml.eos_token_id", data.eos, n));
  HF_RETURN_IF_ERROR(CheckId("tokenizer.ggml.eot_token_id", data.eot, n));
  HF_RETURN_IF_ERROR(CheckId("tokenizer.ggml.padding_token_id", data.pad, n));
  if (data.add_bos && !data.bos) {
    return DataLossError(
        "tokenizer.ggml.add_bos_token is true, but there is no tokenizer.ggml.bos_token_id");
  }
  return OkStatus();
}

}  // namespace holdfast

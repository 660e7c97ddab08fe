#ifndef HOLDFAST_TOKEN_VOCABULARY_H_
#define HOLDFAST_TOKEN_VOCABULARY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace holdfast {

class GgufFile;

using TokenId = int32_t;

// The values are those of tokenizer.ggml.token_type.
enum class TokenType : int32_t {
  kNormal = 1,       // a BPE symbol, in byte-to-unicode form
  kUnknown = 2,      // verbatim text, never produced by encoding
  kControl = 3,      // an added token that is not shown unless asked for
  kUserDefined = 4,  // an added token that is shown
  kUnused = 5,       // padding of the vocabulary: never encoded, decoded or sampled
  kByte = 6,         // belongs to other kinds of vocabulary; refused
};

// tokenizer.* of a GGUF file as it stands there.
struct VocabularyData {
  std::vector<std::string> tokens;
  std::vector<TokenType> types;     // one per token
  std::vector<std::string> merges;  // "left right"; the index is the rank, lower first
  std::optional<TokenId> bos, eos, eot, pad;
  bool add_bos = false;
  std::string pre;            // tokenizer.ggml.pre: "qwen35" or "qwen2"
  std::string chat_template;  // empty: the file has none
};

// Reads tokenizer.* of `file`. Errors: kNotFound when the file has no tokenizer (model "none" or
// absent), kUnimplemented for another tokenizer than byte-level BPE, kDataLoss naming the key for
// everything that ValidateVocabulary refuses or that has the wrong type.
Result<VocabularyData> ReadVocabulary(const GgufFile& file);

// OK when a tokenizer can be built from `data`: lengths agree, types are known, texts are unique,
// not empty and in byte-to-unicode form, all 256 byte symbols are there, merges join two tokens
// into a third, ids are inside the vocabulary.
Status ValidateVocabulary(const VocabularyData& data);

}  // namespace holdfast

#endif  // HOLDFAST_TOKEN_VOCABULARY_H_

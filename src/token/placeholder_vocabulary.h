#ifndef HOLDFAST_TOKEN_PLACEHOLDER_VOCABULARY_H_
#define HOLDFAST_TOKEN_PLACEHOLDER_VOCABULARY_H_

#include <cstdint>

#include "token/vocabulary.h"

namespace holdfast {

// For model files without a tokenizer (benchmarks, tests): every byte is a token, the other ids
// show as "[id]", and none ends a turn. `n_tokens` >= 256.
VocabularyData PlaceholderVocabulary(int64_t n_tokens);

}  // namespace holdfast

#endif  // HOLDFAST_TOKEN_PLACEHOLDER_VOCABULARY_H_

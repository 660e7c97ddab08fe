#include "model/ngram_rows.h"

#include <array>

#include "base/check.h"

namespace holdfast {

void NgramRows(const PleConfig& ple, std::span<const int32_t> tokens, int64_t first,
               std::span<int64_t> out) {
  const int64_t end = static_cast<int64_t>(tokens.size());
  HF_CHECK(static_cast<int64_t>(out.size()) == (end - first) * ple.n_heads);
  int64_t* rows = out.data();
  for (int64_t t = first; t < end; ++t) {
    // Products stay below 2^63 for ids below the vocabulary's size, so nothing wraps.
    uint64_t mix = static_cast<uint64_t>(tokens[t]) * ple.multipliers[0];
    bool cut = false;
    int head = 0;
    for (int s = 1; s < ple.ngram_size; ++s) {
      cut = cut || t - s < 0 || tokens[t - s] == ple.eos_token_id;
      const uint64_t context = static_cast<uint64_t>(cut ? ple.eos_token_id : tokens[t - s]);
      mix ^= context * ple.multipliers[s];
      for (int i = 0; i < ple.heads_per_ngram; ++i, ++head) {
        *rows++ = static_cast<int64_t>(mix % ple.head_vocab_sizes[head] + ple.head_offsets[head]);
      }
    }
  }
}

}  // namespace holdfast

#ifndef HOLDFAST_STORE_MODEL_IDENTITY_H_
#define HOLDFAST_STORE_MODEL_IDENTITY_H_

// Which model a state belongs to: configuration, tokenizer, and every tensor's name, type, shape
// and content, whatever files they lie in and in whatever order. The chat template and descriptive
// keys are left out: they do not change what a token sequence computes.

#include <atomic>
#include <optional>
#include <string>

#include "base/hash128.h"
#include "base/status.h"

namespace holdfast {

class GgufFile;
struct ModelConfig;

struct ModelIdentity {
  std::string name;  // for people only
  Hash128 config;
  Hash128 vocabulary;
  // From 64 KiB samples of each trunk tensor, and from all their bytes. Both cover config and
  // vocabulary.
  Hash128 provisional;
  std::optional<Hash128> full;
  // Of the draft layer's tensors, from samples; zero when the model has none.
  Hash128 draft;
};

// Samples at most kIdentitySampleBytes of each tensor, spread over it. `sidecar` may be null.
inline constexpr size_t kIdentitySampleBytes = 64 << 10;
inline constexpr size_t kIdentitySamplePieces = 16;
ModelIdentity ProvisionalIdentity(const GgufFile& trunk, const GgufFile* sidecar,
                                  const ModelConfig& config);

// Hashes every byte of the trunk; minutes for a large model, so it runs on a background thread.
// kCancelled soon after `cancel` becomes true.
Result<Hash128> FullIdentity(const GgufFile& trunk, const ModelConfig& config,
                             const std::atomic<bool>& cancel);

// Device, inode, size and modification time of every file of the model: equal keys mean that the
// samples need not be read again. Empty when the model was not opened from files.
std::string IdentityCacheKey(const GgufFile& trunk, const GgufFile* sidecar);

}  // namespace holdfast

#endif  // HOLDFAST_STORE_MODEL_IDENTITY_H_

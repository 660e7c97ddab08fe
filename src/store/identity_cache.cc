#include "store/identity_cache.h"

#include <array>
#include <optional>

#include "weights/model_config.h"

namespace holdfast {
namespace {

constexpr size_t kHexDigits = 32;

// config, vocabulary, provisional and draft, as hex, joined.
std::string ToText(const ModelIdentity& identity) {
  return identity.config.Hex() + identity.vocabulary.Hex() + identity.provisional.Hex() +
         identity.draft.Hex();
}

std::optional<ModelIdentity> FromText(const std::string& text, const std::string& name) {
  if (text.size() != 4 * kHexDigits) return std::nullopt;
  std::array<Hash128, 4> hashes;
  for (size_t i = 0; i < hashes.size(); ++i) {
    const auto hash = Hash128::FromHex(text.substr(i * kHexDigits, kHexDigits));
    if (!hash) return std::nullopt;
    hashes[i] = *hash;
  }
  ModelIdentity identity;
  identity.name = name;
  identity.config = hashes[0];
  identity.vocabulary = hashes[1];
  identity.provisional = hashes[2];
  identity.draft = hashes[3];
  return identity;
}

}  // namespace

ModelIdentity IdentifyModel(Store* store, const GgufFile& trunk, const GgufFile* sidecar,
                            const ModelConfig& config) {
  const std::string key = IdentityCacheKey(trunk, sidecar);
  if (!key.empty()) {
    const auto cached = store->CacheGet(key);
    if (cached.ok() && *cached) {
      if (const auto identity = FromText(**cached, config.name)) return *identity;
    }
  }
  const ModelIdentity identity = ProvisionalIdentity(trunk, sidecar, config);
  if (!key.empty()) static_cast<void>(store->CachePut(key, ToText(identity)));
  return identity;
}

}  // namespace holdfast

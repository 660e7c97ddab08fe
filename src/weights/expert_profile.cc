#include "weights/expert_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace holdfast {
namespace {

constexpr std::string_view kMagic = "HFEXPERT";
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 48;       // magic, version, layers, trunk, draft
constexpr size_t kLayerHeaderBytes = 32;  // experts, hits, late, misses
constexpr size_t kChecksumBytes = 16;
// log2 of the worth of an expert that every row of the largest steps has used for a day.
constexpr float kMostWorth = 64.0f;

template <typename T>
void Put(std::vector<std::byte>* to, T value) {
  const size_t at = to->size();
  to->resize(at + sizeof(value));
  std::memcpy(to->data() + at, &value, sizeof(value));
}

void PutHash(std::vector<std::byte>* to, const Hash128& hash) {
  Put(to, hash.low);
  Put(to, hash.high);
}

// Reads what DecodeExpertProfile() has found to be there.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <typename T>
  T Get() {
    T value;
    HF_CHECK(bytes_.size() >= sizeof(value));
    std::memcpy(&value, bytes_.data(), sizeof(value));
    bytes_ = bytes_.subspan(sizeof(value));
    return value;
  }
  Hash128 GetHash() {
    const auto low = Get<uint64_t>();
    return {.low = low, .high = Get<uint64_t>()};
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace

double ExpertProfile::Layer::hit_rate() const {
  const uint64_t n_uses = n_hits + n_late + n_misses;
  return n_uses == 0 ? 0.0 : static_cast<double>(n_hits) / static_cast<double>(n_uses);
}

uint64_t ExpertProfileBytes(const ExpertProfileKey& key) {
  uint64_t n_bytes = kHeaderBytes + kChecksumBytes;
  for (const int64_t n : key.n_experts) {
    n_bytes += kLayerHeaderBytes + static_cast<uint64_t>(n) * sizeof(float);
  }
  return n_bytes;
}

std::vector<std::byte> EncodeExpertProfile(const ExpertProfile& profile,
                                           const ExpertProfileKey& key) {
  HF_CHECK(profile.layers.size() == key.n_experts.size());
  const auto magic = std::as_bytes(std::span(kMagic));
  std::vector<std::byte> bytes(magic.begin(), magic.end());
  bytes.reserve(ExpertProfileBytes(key));
  Put(&bytes, kVersion);
  Put(&bytes, static_cast<uint32_t>(profile.layers.size()));
  PutHash(&bytes, key.trunk);
  PutHash(&bytes, key.draft);
  for (const ExpertProfile::Layer& layer : profile.layers) {
    Put(&bytes, static_cast<uint64_t>(layer.worth.size()));
    Put(&bytes, layer.n_hits);
    Put(&bytes, layer.n_late);
    Put(&bytes, layer.n_misses);
    for (const float worth : layer.worth) Put(&bytes, worth);
  }
  PutHash(&bytes, Hash128Of(bytes));
  HF_CHECK(bytes.size() == ExpertProfileBytes(key));
  return bytes;
}

Result<ExpertProfile> DecodeExpertProfile(std::span<const std::byte> bytes,
                                          const ExpertProfileKey& key, const std::string& name) {
  const uint64_t n_wanted = ExpertProfileBytes(key);
  if (bytes.size() < kHeaderBytes + kChecksumBytes ||
      std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    return DataLossError(name + ": not a profile of experts");
  }
  Reader reader(bytes.subspan(kMagic.size()));
  if (const auto version = reader.Get<uint32_t>(); version != kVersion) {
    return UnimplementedError(
        fmt::format("{}: version {}, this program reads {}", name, version, kVersion));
  }
  const auto n_layers = reader.Get<uint32_t>();
  const Hash128 trunk = reader.GetHash(), draft = reader.GetHash();
  if (trunk != key.trunk || draft != key.draft || n_layers != key.n_experts.size()) {
    return FailedPreconditionError(name + ": of another model");
  }
  if (bytes.size() != n_wanted) {
    return DataLossError(fmt::format("{}: {} bytes, wanted {}", name, bytes.size(), n_wanted));
  }
  const auto content = bytes.first(bytes.size() - kChecksumBytes);
  if (Reader(bytes.last(kChecksumBytes)).GetHash() != Hash128Of(content)) {
    return DataLossError(name + ": its checksum does not match");
  }
  ExpertProfile profile;
  for (size_t i = 0; i < key.n_experts.size(); ++i) {
    if (reader.Get<uint64_t>() != static_cast<uint64_t>(key.n_experts[i])) {
      return FailedPreconditionError(fmt::format("{}: other numbers of experts", name));
    }
    ExpertProfile::Layer& layer = profile.layers.emplace_back();
    layer.n_hits = reader.Get<uint64_t>();
    layer.n_late = reader.Get<uint64_t>();
    layer.n_misses = reader.Get<uint64_t>();
    layer.worth.resize(static_cast<size_t>(key.n_experts[i]));
    for (float& worth : layer.worth) {
      worth = reader.Get<float>();
      if (!(worth <= kMostWorth)) {  // NaN, too
        return DataLossError(
            fmt::format("{}: layer {} has an expert of worth {}, at most {} can be", name, i, worth,
                        kMostWorth));
      }
    }
  }
  return profile;
}

}  // namespace holdfast
